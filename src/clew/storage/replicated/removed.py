"""Removals that a store has acknowledged and not handed over yet: a merge or a copy from the other store honours them.

A process that reaches only one of the two stores may remove what only the other one has. The removal is in the journal of the
store that acknowledged it. When the two histories meet, that journal is the record of what must not come back:

- A message or a checkpoint that was removed by its id stays removed. Attachments go with their checkpoint.
- Of two descriptions, that of the secondary stays, like its head: it was the last to serve.
- A deletion of a thread that was not there deletes the other store's thread, unless that was written to later.

Clearing a state removes what its store had. A deletion of a thread removes that incarnation of it, in both stores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from clew.model.commit import Commit
from clew.model.records import JournalEntry
from clew.storage.copying import Content
from clew.storage.replicated.packing import COPY, unpack

Name = tuple[str, str]
"""Namespace and id of a checkpoint."""


@dataclass(slots=True)
class Removed:
    """What the entries of one thread in a journal removed, up to `position`. `threads` are incarnations that were deleted."""

    position: int = -1
    messages: set[str] = field(default_factory=set)
    checkpoints: set[Name] = field(default_factory=set)
    threads: set[str] = field(default_factory=set)
    deleted_at: datetime | None = None

    @classmethod
    def by(cls, entries: Iterable[JournalEntry]) -> Removed:
        """What `entries`, oldest first, removed and did not add again."""
        removed = cls()
        for entry in entries:
            removed.position = entry.position
            if entry.data != COPY:
                removed._note(unpack(entry), entry.incarnation)
        return removed

    def _note(self, commit: Commit, incarnation: str | None) -> None:
        if commit.remove is not None:
            self.messages.update(commit.remove.messages)
            self.checkpoints.update(commit.remove.checkpoints)
            if commit.remove.thread:
                if incarnation is None:
                    self.deleted_at = commit.at
                else:
                    self.threads.add(incarnation)
        self.messages.difference_update(each.message_id for each in commit.messages)
        if commit.checkpoint is not None:
            self.checkpoints.discard((commit.checkpoint.namespace, commit.checkpoint.checkpoint_id))

    def left_of_commit(self, commit: Commit) -> Commit:
        """`commit` without what was removed."""
        new = commit.checkpoint
        gone = new is not None and (new.namespace, new.checkpoint_id) in self.checkpoints
        return replace(
            commit,
            checkpoint=None if gone else new,
            values=None if gone else commit.values,
            attachments=tuple(
                each for each in commit.attachments if (each.namespace, each.checkpoint_id) not in self.checkpoints
            ),
            messages=tuple(each for each in commit.messages if each.message_id not in self.messages),
        )

    def left_of(self, content: Content) -> Content | None:
        """`content` without what was removed; `None` if that is the whole thread."""
        if self.deleted_at is not None and content.thread.updated_at <= self.deleted_at:
            return None
        return replace(
            content,
            checkpoints=tuple(
                each for each in content.checkpoints if (each.namespace, each.checkpoint_id) not in self.checkpoints
            ),
            attachments=tuple(
                each for each in content.attachments if (each.namespace, each.checkpoint_id) not in self.checkpoints
            ),
            messages=tuple(each for each in content.messages if each.message_id not in self.messages),
        )

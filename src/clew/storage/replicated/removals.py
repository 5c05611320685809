"""Pending removals: records that a store has removed and must not get back, although the removal is not shipped yet.

A process that reaches only one store may remove what only the other one has. The removal is in the
journal of the store that acknowledged it. When the two histories meet:

- A message or checkpoint that was removed by id stays removed. Attachments go with their
  checkpoint.
- The secondary's description wins, like its head, because the secondary was the last to serve.
- A deletion of a missing thread deletes the other store's thread, unless that has been written to
  later.

Clearing a state removes only what that store had. Deleting a thread deletes that incarnation in
both stores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from clew.model.commit import Commit
from clew.model.queries import Content
from clew.model.records import JournalEntry
from clew.storage.replicated.journal_format import COPY, unpack

Name = tuple[str, str]
"""A checkpoint's namespace and id."""


@dataclass(slots=True)
class Removals:
    """The removals in a thread's entries, up to `position`. `threads` are deleted incarnations."""

    position: int = -1
    messages: set[str] = field(default_factory=set)
    checkpoints: set[Name] = field(default_factory=set)
    threads: set[str] = field(default_factory=set)
    deleted_at: datetime | None = None

    @classmethod
    def from_entries(cls, entries: Iterable[JournalEntry]) -> Removals:
        """Collect what `entries`, oldest first, removed and did not add again."""
        removals = cls()
        for entry in entries:
            removals.position = entry.position
            if entry.data != COPY:
                removals._add(unpack(entry), entry.incarnation)
        return removals

    def _add(self, commit: Commit, incarnation: str | None) -> None:
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

    def filter_commit(self, commit: Commit) -> Commit:
        """Return `commit` without what was removed."""
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

    def filter_content(self, content: Content) -> Content | None:
        """Return `content` without what was removed; `None` if the whole thread was."""
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

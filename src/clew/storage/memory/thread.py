"""A thread in memory, and the steps of a commit that change it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from heapq import merge
from typing import TypeVar

from msgspec.structs import replace

from clew.model.commit import Applied, Commit, Removal
from clew.model.records import AttachmentRecord, Basis, CheckpointRecord, MessageRecord, Range, ThreadRecord, ValueRow
from clew.storage.branches import is_within, parent_of_branch, said_here, visible, with_point
from clew.storage.facts import StoredRow
from clew.storage.memory.undo import Undo
from clew.storage.protocol import RECEIPTS_KEPT, RECEIPTS_PRUNED
from clew.storage.rules import Decision, made_checkpoint

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True, eq=False)
class Log:
    """A shared value log: values under `inherited` are the parent's."""

    parent: Log | None = None
    inherited: int = 0
    forks: list[Log] = field(default_factory=list)
    held_by_thread: bool = True

    @property
    def fixed_before(self) -> int:
        return max([self.inherited, *(fork.inherited for fork in self.forks)])

    def release(self, undo: Undo) -> None:
        """Release the thread's hold. Ancestors that nothing holds any more are unlinked."""
        undo.fields(self)
        self.held_by_thread = False
        log = self
        while log.parent and not log.held_by_thread and not log.forks:
            undo.fields(log.parent)
            log.parent.forks = [fork for fork in log.parent.forks if fork is not log]
            log = log.parent


@dataclass(slots=True, kw_only=True)
class Thread:
    """One thread. Values that a fork inherited count in the size of its source, not in its own."""

    thread_id: str
    owner: str | None
    ordinal: int
    created_at: datetime
    updated_at: datetime
    incarnation: str
    sequence: int = 0
    last_in_chain: str | None = None
    epoch: int = 0
    next_value: int = 0
    log: Log = field(default_factory=Log)
    size: int = 0
    run_id: str | None = None
    text: str = ""
    data: bytes = b""
    labels: tuple[bytes, ...] = ()
    forked_from: tuple[str, str] | None = None
    points: tuple[Range, ...] = ()
    namespaces: dict[str, dict[str, CheckpointRecord]] = field(default_factory=dict)
    attachments: dict[tuple[str, str], dict[str, AttachmentRecord]] = field(default_factory=dict)
    messages: dict[str, tuple[int, MessageRecord]] = field(default_factory=dict)
    rows: list[ValueRow] = field(default_factory=list)
    recent_receipts: OrderedDict[str, None] = field(default_factory=OrderedDict)
    own: set[str] = field(default_factory=set)
    """The ids of checkpoints that a commit with the same id made."""

    @property
    def basis(self) -> Basis:
        return Basis(incarnation=self.incarnation, epoch=self.epoch, next_value=self.next_value)

    @property
    def checkpoint_count(self) -> int:
        return sum(map(len, self.namespaces.values()))

    def newest_first(self, namespace: str | None) -> Iterator[CheckpointRecord]:
        newest = (reversed(lineage.values()) for lineage in self._lineages(namespace))
        return merge(*newest, key=lambda found: found.sequence, reverse=True)

    def named(self, namespace: str | None, checkpoint_id: str) -> list[CheckpointRecord]:
        """The checkpoints with this id, newest first. Each namespace has at most one."""
        found = [lineage[checkpoint_id] for lineage in self._lineages(namespace) if checkpoint_id in lineage]
        return sorted(found, key=lambda each: each.sequence, reverse=True)

    def _lineages(self, namespace: str | None) -> Iterable[dict[str, CheckpointRecord]]:
        return self.namespaces.values() if namespace is None else [self.namespaces.get(namespace, {})]

    def of_message(self, message_id: str) -> int | None:
        return self.messages[message_id][0] if message_id in self.messages else None

    def of_checkpoint(self, namespace: str, checkpoint_id: str) -> int | None:
        found = self.namespaces.get(namespace, {}).get(checkpoint_id)
        return found.sequence if found else None

    def of_head(self) -> int | None:
        head = next(self.newest_first(""), None)
        return head.sequence if head else None

    def record(self) -> ThreadRecord:
        head = next(self.newest_first(""), None) or next(self.newest_first(None), None)
        return ThreadRecord(
            thread_id=self.thread_id,
            user_id=self.owner,
            created_at=self.created_at,
            updated_at=self.updated_at,
            run_id=self.run_id,
            text=self.text,
            data=self.data,
            forked_from=self.forked_from,
            checkpoint_count=self.checkpoint_count,
            message_count=len(self.messages),
            size=self.size,
            head=info(head) if head else None,
            labels=self.labels,
        )

    def outcome(self, commit: Commit, *, removed: int = 0, repeated: bool = False) -> Applied:
        namespace, checkpoint_id = made_checkpoint(commit) or ("", "")
        made = self.namespaces.get(namespace, {}).get(checkpoint_id)
        return Applied(
            basis=self.basis,
            parent_id=made.parent_id if made else None,
            sequence=made.sequence if made else 0,
            created_at=made.created_at if made else None,
            saved_at=made.saved_at if made else None,
            removed=removed,
            repeated=repeated,
        )

    # The following methods change the thread. They can't fail, but may be interrupted. So fields
    # are assigned only after `begin`, and containers are changed through `undo` or replaced by
    # copies.

    def begin(self, undo: Undo) -> None:
        undo.fields(self)

    def remove(self, removal: Removal, dropped: Iterable[StoredRow], undo: Undo) -> int:
        """Apply `removal` and drop rows. Returns the number of checkpoints and messages."""
        found = [self.messages[key] for key in dict.fromkeys(removal.messages) if key in self.messages]
        if found:
            self.messages = without(self.messages, removal.messages)
        self.size -= sum(size_of(message) for _, message in found)
        named = removal.checkpoints
        if removal.state:
            named = tuple((space, key) for space, lineage in self.namespaces.items() for key in lineage)
        gone = self._remove_checkpoints(named)
        for key in list(self.attachments) if removal.state else named:
            self.size -= sum(map(size_of, self.attachments.get(key, {}).values()))
        if named or removal.state:
            self.attachments = {} if removal.state else without(self.attachments, named)
        if removal.state or gone or removal.values:
            self.epoch += 1
        firsts = {first for first, _, _ in dropped}
        if removal.state or firsts:
            self._set_rows([row for row in self.rows if not removal.state and row.first not in firsts])
        if removal.state:
            self.log.release(undo)
            self.log = Log()
        return len(found) + len(gone)

    def _remove_checkpoints(self, named: Iterable[tuple[str, str]]) -> list[CheckpointRecord]:
        by_space: dict[str, dict[str, None]] = {}
        for space, key in named:
            by_space.setdefault(space, {})[key] = None
        gone: list[CheckpointRecord] = []
        for space, keys in by_space.items():
            lineage = self.namespaces.get(space, {})
            found = [lineage[key] for key in keys if key in lineage]
            if found:
                self.namespaces = {**self.namespaces, space: without(lineage, keys)}
                gone += found
        if gone:
            self.own = self.own.difference(record.checkpoint_id for record in gone)
        self.size -= sum(map(size_of, gone))
        return gone

    def append(self, row: ValueRow, undo: Undo) -> None:
        undo.append(self.rows, row)
        self.size += size_of(row)
        self.next_value = row.end

    def merge(self, merged: Iterable[ValueRow], replaced: Iterable[StoredRow]) -> None:
        """Replace the rows `replaced` with the rows `merged`."""
        firsts = {first for first, _, _ in replaced}
        kept = [row for row in self.rows if row.first not in firsts]
        self._set_rows(sorted([*kept, *merged], key=lambda row: row.first))

    def _set_rows(self, rows: list[ValueRow]) -> None:
        self.size += sum(size_of(row) for row in rows if row.first >= self.log.inherited)
        self.size -= sum(size_of(row) for row in self.rows if row.first >= self.log.inherited)
        self.rows = rows

    def branch(self, commit: Commit, decided: Decision[Thread]) -> None:
        """Add a branch point if `commit`, whose removals were applied, goes back."""
        number = parent_of_branch(commit, decided, self.points, self)
        if number is not None:
            self.points = with_point(self.points, number, self.sequence)

    def add(self, commit: Commit, parent_id: str | None, undo: Undo) -> None:
        """Add the parts of `commit` except values. A replaced checkpoint keeps its parent and its first time."""
        if new := commit.checkpoint:
            if new.namespace not in self.namespaces:
                undo.put(self.namespaces, new.namespace, {})
            lineage = self.namespaces[new.namespace]
            old = lineage.get(new.checkpoint_id)
            made = CheckpointRecord(
                checkpoint_id=new.checkpoint_id,
                namespace=new.namespace,
                sequence=old.sequence if old else self.sequence,
                parent_id=old.parent_id if old else parent_id,
                created_at=new.created_at or (old.created_at if old else commit.at),
                saved_at=commit.at,
                node_name=new.node_name,
                step=new.step,
                run_id=new.run_id,
                size=new.size,
                metadata=new.metadata,
                body=new.body,
                covers=new.covers,
            )
            self.size += size_of(made) - size_of(old)
            undo.put(lineage, new.checkpoint_id, made)
        for attachment in commit.attachments:
            where = attachment.namespace, attachment.checkpoint_id
            if where not in self.attachments:
                undo.put(self.attachments, where, {})
            keyed = self.attachments[where]
            if not (commit.keep_attachments and attachment.key in keyed):
                self.size += size_of(attachment) - size_of(keyed.get(attachment.key))
                undo.put(keyed, attachment.key, attachment)
        ranges = said_here(commit, self.points)
        for message in commit.messages:
            known = self.of_message(message.message_id)
            if ranges is not None and known is not None and not is_within(ranges, known):
                self.size -= size_of(self.messages[message.message_id][1])
                self.messages = without(self.messages, [message.message_id])
            sequence, before = self.messages.get(message.message_id, (self.sequence, None))
            self.size += size_of(message) - size_of(before)
            undo.put(self.messages, message.message_id, (sequence, message))
        if described := commit.thread:
            self.owner, self.run_id = described.user_id, described.run_id
            self.text, self.data, self.labels = described.text, described.data, described.labels

    def copy(self, source: Thread, origin: CheckpointRecord, checkpoint_id: str) -> None:
        """Start as a fork of `source` at `origin`, whose copy gets the id `checkpoint_id`."""
        # Its checkpoint and messages count as added by the fork's own commit, number 1.
        copy = replace(origin, checkpoint_id=checkpoint_id, parent_id=None, sequence=1)
        attached = source.attachments.get((origin.namespace, origin.checkpoint_id), {})
        self.namespaces = {origin.namespace: {checkpoint_id: copy}}
        keyed = {key: replace(each, checkpoint_id=checkpoint_id) for key, each in attached.items()}
        self.attachments = {(origin.namespace, checkpoint_id): keyed}
        said = visible(source.points, origin.sequence)
        self.messages = {key: (1, each) for key, (at, each) in source.messages.items() if is_within(said, at)}
        self.text, self.data, self.run_id, self.labels = source.text, source.data, source.run_id, source.labels
        self.forked_from = (source.thread_id, origin.checkpoint_id)
        self.rows = list(source.rows)
        self.next_value = source.next_value
        self.log = Log(source.log, source.next_value)
        self.size = size_of(copy) + sum(map(size_of, attached.values()))
        self.size += sum(size_of(message) for _, message in self.messages.values())

    def has_applied(self, commit: Commit) -> bool:
        return commit.commit_id in self.recent_receipts or commit.commit_id in self.own

    def remember(self, commit: Commit, undo: Undo) -> None:
        for commit_id in (*commit.receipts, commit.commit_id):
            undo.put(self.recent_receipts, commit_id, None)
        # Receipts from another store are as new as this commit.
        while len(self.recent_receipts) > RECEIPTS_KEPT + RECEIPTS_PRUNED:
            undo.take_first(self.recent_receipts)
        if made := made_checkpoint(commit):
            if made[1] == commit.commit_id:
                undo.add(self.own, commit.commit_id)
            else:
                undo.discard(self.own, made[1])


def without(kept: Mapping[K, V], keys: Iterable[K]) -> dict[K, V]:
    """A copy of `kept` without `keys`."""
    gone = set(keys)
    return {key: value for key, value in kept.items() if key not in gone}


def info(checkpoint: CheckpointRecord) -> CheckpointRecord:
    """`checkpoint` without the fields that only loading its state needs."""
    return replace(checkpoint, body=b"", covers=())


def size_of(record: CheckpointRecord | ValueRow | AttachmentRecord | MessageRecord | None) -> int:
    """The bytes of `record` that count in a thread's size."""
    if record is None:
        return 0
    match record:
        case CheckpointRecord():
            return len(record.body) + len(record.metadata)
        case ValueRow():
            return len(record.data) + len(record.digests)
        case MessageRecord():
            return len(record.data) + len(record.text.encode())
        case AttachmentRecord():
            return len(record.data)

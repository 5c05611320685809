"""One thread as the memory storage keeps it, and the steps of a commit that change it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from heapq import merge

from msgspec.structs import replace

from clew.model.commit import Applied, Commit, Removal
from clew.model.records import AttachmentRecord, Basis, CheckpointRecord, MessageRecord, ThreadRecord, ValueRow
from clew.storage.protocol import RECEIPTS_KEPT, RECEIPTS_PRUNED
from clew.storage.rules import StoredRow, made_checkpoint


@dataclass(slots=True, eq=False)
class Log:
    """Who shares a value log: the values under `inherited` are its parent's too. It is held by its thread and its forks."""

    parent: Log | None = None
    inherited: int = 0
    forks: list[Log] = field(default_factory=list)
    held_by_thread: bool = True

    @property
    def fixed_before(self) -> int:
        return max([self.inherited, *(fork.inherited for fork in self.forks)])

    def release(self) -> None:
        """Say that the thread needs it no more; what nobody holds then is forgotten, up the line."""
        self.held_by_thread = False
        log = self
        while log.parent and not log.held_by_thread and not log.forks:
            log.parent.forks.remove(log)
            log = log.parent


@dataclass(slots=True, kw_only=True)
class Thread:
    """All that is kept of one thread. What it inherited as a fork counts as its source's, not in its own size."""

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
    forked_from: tuple[str, str] | None = None
    namespaces: dict[str, dict[str, CheckpointRecord]] = field(default_factory=dict)
    attachments: dict[tuple[str, str], dict[str, AttachmentRecord]] = field(default_factory=dict)
    messages: dict[str, tuple[int, MessageRecord]] = field(default_factory=dict)
    rows: list[ValueRow] = field(default_factory=list)
    recent_receipts: OrderedDict[str, None] = field(default_factory=OrderedDict)
    own: set[str] = field(default_factory=set)
    """The ids of checkpoints that a commit of the same id made."""

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
        """Those with the id, newest first: one at most, in one namespace."""
        found = [lineage[checkpoint_id] for lineage in self._lineages(namespace) if checkpoint_id in lineage]
        return sorted(found, key=lambda each: each.sequence, reverse=True)

    def _lineages(self, namespace: str | None) -> Iterable[dict[str, CheckpointRecord]]:
        return self.namespaces.values() if namespace is None else [self.namespaces.get(namespace, {})]

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
        )

    def outcome(self, commit: Commit, *, removed: int = 0, repeated: bool = False) -> Applied:
        namespace, checkpoint_id = made_checkpoint(commit) or ("", "")
        made = self.namespaces.get(namespace, {}).get(checkpoint_id)
        return Applied(
            basis=self.basis,
            parent_id=made.parent_id if made else None,
            sequence=made.sequence if made else 0,
            created_at=made.created_at if made else None,
            removed=removed,
            repeated=repeated,
        )

    # What follows changes the thread and can't fail.

    def remove(self, removal: Removal, dropped: Iterable[StoredRow]) -> int:
        """Take out what `removal` names, and the rows `dropped`; how many checkpoints and messages that were."""
        found = [entry for key in removal.messages if (entry := self.messages.pop(key, None))]
        self.size -= sum(size_of(message) for _, message in found)
        named = removal.checkpoints
        if removal.state:
            named = tuple((space, key) for space, lineage in self.namespaces.items() for key in lineage)
        gone = [record for space, key in named if (record := self.namespaces.get(space, {}).pop(key, None))]
        self.own.difference_update(record.checkpoint_id for record in gone)
        self.size -= sum(map(size_of, gone))
        for key in list(self.attachments) if removal.state else named:
            self.size -= sum(map(size_of, self.attachments.pop(key, {}).values()))
        if removal.state or gone or removal.values:
            self.epoch += 1
        firsts = {first for first, _, _ in dropped}
        if removal.state or firsts:
            self._set_rows([row for row in self.rows if not removal.state and row.first not in firsts])
        if removal.state:
            self.log.release()
            self.log = Log()
        return len(found) + len(gone)

    def append(self, row: ValueRow) -> None:
        self.rows.append(row)
        self.size += size_of(row)
        self.next_value = row.end

    def merge(self, merged: Iterable[ValueRow], replaced: Iterable[StoredRow]) -> None:
        """Put the rows `merged` in the place of those in `replaced`."""
        firsts = {first for first, _, _ in replaced}
        kept = [row for row in self.rows if row.first not in firsts]
        self._set_rows(sorted([*kept, *merged], key=lambda row: row.first))

    def _set_rows(self, rows: list[ValueRow]) -> None:
        self.size += sum(size_of(row) for row in rows if row.first >= self.log.inherited)
        self.size -= sum(size_of(row) for row in self.rows if row.first >= self.log.inherited)
        self.rows = rows

    def add(self, commit: Commit, parent_id: str | None) -> None:
        """Add the checkpoint, attachments, messages and fields of `commit`. A checkpoint that is replaced keeps its parent."""
        if new := commit.checkpoint:
            lineage = self.namespaces.setdefault(new.namespace, {})
            old = lineage.get(new.checkpoint_id)
            made = CheckpointRecord(
                checkpoint_id=new.checkpoint_id,
                namespace=new.namespace,
                sequence=old.sequence if old else self.sequence,
                parent_id=old.parent_id if old else parent_id,
                created_at=commit.at,
                node_name=new.node_name,
                step=new.step,
                run_id=new.run_id,
                size=new.size,
                metadata=new.metadata,
                body=new.body,
                covers=new.covers,
            )
            self.size += size_of(made) - size_of(old)
            lineage[new.checkpoint_id] = made
        for attachment in commit.attachments:
            keyed = self.attachments.setdefault((attachment.namespace, attachment.checkpoint_id), {})
            if not (commit.keep_attachments and attachment.key in keyed):
                self.size += size_of(attachment) - size_of(keyed.get(attachment.key))
                keyed[attachment.key] = attachment
        for message in commit.messages:
            sequence, before = self.messages.get(message.message_id, (self.sequence, None))
            self.size += size_of(message) - size_of(before)
            self.messages[message.message_id] = (sequence, message)
        if described := commit.thread:
            self.owner, self.run_id = described.user_id, described.run_id
            self.text, self.data = described.text, described.data

    def copy(self, source: Thread, origin: CheckpointRecord, checkpoint_id: str) -> None:
        """Begin as a fork of `source` at `origin`, which becomes `checkpoint_id` here."""
        # The fork's own commit is number 1: what it brings counts as added by it, also for a fork of this fork.
        copy = replace(origin, checkpoint_id=checkpoint_id, parent_id=None, sequence=1)
        attached = source.attachments.get((origin.namespace, origin.checkpoint_id), {})
        self.namespaces = {origin.namespace: {checkpoint_id: copy}}
        keyed = {key: replace(each, checkpoint_id=checkpoint_id) for key, each in attached.items()}
        self.attachments = {(origin.namespace, checkpoint_id): keyed}
        self.messages = {key: (1, each) for key, (at, each) in source.messages.items() if at <= origin.sequence}
        self.text, self.data, self.run_id = source.text, source.data, source.run_id
        self.forked_from = (source.thread_id, origin.checkpoint_id)
        self.rows = list(source.rows)
        self.next_value = source.next_value
        self.log = Log(source.log, source.next_value)
        self.size = size_of(copy) + sum(map(size_of, attached.values()))
        self.size += sum(size_of(message) for _, message in self.messages.values())

    def has_applied(self, commit: Commit) -> bool:
        return commit.commit_id in self.recent_receipts or commit.commit_id in self.own

    def remember(self, commit: Commit) -> None:
        for commit_id in (*commit.receipts, commit.commit_id):
            self.recent_receipts[commit_id] = None
        # Receipts that came from elsewhere are as new as this commit.
        while len(self.recent_receipts) > RECEIPTS_KEPT + RECEIPTS_PRUNED:
            self.recent_receipts.popitem(last=False)
        if made := made_checkpoint(commit):
            self.own.discard(made[1])
            if made[1] == commit.commit_id:
                self.own.add(commit.commit_id)


def info(checkpoint: CheckpointRecord) -> CheckpointRecord:
    """`checkpoint` without what only loading its state needs."""
    return replace(checkpoint, body=b"", covers=())


def size_of(record: CheckpointRecord | ValueRow | AttachmentRecord | MessageRecord | None) -> int:
    """The bytes that count as stored for `record`."""
    match record:
        case CheckpointRecord():
            return len(record.body) + len(record.metadata)
        case ValueRow():
            return len(record.data) + len(record.digests)
        case MessageRecord():
            return len(record.data) + len(record.text.encode())
        case AttachmentRecord():
            return len(record.data)
    return 0

"""The applier: writes commits inside the writer's transaction.

Every commit is decided (`storage.rules`) before its first write, so a refused one leaves nothing
behind. Most commits bring only a checkpoint and its new values, to a thread that the writer knows.
These take the fast path: their rows are buffered, and written together with those of the other
commits of the transaction.
"""

from __future__ import annotations

import sqlite3

from clew.errors import ClewError
from clew.ids import new_id
from clew.model.commit import Applied, Begin, Commit, Removal
from clew.model.config import User
from clew.model.message import folded
from clew.model.records import Basis
from clew.storage.conversions import micros, moment_or_none, pack_ranges, text_bytes
from clew.storage.rules import Decision, adds, decide, made_checkpoint
from clew.storage.sqlite import thread_index
from clew.storage.sqlite.additions import (
    add_attachments,
    add_checkpoint,
    add_journal_entry,
    add_messages,
    add_values,
    advance_chain,
    copy_origin,
    describe,
    end_chain,
    fork_log,
    new_log,
)
from clew.storage.sqlite.branches import add_point, check_points
from clew.storage.sqlite.bulk import BulkStatement, Column
from clew.storage.sqlite.connections import begin_writing
from clew.storage.sqlite.facts import FastPathFacts, SQLiteFacts
from clew.storage.sqlite.feed import FeedWriter
from clew.storage.sqlite.fts5 import reset_indexes
from clew.storage.sqlite.message_index import MessageIndex
from clew.storage.sqlite.receipts import add_receipts
from clew.storage.sqlite.removals import remove, remove_thread
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread, other_id
from clew.storage.sqlite.thread_index import ThreadIndex

_SQL = named("writes.sql")
_ADD_VALUES, _ADD_CHECKPOINTS = BulkStatement(_SQL["add_values"]), BulkStatement(_SQL["add_checkpoint"])
_CHANGE_THREADS = BulkStatement(_SQL["change_threads"])
_THREADS_KNOWN = 10_000
_NOTHING = Removal()
_REPEATED = Applied(basis=None, repeated=True)


class Applier:
    """Applies commits through one connection. Forgets threads when another connection writes."""

    def __init__(self, connection: sqlite3.Connection, *, busy_timeout: float) -> None:
        self.connection = connection
        self._busy_timeout = busy_timeout
        connection.execute("PRAGMA busy_timeout = 0")
        self._execute = connection.execute
        self._index = MessageIndex(connection)
        self._thread_index = ThreadIndex(connection)
        self.feed = FeedWriter(connection)
        self._data_version = -1
        self._to_index = 0
        self._threads: dict[str, Thread] = {}
        self._changed: dict[int, Thread] = {}
        self._new_values: list[Column] = []
        self._new_checkpoints: list[Column] = []
        self._buffered: set[tuple[int, str]] = set()
        known = (connection, self._threads, self._buffered, self._write_buffered)
        self._facts, self._fast_path_facts = SQLiteFacts(*known), FastPathFacts(*known)

    def begin(self) -> None:
        """Start a transaction as the only writer of the file."""
        begin_writing(self.connection, self._busy_timeout)
        (version,) = self._execute("PRAGMA data_version").fetchone()
        if version != self._data_version or len(self._threads) > _THREADS_KNOWN:
            self._data_version = version
            self._threads.clear()
            self._to_index = self._thread_index.waiting()
            self.feed.look()
        self.feed.begin()

    def reset_indexes(self) -> None:
        """Drop the substring indexes at the start of a transaction. Later commits rebuild them."""
        reset_indexes(self.connection)
        self._threads.clear()
        self._to_index = self._thread_index.waiting()

    def flush(self) -> None:
        """Write everything that was buffered."""
        self._write_buffered()
        if self._changed:
            columns: list[Column] = []
            for thread in self._changed.values():
                columns += thread.changes()
            _CHANGE_THREADS(self._execute, columns)
            self._changed.clear()
        self.feed.flush()
        if self._to_index > thread_index.WAITING:
            self._thread_index.advance(thread_index.AT_ONCE)
            self._to_index = self._thread_index.waiting()

    def rollback(self) -> None:
        """Undo the transaction and forget what it made known."""
        for known in (self._threads, self._changed, self._new_values, self._new_checkpoints, self._buffered):
            known.clear()
        self.feed.forget()
        self._data_version = -1
        if self.connection.in_transaction:
            self._execute("ROLLBACK")

    def _write_buffered(self) -> None:
        if self._new_values:
            _ADD_VALUES(self._execute, self._new_values)
            self._new_values.clear()
        if self._new_checkpoints:
            _ADD_CHECKPOINTS(self._execute, self._new_checkpoints)
            self._new_checkpoints.clear()
            self._buffered.clear()

    def outcome(self, commit: Commit, *, fast_path: bool) -> Applied | ClewError:
        """Apply `commit`, or return the error that refuses it.

        `fast_path` assumes that checkpoint ids are new. If one is not, this or a later write raises
        sqlite3.IntegrityError, and the transaction has to be repeated without the fast path.
        """
        try:
            if fast_path and self._fits_fast_path(commit) and (applied := self._apply_on_fast_path(commit)):
                return applied
            self._write_buffered()
            self._facts.are_for(commit.user, even_damaged=commit.remove is not None and commit.remove.thread)
            return self._write(commit, decide(commit, self._facts))
        except ClewError as error:
            return error

    def _apply_on_fast_path(self, commit: Commit) -> Applied | None:
        """Buffer the rows of `commit`; `None` if it may be refused or repeated."""
        try:
            decided = decide(commit, self._fast_path_facts)
        except ClewError:
            # The commit may be a repeated one, which its own effect refuses here. The slow path finds out.
            return None
        if decided.repeated or decided.kept is None or decided.branches:
            return None
        return self._buffer(decided.kept, commit, decided.parent)

    def _fits_fast_path(self, commit: Commit) -> bool:
        """Return whether `commit` only brings a checkpoint and values, and the thread's head is known."""
        new = commit.checkpoint
        if (
            new is None
            or new.created_at is not None
            or commit.remove
            or commit.attachments
            or commit.messages
            or commit.thread
            or commit.after
            or commit.journal is not None
            or commit.receipts
            or commit.back_to
        ):
            return False
        thread = self._threads.get(commit.thread_id)
        # "" is not a valid id: it means that the head is unknown. A new checkpoint with the head's id
        # replaces the head.
        return thread is not None and thread.heads.get(new.namespace, "") not in ("", new.checkpoint_id)

    def _buffer(self, thread: Thread, commit: Commit, parent: str | None) -> Applied:
        """Buffer the rows of a commit on the fast path, which was decided."""
        new, values = commit.checkpoint, commit.values
        assert new is not None
        namespace, checkpoint_id = new.namespace, new.checkpoint_id
        if values is not None:
            self._new_values += (thread.log_no, values.first, values.count, values.digests, values.data)
            thread.next_value += values.count
            thread.size += len(values.digests) + len(values.data)
        at = micros(commit.at)
        thread.sequence = sequence = thread.sequence + 1
        thread.heads[namespace] = checkpoint_id
        thread.checkpoint_count += 1
        thread.size += len(new.metadata) + len(new.body)
        if at > thread.updated_at:
            thread.updated_at = at
        self._changed[thread.thread_no] = thread
        self._buffered.add((thread.thread_no, checkpoint_id))
        if self.feed.until:
            self.feed.add_checkpoint(thread, namespace, checkpoint_id)
        self._new_checkpoints += (
            thread.thread_no,
            sequence,
            namespace,
            checkpoint_id,
            other_id(commit.commit_id, checkpoint_id),
            parent,
            at,
            new.node_name,
            new.step,
            new.run_id,
            new.size,
            pack_ranges(new.covers),
            new.metadata,
            new.body,
        )
        return Applied(
            basis=Basis(incarnation=thread.incarnation, epoch=thread.epoch, next_value=thread.next_value),
            parent_id=parent,
            sequence=sequence,
            created_at=commit.at,
            saved_at=commit.at,
        )

    def thread(self, thread_id: str, user: User) -> Thread | None:
        """The thread as of this transaction, for a lease. Raises CorruptRecordError if its row can't be read."""
        self._facts.are_for(user, even_damaged=True)
        return self._facts.thread(thread_id)

    def _write(self, commit: Commit, decided: Decision[Thread]) -> Applied:
        """Write what was decided. From here on only the storage itself can fail."""
        existing, kept = decided.existing, decided.kept
        if decided.repeated:
            return self._applied(existing, commit, repeated=True) if existing else _REPEATED
        after = decided.last_in_chain
        if kept is None and not adds(commit):
            add_journal_entry(self.connection, commit, after, existing)
            end_chain(self.connection, commit)
            removed = self._delete(existing)
            if self.feed.until and existing:
                self.feed.add(commit, existing, existing.owner, None, removed)
            return Applied(basis=None, removed=removed)
        check_points(self.connection, commit, decided)
        owner = existing.owner if existing else None
        log_no = fork_log(self.connection, decided.origin[0]) if decided.origin else None
        if kept:
            removed = remove(self.connection, kept, commit.remove or _NOTHING, decided.dropped, self._index)
        else:
            removed = self._delete(existing)
        thread = kept or self._create(commit, decided.owner, log_no)
        thread.sequence += 1
        if decided.origin and commit.fork:
            copy_origin(self.connection, thread, commit, commit.fork, *decided.origin)
        thread.updated_at = max(thread.updated_at, micros(commit.at))
        if kept:
            add_point(self.connection, kept, commit, decided)
        add_values(self.connection, thread, commit, decided.replaced)
        add_checkpoint(self.connection, thread, commit, decided.parent)
        add_attachments(self.connection, thread, commit)
        add_messages(self.connection, thread, commit, self._index)
        if decided.ends_leases:
            self._execute(_SQL["drop_leases"], (commit.thread_id,))
        if commit.thread:
            describe(self.connection, thread, commit.thread)
            self._to_index += 1
        add_receipts(self.connection, thread, commit, replaced=decided.replaces)
        add_journal_entry(self.connection, commit, after, thread)
        advance_chain(self.connection, thread, commit)
        self._changed[thread.thread_no] = thread
        if self.feed.until:
            self.feed.add(commit, existing, owner, thread, removed)
        return self._applied(thread, commit, removed=removed)

    def _applied(self, thread: Thread, commit: Commit, *, removed: int = 0, repeated: bool = False) -> Applied:
        parent, sequence, created_at, saved_at = None, 0, None, None
        if key := made_checkpoint(commit):
            namespace, checkpoint_id = key
            found = self._execute(_SQL["checkpoint"], (checkpoint_id, thread.thread_no, namespace)).fetchone()
            if found:
                _, sequence, parent, saved, created, _, _ = found
                parent = parent if type(parent) is str else None
                saved_at = moment_or_none(saved)
                created_at = saved_at if created is None else moment_or_none(created)
        return Applied(
            basis=thread.basis,
            parent_id=parent,
            sequence=sequence,
            created_at=created_at,
            saved_at=saved_at,
            removed=removed,
            repeated=repeated,
        )

    def _create(self, commit: Commit, owner: str | None, log_no: int | None) -> Thread:
        at = micros(commit.at)
        if log_no is None:
            log_no = new_log(self.connection, None)
        begin = commit.begin or Begin(incarnation=new_id())
        search = folded(commit.thread_id)
        folded_id = None if search == commit.thread_id else text_bytes(search)
        fields = (commit.thread_id, owner, log_no, begin.incarnation, begin.epoch, at, at, folded_id)
        number = self._execute(_SQL["add_thread"], fields).lastrowid
        assert number is not None
        self._execute(_SQL["give_log"], (number, log_no))
        key = (number, owner, log_no, begin.incarnation, begin.epoch)
        thread = Thread(commit.thread_id, (*key, 0, 0, 0, 0, 0, 0, 0, at, None, None, None, 0))
        self._threads[commit.thread_id] = thread
        self._to_index += 1
        return thread

    def _delete(self, thread: Thread | None) -> int:
        if thread is None:
            return 0
        self._threads.pop(thread.thread_id, None)
        self._changed.pop(thread.thread_no, None)
        self._to_index += 1
        return remove_thread(self.connection, thread, self._index)

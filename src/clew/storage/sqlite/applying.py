"""How a commit becomes SQL inside the writer's transaction.

Every commit is decided by reads and by the cached thread rows before its first write, so one that is refused leaves
nothing behind. The usual commit (a checkpoint and its new values, in a thread that the writer knows) takes the short
way: its rows are gathered and written together with those of the other commits of the transaction.
"""

from __future__ import annotations

import sqlite3

from clew.errors import ClewError
from clew.ids import new_id
from clew.model.commit import HEAD, Applied, Begin, Commit, Removal
from clew.model.config import ANY_USER
from clew.model.message import folded
from clew.model.records import Basis
from clew.storage.checks import (
    adds,
    check_after,
    check_as_of,
    check_basis,
    check_fence,
    check_first,
    check_new_owner,
    check_owner,
    check_unshared,
    fork_exists,
    head_moved,
    is_open_to,
    made_checkpoint,
    owner_of_new,
    parent_gone,
    rows_differ,
)
from clew.storage.packing import micros, moment, pack_ranges, text_bytes
from clew.storage.protocol import RECEIPTS_KEPT
from clew.storage.sqlite import thread_index
from clew.storage.sqlite.adding import add_attachments, add_checkpoint, add_messages, add_values, describe
from clew.storage.sqlite.connections import begin_writing
from clew.storage.sqlite.damage import start_over
from clew.storage.sqlite.forking import Origin, copy_origin, fork_log, origin_of
from clew.storage.sqlite.indexing import MessageIndex
from clew.storage.sqlite.journaling import chain, note
from clew.storage.sqlite.many import Column, ManyRows
from clew.storage.sqlite.removing import new_log, remove, remove_thread, rows_to_drop, shared_before
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread, other_id
from clew.storage.sqlite.thread_index import ThreadIndex

_SQL = named("writes.sql")
_ADD_VALUES, _ADD_CHECKPOINTS = ManyRows(_SQL["add_values"]), ManyRows(_SQL["add_checkpoint"])
_CHANGE_THREADS = ManyRows(_SQL["change_threads"])
_THREADS_KNOWN = 10_000
_RECENT_PLACES = 1_024
_PLACES_AT_ONCE = 512
_PRUNED_EVERY = 64
_NOTHING = Removal()


class Applier:
    """Applies commits through one connection. What it knows of threads holds until another connection writes."""

    def __init__(self, connection: sqlite3.Connection, *, busy_timeout: float) -> None:
        self.connection = connection
        self._busy_timeout = busy_timeout
        connection.execute("PRAGMA busy_timeout = 0")
        self._execute = connection.execute
        self._index = MessageIndex(connection)
        self._thread_index = ThreadIndex(connection)
        self._data_version = -1
        self._recent = 0
        self._to_index = 0
        self._threads: dict[str, Thread] = {}
        self._changed: dict[int, Thread] = {}
        self._new_values: list[Column] = []
        self._new_checkpoints: list[Column] = []

    def begin(self) -> None:
        """Start a transaction, as the only writer of the file."""
        begin_writing(self.connection, self._busy_timeout)
        (version,) = self._execute("PRAGMA data_version").fetchone()
        if version != self._data_version or len(self._threads) > _THREADS_KNOWN:
            self._data_version = version
            self._threads.clear()
            (self._recent,) = self._execute(_SQL["recent_places"]).fetchone()
            self._to_index = self._thread_index.waiting()

    def start_over(self) -> None:
        """Have the substring indexes made again by the commits that follow, at the beginning of a transaction."""
        start_over(self.connection)
        self._threads.clear()
        self._to_index = self._thread_index.waiting()

    def flush(self) -> None:
        """Write what was gathered."""
        self._write_new_rows()
        if self._changed:
            columns: list[Column] = []
            for thread in self._changed.values():
                columns += thread.changes()
            _CHANGE_THREADS(self._execute, columns)
            self._changed.clear()
        if self._recent > _RECENT_PLACES:
            self._settle()
        if self._to_index > thread_index.WAITING:
            self._thread_index.advance(thread_index.AT_ONCE)
            self._to_index = self._thread_index.waiting()

    def _settle(self) -> None:
        """Move the first of the recent places on: in key order, so that those of one thread go together."""
        for kind in ("values", "checkpoints"):
            self._execute(_SQL[f"settle_{kind}"], (_PLACES_AT_ONCE,))
            self._execute(_SQL[f"forget_recent_{kind}"], (_PLACES_AT_ONCE,))
        (self._recent,) = self._execute(_SQL["recent_places"]).fetchone()

    def rollback(self) -> None:
        """Undo the transaction and forget what it made known."""
        for known in (self._threads, self._changed, self._new_values, self._new_checkpoints):
            known.clear()
        self._data_version = -1
        if self.connection.in_transaction:
            self._execute("ROLLBACK")

    def _write_new_rows(self) -> None:
        if self._new_values:
            _ADD_VALUES(self._execute, self._new_values)
            self._new_values.clear()
        if self._new_checkpoints:
            _ADD_CHECKPOINTS(self._execute, self._new_checkpoints)
            self._new_checkpoints.clear()

    def outcome(self, commit: Commit, *, hurried: bool) -> Applied | ClewError:
        """Apply `commit`, or say why not. `hurried` leaves it to a unique index, and so to an error later, to notice ids
        that exist already."""
        self._recent += 1
        try:
            if hurried:
                applied = self._apply_usual(commit)
                if applied is not None:
                    return applied
            self._write_new_rows()
            return self._apply(commit)
        except ClewError as error:
            return error

    def _apply_usual(self, commit: Commit) -> Applied | None:
        """Gather the rows of `commit` if it is of the usual kind."""
        thread = self._threads.get(commit.thread_id)
        new = commit.checkpoint
        if (
            thread is None
            or new is None
            or commit.remove
            or commit.fork
            or commit.merge
            or commit.attachments
            or commit.messages
            or commit.thread
            or commit.fence is not None
            or commit.after
            or commit.journal is not None
        ):
            return None
        namespace, checkpoint_id, basis, values = new.namespace, new.checkpoint_id, commit.basis, commit.values
        head = thread.heads.get(namespace, "")
        # "" is no id: the head is not known yet. The head's own id means that it is to be replaced.
        if head in ("", checkpoint_id):
            return None
        user = thread.user_id
        if user is not None and commit.user != user and commit.user is not ANY_USER:
            return None
        if basis is not None and (basis.incarnation != thread.incarnation or basis.epoch != thread.epoch):
            return None
        if values is not None and values.first != thread.next_value:
            return None
        parent = head if new.parent is HEAD else new.parent
        if parent != head and (basis is None or new.on_conflict == "reject"):
            return None
        if thread.has_receipts and self._execute(_SQL["receipt"], (thread.thread_no, commit.commit_id)).fetchone():
            return None
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
        )

    def thread(self, thread_id: str) -> Thread | None:
        """The thread, as this transaction has it."""
        known = self._threads.get(thread_id)
        if known is None:
            row = self._execute(_SQL["thread"], (thread_id,)).fetchone()
            if row is not None:
                known = self._threads[thread_id] = Thread(thread_id, row)
        return known

    def head(self, thread: Thread, namespace: str, *, without: frozenset[str] = frozenset()) -> str | None:
        """The id of the newest checkpoint in `namespace`, not counting those in `without`."""
        if not without and namespace in thread.heads:
            return thread.heads[namespace]
        if namespace:
            rows = self._execute(_SQL["other_head"], (thread.thread_no, namespace))
        else:
            rows = self._execute(_SQL["main_head"], (thread.thread_no,))
        head = next((checkpoint_id for checkpoint_id, _ in rows if checkpoint_id not in without), None)
        rows.close()
        if not without:
            thread.heads[namespace] = head
        return head

    def _apply(self, commit: Commit) -> Applied:
        existing = self.thread(commit.thread_id)
        if existing:
            check_owner(existing.thread_id, existing.user_id, commit.user)
            if self._execute(_SQL["committed"], (commit.commit_id, existing.thread_no)).fetchone():
                return self._applied(existing, commit, repeated=True)
        removal = commit.remove or _NOTHING
        kept = None if removal.thread else existing
        check_basis(existing.basis if existing else None, commit)
        after = existing.last_in_chain if existing else None
        check_after(commit, after)
        check_as_of(commit, kept.sequence if kept else 0)
        if commit.fork is None:
            check_first(commit, kept.next_value if kept else 0)
        if commit.fence is not None:
            check_fence(commit, self._last_token(commit.thread_id))
        if kept is None and not adds(commit):
            note(self.connection, commit, after, existing)
            return Applied(basis=None, removed=self._delete(existing))
        origin = self._origin(commit, kept)
        # What is decided here, and what the writing needs of it.
        dropped = rows_to_drop(self.connection, kept, removal.values) if kept and removal.values else []
        merged = self._merged(commit, kept, removal)
        parent = self._parent(commit, kept, removal)
        owner = kept.user_id if kept else owner_of_new(commit, origin.thread.user_id if origin else None)
        check_new_owner(owner, commit)
        # Everything is decided: from here on only the storage itself can fail.
        log_no = fork_log(self.connection, origin) if origin else None
        removed = remove(self.connection, kept, removal, dropped, self._index) if kept else self._delete(existing)
        thread = kept or self._create(commit, owner, log_no)
        if origin and commit.fork:
            copy_origin(self.connection, thread, commit, commit.fork, origin)
        if not origin or commit.checkpoint:
            thread.sequence += 1
        thread.updated_at = max(thread.updated_at, micros(commit.at))
        add_values(self.connection, thread, commit, merged)
        add_checkpoint(self.connection, thread, commit, parent)
        add_attachments(self.connection, thread, commit)
        add_messages(self.connection, thread, commit, self._index)
        if commit.thread:
            describe(self.connection, thread, commit.thread)
            self._to_index += 1
        if made_checkpoint(commit) is None:
            self._execute(_SQL["add_receipt"], (thread.thread_no, commit.commit_id, thread.sequence, 0))
            if thread.sequence % _PRUNED_EVERY == 0:
                self._execute(_SQL["prune_receipts"], (thread.thread_no, thread.sequence - RECEIPTS_KEPT - 1))
            thread.has_receipts = 1
        note(self.connection, commit, after, thread)
        chain(self.connection, thread, commit)
        self._changed[thread.thread_no] = thread
        return self._applied(thread, commit, removed=removed)

    def _applied(self, thread: Thread, commit: Commit, *, removed: int = 0, repeated: bool = False) -> Applied:
        parent, sequence, created_at = None, 0, None
        if key := made_checkpoint(commit):
            namespace, checkpoint_id = key
            found = self._execute(_SQL["checkpoint"], (checkpoint_id, thread.thread_no, namespace)).fetchone()
            if found:
                _, sequence, parent, created, _, _ = found
                created_at = moment(created)
        return Applied(
            basis=thread.basis,
            parent_id=parent,
            sequence=sequence,
            created_at=created_at,
            removed=removed,
            repeated=repeated,
        )

    def _last_token(self, thread_id: str) -> int | None:
        found = self._execute(_SQL["lease"], (thread_id,)).fetchone()
        return found[1] if found else None

    def _origin(self, commit: Commit, kept: Thread | None) -> Origin | None:
        fork = commit.fork
        if fork is None:
            return None
        if kept:
            raise fork_exists(commit.thread_id)
        source = self.thread(fork.thread_id)
        if source and (not is_open_to(source.user_id, commit.user) or fork.thread_id == commit.thread_id):
            source = None
        head = self.head(source, fork.namespace) if source else None
        origin = origin_of(self.connection, fork, source, head)
        check_first(commit, origin.thread.next_value)
        return origin

    def _merged(self, commit: Commit, thread: Thread | None, removal: Removal) -> list[tuple[int, int]]:
        """First number and size of each row that `commit.merge` replaces. Raises ConflictError if they don't make it up."""
        replaced: list[tuple[int, int]] = []
        if not commit.merge:
            return replaced
        _, shared = shared_before(self.connection, thread.log_no) if thread else (0, 0)
        for row in commit.merge:
            old: list[tuple[int, int, int]] = []
            if thread and not removal.state:
                check_unshared(thread.thread_id, row.first, shared)
                old = self._execute(_SQL["values_between"], (thread.log_no, row.first, row.end)).fetchall()
            if new := commit.values:
                old += [(new.first, new.count, len(new.digests) + len(new.data))] if row.end > new.first else []
            old = [each for each in old if each[0] + each[1] > row.first]
            ends = [row.first, *(first + count for first, count, _ in old)]
            if not old or [first for first, _, _ in old] != ends[:-1] or ends[-1] != row.end:
                raise rows_differ(commit.thread_id, row)
            replaced += [(first, size) for first, _, size in old]
        return replaced

    def _parent(self, commit: Commit, thread: Thread | None, removal: Removal) -> str | None:
        """The parent of the commit's new checkpoint. One that is replaced keeps its own, and meets no conflict."""
        new = commit.checkpoint
        if new is None:
            return None
        head = None
        gone: frozenset[str] = frozenset()
        if commit.fork and new.namespace == commit.fork.namespace:
            head = commit.fork.as_checkpoint_id
        elif thread and not removal.state:
            gone = frozenset(key for namespace, key in removal.checkpoints if namespace == new.namespace)
            if new.checkpoint_id not in gone and self._checkpoint_no(thread, new.namespace, new.checkpoint_id):
                return None
            head = self.head(thread, new.namespace, without=gone)
        if new.parent is HEAD:
            return head
        if new.on_conflict == "reject" and new.parent != head:
            raise head_moved(commit, head)
        if new.parent is not None and new.parent != head and commit.basis is None:
            kept = None if removal.state or new.parent in gone else thread
            if kept is None or not self._checkpoint_no(kept, new.namespace, new.parent):
                raise parent_gone(commit, head)
        return new.parent

    def _checkpoint_no(self, thread: Thread, namespace: str, checkpoint_id: str) -> int | None:
        found = self._execute(_SQL["checkpoint"], (checkpoint_id, thread.thread_no, namespace)).fetchone()
        return found[0] if found else None

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
        thread = Thread(commit.thread_id, (*key, 0, 0, 0, 0, 0, 0, 0, at, None, None, 0))
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

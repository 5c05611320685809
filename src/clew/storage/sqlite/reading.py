"""Queries, answered over one unchanging view of the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from clew.model.config import ANY_USER, User
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    MessageQuery,
    StorageStats,
    ThreadQuery,
    Totals,
    ValuePage,
    ValueQuery,
)
from clew.model.records import (
    AttachmentRecord,
    Basis,
    CheckpointRecord,
    MessageRecord,
    Range,
    ThreadRecord,
    ValueRow,
)
from clew.storage.packing import bytes_text, day, moment, text_bytes, union, unpack_ranges
from clew.storage.sqlite.removing import shared_before
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.searching import found_messages
from clew.storage.sqlite.thread_search import found_threads

SQL = named("reads.sql")
_FAR = (1 << 63) - 1

_FIELDS = "place.sequence, checkpoint_id, namespace, parent_id, created_at, node_name, step, run_id, size, metadata"
_INFO = f"{_FIELDS}, x'' AS body, x'' AS covers"
_WHOLE = f"{_FIELDS}, body, covers"
_HEAD = (
    "coalesce((SELECT checkpoint_no FROM recent_checkpoint_places AS place"
    " WHERE place.thread_no = threads.thread_no ORDER BY sequence DESC LIMIT 1),"
    " (SELECT checkpoint_no FROM checkpoint_places AS place"
    " WHERE place.thread_no = threads.thread_no ORDER BY sequence DESC LIMIT 1),"
    " (SELECT checkpoint_no FROM checkpoints INDEXED BY checkpoints_other"
    " WHERE checkpoints.thread_no = threads.thread_no AND namespace <> '' ORDER BY sequence DESC LIMIT 1))"
)
_THREAD = (
    "thread_id, user_id, threads.created_at, updated_at, threads.run_id, threads.text, threads.data, forked_thread,"
    " forked_checkpoint, checkpoint_count, message_count, threads.size,"
    " head.sequence, head.checkpoint_id, head.namespace, head.parent_id, head.created_at, head.node_name, head.step,"
    " head.run_id, head.size, head.metadata, x'', x''"
)
for _name in ("main_checkpoints", "other_checkpoints", "all_checkpoints", "one_checkpoint"):
    SQL[f"{_name}_info"] = SQL[_name].format(columns=_INFO)
    SQL[f"{_name}_whole"] = SQL.pop(_name).format(columns=_WHOLE)
for _name in ("one_thread", "threads_of_user", "threads_of_all", "numbered_threads"):
    SQL[_name] = SQL[_name].format(columns=_THREAD, head=_HEAD)


class _Thread(NamedTuple):
    thread_no: int
    log_no: int
    incarnation: str
    epoch: int
    next_value: int
    indexed_messages: int
    sequence: int

    @property
    def basis(self) -> Basis:
        return Basis(incarnation=self.incarnation, epoch=self.epoch, next_value=self.next_value)


def _thread(connection: sqlite3.Connection, thread_id: str, user: User) -> _Thread | None:
    """The thread, unless it is another user's."""
    row = connection.execute(SQL["thread"], (thread_id, user is ANY_USER, _name_of(user))).fetchone()
    return _Thread._make(row) if row else None


def _name_of(user: User) -> str | None:
    return None if user is ANY_USER else user


def checkpoints(connection: sqlite3.Connection, query: CheckpointQuery) -> CheckpointPage:
    thread = _thread(connection, query.thread_id, query.user)
    if thread is None:
        return CheckpointPage(basis=None)
    named_by = {"thread": thread.thread_no, "namespace": query.namespace}
    before = _FAR if query.before_sequence is None else query.before_sequence
    if query.before is not None:
        (mark,) = connection.execute(SQL["sequence"], {**named_by, "id": query.before}).fetchone()
        before = min(before, mark or 0)
    if query.checkpoint_id is not None:
        kind = "one_checkpoint"
    elif query.namespace is None:
        kind = "all_checkpoints"
    else:
        kind = "other_checkpoints" if query.namespace else "main_checkpoints"
    rows = connection.execute(
        SQL[f"{kind}_{'info' if query.detail == 'info' else 'whole'}"],
        {
            **named_by,
            "id": query.checkpoint_id,
            "before": before,
            "run": query.run_id,
            "limit": _limit(query.limit),
        },
    )
    page = tuple(_checkpoint(row) for row in rows)
    values: list[ValueRow] = []
    if query.detail == "state":
        needed = (checkpoint for checkpoint in page if checkpoint.checkpoint_id != query.known)
        covers = union(each for checkpoint in needed for each in checkpoint.covers)
        values = _value_rows(connection, thread.log_no, covers, SQL["value_rows"])
    return CheckpointPage(basis=thread.basis, checkpoints=page, rows=tuple(values))


def _limit(limit: int | None) -> int:
    return -1 if limit is None else limit


def _checkpoint(row: tuple[Any, ...]) -> CheckpointRecord:
    sequence, checkpoint_id, namespace, parent_id, created_at, node, step, run_id, size, metadata, body, covers = row
    return CheckpointRecord(
        checkpoint_id=checkpoint_id,
        namespace=namespace,
        sequence=sequence,
        parent_id=parent_id,
        created_at=moment(created_at),
        node_name=node,
        step=step,
        run_id=run_id,
        size=size,
        metadata=metadata,
        body=body,
        covers=_covers(covers) if covers else (),
    )


def _covers(packed: bytes) -> tuple[Range, ...]:
    try:
        return unpack_ranges(packed)
    except ValueError:
        # Damaged: whoever needs the values finds them missing, and says whose they are. The other checkpoints are read.
        return ()


def values(connection: sqlite3.Connection, query: ValueQuery) -> ValuePage:
    thread = _thread(connection, query.thread_id, query.user)
    if thread is None:
        return ValuePage(basis=None)
    ranges = [(query.since, _FAR)] if query.ranges is None else union(query.ranges)
    statement = SQL["value_rows" if query.data else "value_digests"]
    rows = _value_rows(connection, thread.log_no, ranges, statement)
    inherited, fixed_before = shared_before(connection, thread.log_no)
    return ValuePage(
        basis=thread.basis,
        rows=tuple(rows),
        fixed_before=fixed_before,
        inherited=inherited,
        sequence=thread.sequence,
    )


def _value_rows(connection: sqlite3.Connection, log_no: int, ranges: list[Range], statement: str) -> list[ValueRow]:
    """The rows that hold any value of `ranges` (in order, apart), each once, in order."""
    found: list[ValueRow] = []
    segments = _segments(connection, log_no) if ranges else []
    last = -1
    for first, end in ranges:
        for segment, low, high in segments:
            if first < high and low < end:
                for row in connection.execute(statement, (segment, max(first, low), min(end, high))):
                    start, count, digests, data = row
                    if start > last and start + count > first:
                        found.append(ValueRow(first=start, count=count, digests=digests, data=data))
                        last = start
    return found


def _segments(connection: sqlite3.Connection, log_no: int) -> list[tuple[int, int, int]]:
    """Which log holds which numbers: (log, from, up to), in order; the thread's own log comes last."""
    segments: list[tuple[int, int, int]] = []
    high, at = _FAR, log_no
    while True:
        parent, low = connection.execute(SQL["log"], (at,)).fetchone()
        if low < high:
            segments.append((at, low, high))
        if parent is None:
            return segments[::-1]
        high, at = min(low, high), parent


def attachments(connection: sqlite3.Connection, query: AttachmentQuery) -> list[AttachmentRecord]:
    thread = _thread(connection, query.thread_id, query.user)
    if thread is None:
        return []
    if query.checkpoint_id is None:
        rows = connection.execute(SQL["attachments_of_all"], (thread.thread_no,))
    else:
        key = (thread.thread_no, query.namespace, query.checkpoint_id)
        rows = connection.execute(SQL["attachments_of_one"], key)
    return [
        AttachmentRecord(namespace=namespace, checkpoint_id=checkpoint_id, key=key, data=data)
        for namespace, checkpoint_id, key, data in rows
    ]


def messages(connection: sqlite3.Connection, query: MessageQuery) -> list[MessageRecord]:
    thread = _thread(connection, query.thread_id, query.user)
    if thread is None:
        return []
    if query.message_id is not None:
        rows: Iterable[tuple[Any, ...]] = connection.execute(SQL["one_message"], (thread.thread_no, query.message_id))
        rows = (row for row in rows if query.search is None or query.search in bytes_text(row[1]))
        rows = _page(rows, query)
    elif query.search:
        found = found_messages(connection, thread.thread_no, thread.indexed_messages, query.search)
        rows = _page(found, query)
    else:
        first = thread.thread_no << 32
        bounds = (first, first | 0xFFFFFFFF, _limit(query.limit), query.offset)
        rows = connection.execute(SQL["messages"], bounds)
    return [
        MessageRecord(
            message_id=message_id,
            text=bytes_text(text),
            tool_calls=tool_calls,
            run_id=run_id,
            created_at=moment(created_at),
            data=data,
            sequence=sequence,
        )
        for message_id, text, tool_calls, run_id, created_at, data, sequence in rows
    ]


def _page(rows: Iterable[tuple[Any, ...]], query: MessageQuery) -> Iterator[tuple[Any, ...]]:
    return islice(rows, query.offset, None if query.limit is None else query.offset + query.limit)


def threads(connection: sqlite3.Connection, query: ThreadQuery) -> list[ThreadRecord]:
    kind = "threads_of_all" if query.user is ANY_USER else "threads_of_user"
    asked = {
        "id": query.thread_id,
        "any": query.user is ANY_USER,
        "user": _name_of(query.user),
        "search": text_bytes(query.search) if query.search else None,
        "limit": _limit(query.limit),
        "offset": query.offset,
        "floor": -_FAR,
    }
    if query.thread_id is not None:
        rows = connection.execute(SQL["one_thread"], asked).fetchall()
    elif query.search:
        rows = found_threads(connection, SQL, kind, asked)
    else:
        rows = connection.execute(SQL[kind], asked).fetchall()
    return [_thread_record(row) for row in rows]


def _thread_record(row: tuple[Any, ...]) -> ThreadRecord:
    thread_id, user_id, created_at, updated_at, run_id, text, data, forked_thread, forked_checkpoint = row[:9]
    checkpoint_count, message_count, size, *head = row[9:]
    return ThreadRecord(
        thread_id=thread_id,
        user_id=user_id,
        created_at=moment(created_at),
        updated_at=moment(updated_at),
        run_id=run_id,
        text=bytes_text(text),
        data=data,
        forked_from=None if forked_thread is None else (forked_thread, forked_checkpoint),
        checkpoint_count=checkpoint_count,
        message_count=message_count,
        size=size,
        head=None if head[0] is None else _checkpoint(tuple(head)),
    )


def stats(connection: sqlite3.Connection, user: User) -> StorageStats:
    asked = {"any": user is ANY_USER, "user": _name_of(user)}
    by_thread = {
        thread_id: Totals(messages=messages, tool_calls=tool_calls, checkpoints=checkpoints, bytes=size)
        for thread_id, messages, checkpoints, size, tool_calls in connection.execute(SQL["totals_by_thread"], asked)
    }
    days: dict[int, list[int]] = {}
    for number, count, tool_calls, size in connection.execute(SQL["messages_by_day"], asked):
        days[number] = [count, tool_calls, 0, size]
    for number, count, size in connection.execute(SQL["checkpoints_by_day"], asked):
        total = days.setdefault(number, [0, 0, 0, 0])
        total[2] += count
        total[3] += size
    by_day = {
        day(number): Totals(messages=messages, tool_calls=tool_calls, checkpoints=checkpoints, bytes=size)
        for number, (messages, tool_calls, checkpoints, size) in sorted(days.items())
    }
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    return StorageStats(by_thread=by_thread, by_day=by_day, stored_bytes=pages * page_size)

"""Queries, each answered from one snapshot of the file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from clew.errors import shown
from clew.model.commit import HEAD
from clew.model.config import ANY_USER, User
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    Content,
    JournalPage,
    JournalQuery,
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
from clew.storage.branches import checked_points, is_within, visible
from clew.storage.columns import (
    ATTACHMENT,
    CHECKPOINT,
    ENTRY,
    LARGEST,
    MESSAGE,
    THREAD,
    damaged_thread,
    unpack_labels,
    value_row,
)
from clew.storage.content import content_of, content_queries
from clew.storage.conversions import bytes_text, day, micros, text_bytes, union, unpack_ranges
from clew.storage.protocol import Own
from clew.storage.sqlite.branches import read_points
from clew.storage.sqlite.message_index import found_messages
from clew.storage.sqlite.receipts import read_receipts
from clew.storage.sqlite.removals import shared_before
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import MOST_THREADS
from clew.storage.sqlite.thread_index import found_threads

SQL = named("reads.sql")
_FAR = (1 << 63) - 1

_FIELDS = (
    "place.sequence, checkpoint_id, namespace, parent_id, created_at, saved_at, node_name, step, run_id, size, metadata"
)
_INFO = f"{_FIELDS}, x'' AS body, x'' AS covers"
_WHOLE = f"{_FIELDS}, body, covers"
_HEAD = (
    "coalesce((SELECT checkpoint_no FROM checkpoints INDEXED BY checkpoints_main"
    " WHERE checkpoints.thread_no = threads.thread_no AND namespace = '' ORDER BY sequence DESC LIMIT 1),"
    " (SELECT checkpoint_no FROM checkpoints INDEXED BY checkpoints_other"
    " WHERE checkpoints.thread_no = threads.thread_no AND namespace <> '' ORDER BY sequence DESC LIMIT 1))"
)
_LABELS = "(SELECT group_concat(label, '') FROM thread_labels WHERE thread_labels.thread_no = threads.thread_no)"
_THREAD = (
    "thread_id, user_id, threads.created_at, updated_at, threads.run_id, threads.text, threads.data, forked_thread,"
    " forked_checkpoint, checkpoint_count, message_count, threads.size, CASE"
    f" WHEN epoch NOT BETWEEN 0 AND {LARGEST} THEN 'epoch' WHEN next_value NOT BETWEEN 0 AND {LARGEST} THEN 'next_value'"
    f" WHEN threads.sequence NOT BETWEEN coalesce(head.sequence, 0) AND {LARGEST} THEN 'sequence'"
    f" WHEN next_message NOT BETWEEN message_count AND {LARGEST} THEN 'next_message'"
    " WHEN indexed_messages NOT BETWEEN 0 AND next_message THEN 'indexed_messages' END,"
    f" {_LABELS},"
    " head.sequence, head.checkpoint_id, head.namespace, head.parent_id, head.created_at, head.saved_at, head.node_name,"
    " head.step, head.run_id, head.size, head.metadata, x'', x''"
)
_EARLIER = "updated_at <= :before_at AND (updated_at < :before_at OR threads.thread_no < :before_no)"
_LABELLED = (
    "(:labels IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(:labels) AS wanted LEFT JOIN thread_labels AS had"
    " ON had.thread_no = threads.thread_no AND had.label = wanted.value WHERE had.label IS NULL))"
)
for _name in ("main_checkpoints", "other_checkpoints", "all_checkpoints", "one_checkpoint"):
    SQL[f"{_name}_info"] = SQL[_name].format(columns=_INFO)
    SQL[f"{_name}_whole"] = SQL.pop(_name).format(columns=_WHOLE)
for _name in ("one_thread", "threads_of_user", "threads_of_all", "numbered_threads", "matching"):
    SQL[_name] = SQL[_name].format(columns=_THREAD, head=_HEAD, earlier=_EARLIER, labelled=_LABELLED)


class _Thread(NamedTuple):
    thread_id: str
    thread_no: int
    log_no: int
    incarnation: str
    epoch: int
    next_value: int
    indexed_messages: int
    sequence: int
    points: bytes | None

    @property
    def basis(self) -> Basis:
        return Basis(incarnation=self.incarnation, epoch=self.epoch, next_value=self.next_value)


_THREAD_TYPES = frozenset((int, int, str, int, int, int, int, points) for points in (bytes, type(None)))


def _thread(connection: sqlite3.Connection, thread_id: str, user: User) -> _Thread | None:
    """The thread; `None` if there is none or it belongs to another user."""
    row = connection.execute(SQL["thread"], (thread_id, user is ANY_USER, _name_of(user))).fetchone()
    if row is None:
        return None
    if tuple(map(type, row)) not in _THREAD_TYPES or not 0 < row[0] < MOST_THREADS:
        raise damaged_thread(thread_id, "its row can't be read")
    return _Thread(thread_id, *row)


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
    page = tuple([_checkpoint(row) for row in rows])
    values: list[ValueRow] = []
    if query.detail == "state":
        needed = (checkpoint for checkpoint in page if checkpoint.checkpoint_id != query.known)
        covers = union(each for checkpoint in needed for each in checkpoint.covers)
        values = _value_rows(connection, thread, covers, SQL["value_rows"])
    return CheckpointPage(basis=thread.basis, checkpoints=page, rows=tuple(values))


def _limit(limit: int | None) -> int:
    return -1 if limit is None else limit


def _checkpoint(row: tuple[Any, ...]) -> CheckpointRecord:
    covers = row[-1]
    return CHECKPOINT.record((*row[:-1], unpack_ranges(covers) if type(covers) is bytes else None))


def values(connection: sqlite3.Connection, query: ValueQuery) -> ValuePage:
    thread = _thread(connection, query.thread_id, query.user)
    if thread is None:
        return ValuePage(basis=None)
    ranges = [(query.since, _FAR)] if query.ranges is None else union(query.ranges)
    statement = SQL["value_rows" if query.data else "value_digests"]
    rows = _value_rows(connection, thread, ranges, statement)
    inherited, fixed_before = shared_before(connection, thread)
    points, damage = checked_points(unpack_ranges(thread.points) if thread.points else (), thread.sequence)
    return ValuePage(
        basis=thread.basis,
        rows=tuple(rows),
        fixed_before=fixed_before,
        inherited=inherited,
        sequence=thread.sequence,
        points=points,
        damage=damage,
    )


def _value_rows(connection: sqlite3.Connection, thread: _Thread, ranges: list[Range], statement: str) -> list[ValueRow]:
    """The rows that hold any value of `ranges` (sorted and disjoint), each once, in order."""
    found: list[ValueRow] = []
    segments = _segments(connection, thread) if ranges else []
    last = -1
    for first, end in ranges:
        for segment, low, high in segments:
            if first < high and low < end:
                for columns in connection.execute(statement, (segment, max(first, low), min(end, high))):
                    row = value_row(*columns)
                    if row is not None and row.first > last and row.end > first:
                        found.append(row)
                        last = row.first
    return found


def _segments(connection: sqlite3.Connection, thread: _Thread) -> list[tuple[int, int, int]]:
    """The logs of the thread's values in order, as (log, first, end). Its own comes last."""
    segments: list[tuple[int, int, int]] = []
    high, at = _FAR, thread.log_no
    while True:
        parent, low = connection.execute(SQL["log"], (at,)).fetchone() or (at, 0)
        if type(low) is not int or not (parent is None or (type(parent) is int and parent < at)):
            # A fork's log has a greater number than its source's, so this could be a cycle.
            raise damaged_thread(thread.thread_id, f"the log {at}, which holds its values, can't be read")
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
    return list(map(ATTACHMENT.record, rows))


def messages(connection: sqlite3.Connection, query: MessageQuery) -> list[MessageRecord]:
    thread = _thread(connection, query.thread_id, query.user)
    if thread is None:
        return []
    bounds = _message_bounds(connection, thread, query)
    if bounds is None:
        return []
    ranges = None if query.message_id is not None else _branch(connection, thread, query)
    rows: Iterable[tuple[Any, ...]]
    if query.message_id is not None:
        found = connection.execute(SQL["one_message"], (thread.thread_no, query.message_id, *bounds))
        rows = _page((row for row in found if query.search is None or query.search in bytes_text(row[1])), query)
    elif query.search:
        index_end = (thread.thread_no << 32) + thread.indexed_messages
        matching = found_messages(connection, *bounds, index_end, query.search)
        # The seventh column is the sequence number. A damaged one is on no branch.
        rows = _page(
            matching
            if ranges is None
            else (row for row in matching if type(row[6]) is int and is_within(ranges, row[6])),
            query,
        )
    else:
        kind = "newest_messages" if query.newest else "messages"
        page: tuple[Any, ...] = (*bounds, _limit(query.limit), query.offset)
        if ranges is not None:
            kind, page = f"{kind}_of_branch", (*page, json.dumps(ranges))
        rows = connection.execute(SQL[kind], page).fetchall()
        if query.newest:
            rows = rows[::-1]
    return [MESSAGE.record((name, _search_text(text), *rest)) for name, text, *rest in rows]


def _message_bounds(connection: sqlite3.Connection, thread: _Thread, query: MessageQuery) -> tuple[int, int] | None:
    """The first and the last number of the messages asked for; `None` if a cursor is unknown."""
    first = thread.thread_no << 32
    last = first | 0xFFFFFFFF
    for name, step in ((query.after, 1), (query.before, -1)):
        if name is not None:
            found = connection.execute(SQL["message_no"], (thread.thread_no, name)).fetchone()
            if found is None:
                return None
            first, last = (found[0] + 1, last) if step > 0 else (first, found[0] - 1)
    return first, last


def _branch(connection: sqlite3.Connection, thread: _Thread, query: MessageQuery) -> list[Range] | None:
    """The sequence numbers of the branch that `query` asks for; `None` if that is everything."""
    if query.branch is None or (query.branch is HEAD and thread.points is None):
        return None
    points = read_points(thread.thread_id, thread.points)
    if not isinstance(query.branch, str):
        return visible(points)
    asked = {"thread": thread.thread_no, "namespace": query.namespace, "id": query.branch}
    (number,) = connection.execute(SQL["sequence"], asked).fetchone()
    return visible(points, number) if type(number) is int else []


def _search_text(stored: Any) -> Any:
    # Damaged text is not an error; a search just doesn't find it.
    return bytes_text(stored) if type(stored) is bytes else None


def _page(rows: Iterable[tuple[Any, ...]], query: MessageQuery) -> Iterable[tuple[Any, ...]]:
    stop = None if query.limit is None else query.offset + query.limit
    return [*rows][::-1][query.offset : stop][::-1] if query.newest else islice(rows, query.offset, stop)


def threads(connection: sqlite3.Connection, query: ThreadQuery) -> list[ThreadRecord]:
    kind = "threads_of_all" if query.user is ANY_USER else "threads_of_user"
    asked = {
        "id": query.thread_id,
        "any": query.user is ANY_USER,
        "user": _name_of(query.user),
        "search": text_bytes(query.search) if query.search else None,
        "limit": _limit(query.limit),
        "offset": query.offset,
        "floor": ~_FAR,
        "labels": json.dumps([label.hex() for label in query.labels]) if query.labels else None,
        "before_at": _FAR,
        "before_no": _FAR,
    }
    if query.before is not None:
        found = connection.execute(SQL["thread_no"], (query.before[1],)).fetchone()
        asked |= {"before_at": micros(query.before[0]), "before_no": found[0] if found else _FAR}
    if query.thread_id is not None:
        rows = connection.execute(SQL["one_thread"], asked).fetchall()
    elif query.search or query.labels:
        rows = found_threads(connection, SQL, kind, asked, query.labels)
    else:
        rows = connection.execute(SQL[kind], asked).fetchall()
    return [_thread_record(row) for row in rows]


def _thread_record(row: tuple[Any, ...]) -> ThreadRecord:
    record = THREAD.record((*row[:5], _search_text(row[5]), *row[6:13], _labels(row[13])))
    return record if row[14] is None else replace(record, head=_checkpoint(row[14:]))


def _labels(joined: Any) -> tuple[bytes, ...] | None:
    try:
        return unpack_labels(bytes.fromhex(joined or ""))
    except (TypeError, ValueError):
        return None


def content(connection: sqlite3.Connection, thread_id: str) -> Content | None:
    of_threads, of_values, of_checkpoints, of_attachments, of_messages = content_queries(thread_id)
    return content_of(
        threads(connection, of_threads),
        values(connection, of_values),
        checkpoints(connection, of_checkpoints),
        attachments(connection, of_attachments),
        messages(connection, of_messages),
    )


def journal(connection: sqlite3.Connection, query: JournalQuery) -> JournalPage:
    # In hexadecimal, because SQLite's JSON functions end a string at a NUL character.
    without = json.dumps([text_bytes(each).hex().upper() for each in query.without])
    statement = SQL["journal" if query.thread_id is None else "journal_of_thread"]
    asked = {"thread": query.thread_id, "without": without, "limit": query.limit}
    entries = tuple(map(ENTRY.record, connection.execute(statement, asked)))
    (count,) = connection.execute(SQL["journal_count"]).fetchone()
    receipts: tuple[str, ...] = ()
    if query.receipts and query.thread_id is not None:
        receipts = read_receipts(connection, query.thread_id)
    return JournalPage(entries=entries, count=count, receipts=receipts)


def own(connection: sqlite3.Connection, name: Own) -> bytes | None:
    found = connection.execute(SQL["own"], (name.value,)).fetchone()
    return cast("bytes", found[0]) if found else None


def stats(connection: sqlite3.Connection, user: User) -> StorageStats:
    asked = {"any": user is ANY_USER, "user": _name_of(user)}
    by_thread = {
        thread_id if type(thread_id) is str else shown(thread_id): _totals(*counts)
        for thread_id, *counts in connection.execute(SQL["totals_by_thread"], asked)
    }
    days: dict[int, list[int]] = {}
    for number, count, tool_calls, size, *tokens in connection.execute(SQL["messages_by_day"], asked):
        days[number] = [count, tool_calls, 0, size or 0, *tokens]
    for number, count, size in connection.execute(SQL["checkpoints_by_day"], asked):
        total = days.setdefault(number, [0] * 6)
        total[2] += count
        total[3] += size or 0
    ordered = sorted(days.items(), key=lambda each: each[0] or 0)
    by_day = {day(number): Totals.counted(counts) for number, counts in ordered}
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    return StorageStats(by_thread=by_thread, by_day=by_day, stored_bytes=pages * page_size)


def _totals(*counts: Any) -> Totals:
    *numbers, sums = counts
    messages, checkpoints, size = (count if type(count) is int else 0 for count in numbers)
    tool_calls, *tokens = json.loads(sums)
    return Totals.counted((messages, tool_calls, checkpoints, size, *tokens))

"""Query translation: queries to statements and parameters, and rows to records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from clew.model.config import ANY_USER, User
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    JournalPage,
    JournalQuery,
    StorageStats,
    Totals,
    ValuePage,
    ValueQuery,
)
from clew.model.records import (
    AttachmentRecord,
    Basis,
    CheckpointRecord,
    JournalEntry,
    LeaseRecord,
    MessageRecord,
    Range,
    ThreadRecord,
    ValueRow,
)
from clew.storage.branches import checked_points
from clew.storage.columns import (
    ATTACHMENT,
    CHECKPOINT,
    ENTRY,
    MESSAGE,
    THREAD,
    damaged_thread,
    unpack_labels,
    value_row,
)
from clew.storage.conversions import checked_ranges, day, moment
from clew.storage.postgres.commits import COMMIT_PARAMETERS, FAST_APPENDS_PARAMETERS, FAST_SAVE_PARAMETERS
from clew.storage.postgres.lists import Lists, Question
from clew.storage.postgres.schema import Schema
from clew.storage.postgres.texts import escaped, escaped_or_none, unescaped, unescaped_or_none
from clew.storage.postgres.users import UserColumn

_FAR = (1 << 63) - 1
Row = Any
_by_first = attrgetter("first")


class Statements:
    """The statements of one schema."""

    def __init__(self, schema: Schema, users: UserColumn) -> None:
        sql = schema.statements
        self._sql = sql
        self._users = users
        self._checkpoints: dict[tuple[bool, ...], str] = {}
        self.ping, self.lease, self._stats = sql["ping"], sql["lease"], sql["stats"]
        self.own, self.put_own = sql["own"], sql["put_own"]
        self.watch, self.feed, self.feed_trim = sql["watch"], sql["feed"], sql["feed_trim"]
        self.commit_fast_save = sql["commit_fast_save"].replace("@arguments", _arguments(FAST_SAVE_PARAMETERS))
        self.commit = sql["commit"].replace("@arguments", _arguments(COMMIT_PARAMETERS))
        self._series: dict[int, str] = {}
        appends = sql["commit_fast_appends"]
        self.commit_fast_appends = appends.replace("@arguments", _arguments(FAST_APPENDS_PARAMETERS))
        journal = sql["journal"].replace("@receipts", "NULL::text[]")
        self._whole_journal = journal.replace("@which", "")
        self._journal_of_thread = journal.replace("@which", "thread_id = $3 AND")
        with_receipts = sql["journal"].replace("@receipts", sql["journal_receipts"])
        self._journal_and_receipts = with_receipts.replace("@which", "thread_id = $3 AND")
        self._trim = sql["trim"]
        lists = Lists(sql, users)
        self.messages, self.threads = lists.messages, lists.threads

    def commit_series(self, count: int) -> str:
        """Return a statement that calls `commit` `count` times, each after the one before."""
        statement = self._series.get(count)
        if statement is None:
            calls = [_arguments(COMMIT_PARAMETERS, COMMIT_PARAMETERS * number) for number in range(count)]
            statement = " UNION ALL ".join(self._sql["commit"].replace("@arguments", each) for each in calls)
            self._series[count] = statement
        return statement

    def _who(self, thread_id: str, user: User) -> list[Any]:
        return [escaped(thread_id), user is ANY_USER, self._users.stored(user)]

    def checkpoints(self, query: CheckpointQuery) -> Question:
        state = query.detail == "state"
        parameters = [*self._who(query.thread_id, query.user), escaped_or_none(query.run_id), query.limit]
        if state:
            parameters.append(escaped_or_none(query.known))
        given = (query.namespace, query.checkpoint_id, query.before)
        shape = (query.detail != "info", state, *(each is not None for each in (*given, query.before_sequence)))
        statement = self._checkpoints.get(shape)
        if statement is None:
            statement = self._checkpoints[shape] = self._checkpoint_statement(*shape)
        parameters += [escaped(each) for each in given if each is not None]
        if query.before_sequence is not None:
            parameters.append(query.before_sequence)
        return statement, parameters

    def heads(self, loads: Sequence[Sequence[Any]]) -> Question:
        """Return the question for several heads, from the parameters that `load` returned."""
        return self._sql["heads"], [list(column) for column in zip(*loads, strict=True)]

    def load(self, query: CheckpointQuery) -> list[Any] | None:
        """Return the parameters for `heads` if `query` asks for the state at a head, else `None`."""
        asked = (query.detail, query.limit, query.checkpoint_id, query.before, query.before_sequence, query.run_id)
        if query.namespace is None or asked != ("state", 1, None, None, None, None):
            return None
        return [*self._who(query.thread_id, query.user), escaped(query.namespace), escaped_or_none(query.known)]

    def _checkpoint_statement(
        self, body: bool, state: bool, spaced: bool, named: bool, before: bool, numbered: bool
    ) -> str:
        """Return the statement for checkpoints. `spaced`: with a namespace, `named`: with an id."""
        sql = self._sql
        if named:
            which = sql["named"]
        else:
            which = sql["in_namespace" if spaced else "in_all"]
        if before:
            which += " AND " + sql["before"]
        if numbered:
            which += " AND " + sql["before_sequence"]
        number = 6 if state else 5
        for mark, given in (("@namespace", spaced), ("@id", named), ("@before", before), ("@sequence", numbered)):
            number += given
            which = which.replace(mark, f"${number}" if given else "NULL")
        text = sql["checkpoints"].replace("@which", which)
        text = text.replace("@body", "body, covers" if body else "''::bytea AS body, '{}'::bigint[] AS covers")
        return f"{text} {sql['with_values']}" if state else text

    def values(self, query: ValueQuery) -> Question:
        ranges = [(query.since, _FAR)] if query.ranges is None else query.ranges
        numbers = [number for each in ranges for number in each]
        return self._sql["values"], [*self._who(query.thread_id, query.user), query.data, numbers]

    def attachments(self, query: AttachmentQuery) -> Question:
        parameters = self._who(query.thread_id, query.user)
        if query.checkpoint_id is None:
            return self._sql["attachments_of_all"], parameters
        return self._sql["attachments_of_one"], [*parameters, escaped(query.namespace), escaped(query.checkpoint_id)]

    def stats(self, user: User) -> Question:
        return self._stats, [user is ANY_USER, self._users.stored(user)]

    def journal(self, query: JournalQuery) -> Question:
        parameters: list[Any] = [query.limit, [escaped(each) for each in query.without]]
        if query.thread_id is None:
            return self._whole_journal, parameters
        statement = self._journal_and_receipts if query.receipts else self._journal_of_thread
        return statement, [*parameters, escaped(query.thread_id)]

    def trim(self, entries: Sequence[JournalEntry]) -> Question:
        # Sorted, so that concurrent calls can't deadlock.
        keys = sorted((escaped(each.thread_id), each.position) for each in entries)
        return self._trim, [[thread_id for thread_id, _ in keys], [position for _, position in keys]]

    def thread_records(self, rows: Iterable[Row]) -> list[ThreadRecord]:
        return [_thread(row, self._users.read(row["user_id"])) for row in rows]


def _arguments(count: int, after: int = 0) -> str:
    return ", ".join(f"${after + number}" for number in range(1, count + 1))


def _ranges(covers: str) -> tuple[Range, ...] | None:
    """Parse ranges from an array in PostgreSQL's text format. Returns `None` if it is damaged."""
    try:
        numbers = [int(number) for number in covers[1:-1].split(",")] if covers != "{}" else []
        return checked_ranges(list(zip(numbers[::2], numbers[1::2], strict=True)))
    except ValueError:
        return None


def checkpoint_page(rows: list[Row]) -> CheckpointPage:
    return checkpoint_pages(rows, 1)[0]


def checkpoint_pages(rows: list[Row], count: int) -> list[CheckpointPage]:
    """Return `count` pages, from rows that each name the page that they belong to."""
    bases: list[Basis | None] = [None] * count
    found: list[list[CheckpointRecord]] = [[] for _ in bases]
    values: list[list[ValueRow]] = [[] for _ in bases]
    for kind, place, n1, n2, n3, n4, n5, t1, t2, t3, t4, t5, b1, b2, covers in rows:
        if kind == 2:
            row = value_row(n1, n2, b1, b2)
            if row is not None:
                values[place - 1].append(row)
        elif kind == 1:
            columns = (
                n1,
                *_unescaped(t1, t2, t3),
                n3,
                n2,
                *_unescaped(t4),
                n4,
                *_unescaped(t5),
                n5,
                b1,
                b2,
                _ranges(covers),
            )
            found[place - 1].append(CHECKPOINT.record(columns))
        else:
            bases[place - 1] = Basis(incarnation=t1, epoch=n1, next_value=n2)
    pages = []
    for basis, checkpoints, rows_of_values in zip(bases, found, values, strict=True):
        # UNION ALL does not keep the order of its parts.
        checkpoints.sort(key=attrgetter("sequence"), reverse=True)
        rows_of_values.sort(key=_by_first)
        pages.append(CheckpointPage(basis=basis, checkpoints=tuple(checkpoints), rows=tuple(rows_of_values)))
    return pages


def value_page(rows: list[Row]) -> ValuePage:
    values: list[ValueRow] = []
    basis, thread_sequence, packed = None, 0, None
    for n1, n2, sequence, incarnation, digests, data, points in rows:
        if incarnation is None:
            row = value_row(n1, n2, digests, data)
            if row is not None:
                values.append(row)
        else:
            basis, thread_sequence = Basis(incarnation=incarnation, epoch=n1, next_value=n2), sequence
            packed = points
    values.sort(key=_by_first)
    points, damage = checked_points(_ranges(packed) if packed else (), thread_sequence)
    return ValuePage(basis=basis, rows=tuple(values), sequence=thread_sequence, points=points, damage=damage)


def attachment_records(rows: Iterable[Row]) -> list[AttachmentRecord]:
    return [ATTACHMENT.record((*_unescaped(*names), data)) for *names, data in rows]


def message_records(rows: Iterable[Row]) -> list[MessageRecord]:
    return [
        MESSAGE.record((*_unescaped(message_id, text), tool_calls, *_unescaped(run_id), *rest))
        for message_id, text, tool_calls, run_id, *rest in rows
    ]


def _unescaped(*texts: str | None) -> Iterator[str | None]:
    return map(unescaped_or_none, texts)


def _thread(row: Mapping[str, Any], user_id: str | None) -> ThreadRecord:
    record = THREAD.record(
        (
            unescaped(row["thread_id"]),
            user_id,
            row["created_at"],
            row["updated_at"],
            *_unescaped(row["run_id"], row["text"]),
            row["data"],
            *_unescaped(row["forked_thread"], row["forked_checkpoint"]),
            row["checkpoint_count"],
            row["message_count"],
            row["size"],
            row["unusable"],
            _labels(row["labels"]),
        )
    )
    if row["sequence"] is None:
        return record
    head = CHECKPOINT.record(
        (
            row["sequence"],
            *_unescaped(row["checkpoint_id"], row["namespace"], row["parent_id"]),
            row["made_at"],
            row["saved_at"],
            *_unescaped(row["node_name"]),
            row["step"],
            *_unescaped(row["made_in"]),
            row["state_size"],
            row["metadata"],
            b"",
            (),
        )
    )
    return replace(record, head=head)


def _labels(joined: str) -> tuple[bytes, ...] | None:
    try:
        return unpack_labels(bytes.fromhex(joined))
    except ValueError:
        return None


def storage_stats(rows: Iterable[Row]) -> StorageStats:
    by_thread: dict[str, Totals] = {}
    days: dict[int, list[int]] = {}
    stored = 0
    for kind, thread_id, number, *counts in rows:
        if kind == 0:
            by_thread[unescaped(thread_id)] = Totals.counted(counts)
        elif kind == 1:
            sums = days.setdefault(number, [0] * len(counts))
            days[number] = [a + b for a, b in zip(sums, counts, strict=True)]
        else:
            stored = counts[3]
    by_day = {day(number): Totals.counted(counts) for number, counts in sorted(days.items())}
    return StorageStats(by_thread=by_thread, by_day=by_day, stored_bytes=stored)


def journal_page(rows: list[Row]) -> JournalPage:
    return JournalPage(
        entries=tuple(
            ENTRY.record((position, *_unescaped(thread_id, commit_id, after), incarnation, at, data))
            for _, _, position, thread_id, commit_id, after, incarnation, at, data in rows
            if position is not None
        ),
        count=rows[0]["count"],
        receipts=tuple(map(unescaped, rows[0]["receipts"] or ())),
    )


def lease_record(thread_id: str, row: Mapping[str, Any]) -> LeaseRecord:
    try:
        return LeaseRecord(
            thread_id=thread_id,
            holder=unescaped(row["holder"]),
            token=row["token"],
            since=moment(row["since"]),
            expires_at=moment(row["expires_at"]),
        )
    except OverflowError as error:
        raise damaged_thread(thread_id, "the times of its lease are out of range") from error

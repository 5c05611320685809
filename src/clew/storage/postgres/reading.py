"""Queries as statements, and the rows that they give as records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from clew.model.config import ANY_USER, User
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
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
    JournalEntry,
    LeaseRecord,
    MessageRecord,
    Range,
    ThreadRecord,
    ValueRow,
)
from clew.storage.packing import day, moment
from clew.storage.postgres.commits import ALONE_PARAMETERS, COMMIT_PARAMETERS, USUAL_PARAMETERS
from clew.storage.postgres.schema import Schema
from clew.storage.postgres.texts import escaped, escaped_or_none, pattern, unescaped, unescaped_or_none
from clew.storage.postgres.users import UserColumn

_FAR = (1 << 63) - 1
Row = Any
Question = tuple[str, list[Any]]
"""A statement and its parameters."""
_by_first = attrgetter("first")


class Statements:
    """The statements of one schema: what to ask, by query."""

    def __init__(self, schema: Schema, users: UserColumn) -> None:
        sql = schema.statements()
        self._sql = sql
        self._users = users
        self._checkpoints: dict[tuple[bool, ...], str] = {}
        self.ping, self.lease, self._stats = sql["ping"], sql["lease"], sql["stats"]
        self.commit_alone = sql["commit_alone"].replace("@arguments", _arguments(ALONE_PARAMETERS))
        self.commit = sql["commit"].replace("@arguments", _arguments(COMMIT_PARAMETERS))
        self.commit_usual = sql["commit_usual"].replace("@arguments", _arguments(USUAL_PARAMETERS))
        journal = sql["journal"].replace("@receipts", "NULL::text[]")
        self._whole_journal = journal.replace("@which", "")
        self._journal_of_thread = journal.replace("@which", "thread_id = $3 AND")
        with_receipts = sql["journal"].replace("@receipts", sql["journal_receipts"])
        self._journal_and_receipts = with_receipts.replace("@which", "thread_id = $3 AND")
        self._trim = sql["trim"]
        self._one_message = sql["messages"].replace("@which", sql["messages_one"])
        self._all_messages = sql["messages"].replace("@which", sql["messages_all"])
        self._threads = {
            kind: self._thread_statement("threads", kind)
            for kind in ("threads_one", "threads_of_user", "threads_of_nobody", "threads_of_all")
        }
        self._threads_found = {
            kind: self._thread_statement("threads_found", kind).replace("@sought", f"$3, {sought}")
            for kind, sought in (
                ("threads_of_user", "false, $4::text"),
                ("threads_of_nobody", "false, NULL"),
                ("threads_of_all", "true, NULL"),
            )
        }

    def _thread_statement(self, name: str, kind: str) -> str:
        """The statement `name` for threads of that kind."""
        sql = self._sql
        text = sql[name].replace("@thread ", sql["thread_columns"] + " ").replace("@head", sql["thread_head"])
        text = text.replace("@which", sql[kind]).replace("@found", sql["thread_found"])
        return text.replace("@order", sql["order_of_all" if kind == "threads_of_all" else "order_of_user"])

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
        """What to ask for several heads at once, from what `load` gave for each."""
        return self._sql["heads"], [list(column) for column in zip(*loads, strict=True)]

    def load(self, query: CheckpointQuery) -> list[Any] | None:
        """The parameters for the state at a head, if `query` asks for nothing else."""
        asked = (query.detail, query.limit, query.checkpoint_id, query.before, query.before_sequence, query.run_id)
        if query.namespace is None or asked != ("state", 1, None, None, None, None):
            return None
        return [*self._who(query.thread_id, query.user), escaped(query.namespace), escaped_or_none(query.known)]

    def _checkpoint_statement(
        self, body: bool, state: bool, spaced: bool, named: bool, before: bool, numbered: bool
    ) -> str:
        """The statement for a query that gives a namespace, an id, a `before`, a `before_sequence`."""
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

    def messages(self, query: MessageQuery) -> Question:
        parameters = [*self._who(query.thread_id, query.user), query.limit, query.offset]
        wanted = pattern(query.search) if query.search else None
        if query.message_id is not None:
            return self._one_message, [*parameters, escaped(query.message_id), wanted]
        if wanted is not None:
            return self._sql["messages_found"], [*parameters, wanted]
        return self._all_messages, parameters

    def threads(self, query: ThreadQuery) -> Question:
        parameters = [query.limit, query.offset, escaped(query.search) if query.search else None]
        user = self._users.stored(query.user)
        if query.thread_id is not None:
            return self._threads["threads_one"], [*parameters, escaped(query.thread_id), query.user is ANY_USER, user]
        statements = self._threads_found if query.search else self._threads
        if query.user is ANY_USER:
            return statements["threads_of_all"], parameters
        if user is None:
            return statements["threads_of_nobody"], parameters
        return statements["threads_of_user"], [*parameters, user]

    def stats(self, user: User) -> Question:
        return self._stats, [user is ANY_USER, self._users.stored(user)]

    def journal(self, query: JournalQuery) -> Question:
        parameters: list[Any] = [query.limit, [escaped(each) for each in query.without]]
        if query.thread_id is None:
            return self._whole_journal, parameters
        statement = self._journal_and_receipts if query.receipts else self._journal_of_thread
        return statement, [*parameters, escaped(query.thread_id)]

    def trim(self, entries: Sequence[JournalEntry]) -> Question:
        # In one order by everybody, or two could wait for each other.
        keys = sorted((escaped(each.thread_id), each.position) for each in entries)
        return self._trim, [[thread_id for thread_id, _ in keys], [position for _, position in keys]]

    def thread_records(self, rows: Iterable[Row]) -> list[ThreadRecord]:
        return [_thread(row, self._users.read(row["user_id"])) for row in rows]


def _arguments(count: int) -> str:
    return ", ".join(f"${number}" for number in range(1, count + 1))


def _ranges(covers: str) -> tuple[Range, ...]:
    """Ranges from an array of numbers as PostgreSQL writes it."""
    numbers = [int(number) for number in covers[1:-1].split(",")] if covers != "{}" else []
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def checkpoint_page(rows: list[Row]) -> CheckpointPage:
    return checkpoint_pages(rows, 1)[0]


def checkpoint_pages(rows: list[Row], count: int) -> list[CheckpointPage]:
    """The pages that rows make up, each by its place."""
    bases: list[Basis | None] = [None] * count
    found: list[list[CheckpointRecord]] = [[] for _ in bases]
    values: list[list[ValueRow]] = [[] for _ in bases]
    for kind, place, n1, n2, n3, n4, t1, t2, t3, t4, t5, b1, b2, covers in rows:
        if kind == 2:
            values[place - 1].append(ValueRow(first=n1, count=n2, digests=b1, data=b2))
        elif kind == 1:
            found[place - 1].append(
                CheckpointRecord(
                    checkpoint_id=unescaped(t1),
                    namespace=unescaped(t2),
                    sequence=n1,
                    parent_id=unescaped_or_none(t3),
                    created_at=moment(n2),
                    node_name=unescaped_or_none(t4),
                    step=n3,
                    run_id=unescaped_or_none(t5),
                    size=n4,
                    metadata=b1,
                    body=b2,
                    covers=_ranges(covers),
                )
            )
        else:
            bases[place - 1] = Basis(incarnation=t1, epoch=n1, next_value=n2)
    pages = []
    for basis, checkpoints, rows_of_values in zip(bases, found, values, strict=True):
        # The parts of a statement have no order of their own.
        checkpoints.sort(key=attrgetter("sequence"), reverse=True)
        rows_of_values.sort(key=_by_first)
        pages.append(CheckpointPage(basis=basis, checkpoints=tuple(checkpoints), rows=tuple(rows_of_values)))
    return pages


def value_page(rows: list[Row]) -> ValuePage:
    values: list[ValueRow] = []
    basis, thread_sequence = None, 0
    for n1, n2, sequence, incarnation, digests, data in rows:
        if incarnation is None:
            values.append(ValueRow(first=n1, count=n2, digests=digests, data=data))
        else:
            basis, thread_sequence = Basis(incarnation=incarnation, epoch=n1, next_value=n2), sequence
    values.sort(key=_by_first)
    return ValuePage(basis=basis, rows=tuple(values), sequence=thread_sequence)


def attachment_records(rows: Iterable[Row]) -> list[AttachmentRecord]:
    return [
        AttachmentRecord(
            namespace=unescaped(namespace), checkpoint_id=unescaped(checkpoint_id), key=unescaped(key), data=data
        )
        for namespace, checkpoint_id, key, data in rows
    ]


def message_records(rows: Iterable[Row]) -> list[MessageRecord]:
    return [
        MessageRecord(
            message_id=unescaped(message_id),
            text=unescaped(text),
            tool_calls=tool_calls,
            run_id=unescaped_or_none(run_id),
            created_at=moment(created_at),
            data=data,
            sequence=sequence,
        )
        for message_id, text, tool_calls, run_id, created_at, data, sequence in rows
    ]


def _thread(row: Mapping[str, Any], user_id: str | None) -> ThreadRecord:
    head = None
    if row["sequence"] is not None:
        head = CheckpointRecord(
            checkpoint_id=unescaped(row["checkpoint_id"]),
            namespace=unescaped(row["namespace"]),
            sequence=row["sequence"],
            parent_id=unescaped_or_none(row["parent_id"]),
            created_at=moment(row["made_at"]),
            node_name=unescaped_or_none(row["node_name"]),
            step=row["step"],
            run_id=unescaped_or_none(row["made_in"]),
            size=row["state_size"],
            metadata=row["metadata"],
            body=b"",
            covers=(),
        )
    source = row["forked_thread"]
    return ThreadRecord(
        thread_id=unescaped(row["thread_id"]),
        user_id=user_id,
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        run_id=unescaped_or_none(row["run_id"]),
        text=unescaped(row["text"]),
        data=row["data"],
        forked_from=None if source is None else (unescaped(source), unescaped(row["forked_checkpoint"])),
        checkpoint_count=row["checkpoint_count"],
        message_count=row["message_count"],
        size=row["size"],
        head=head,
    )


def storage_stats(rows: Iterable[Row]) -> StorageStats:
    by_thread: dict[str, Totals] = {}
    days: dict[int, list[int]] = {}
    stored = 0
    for kind, thread_id, number, messages, tool_calls, checkpoints, size in rows:
        if kind == 0:
            totals = Totals(messages=messages, tool_calls=tool_calls, checkpoints=checkpoints, bytes=size)
            by_thread[unescaped(thread_id)] = totals
        elif kind == 1:
            sums = days.setdefault(number, [0, 0, 0, 0])
            days[number] = [a + b for a, b in zip(sums, (messages, tool_calls, checkpoints, size), strict=True)]
        else:
            stored = size
    by_day = {
        day(number): Totals(messages=messages, tool_calls=tool_calls, checkpoints=checkpoints, bytes=size)
        for number, (messages, tool_calls, checkpoints, size) in sorted(days.items())
    }
    return StorageStats(by_thread=by_thread, by_day=by_day, stored_bytes=stored)


def journal_page(rows: list[Row]) -> JournalPage:
    return JournalPage(
        entries=tuple(
            JournalEntry(
                position=position,
                thread_id=unescaped(thread_id),
                commit_id=unescaped(commit_id),
                after=unescaped_or_none(after),
                incarnation=incarnation,
                at=moment(at),
                data=data,
            )
            for _, _, position, thread_id, commit_id, after, incarnation, at, data in rows
            if position is not None
        ),
        count=rows[0]["count"],
        receipts=tuple(map(unescaped, rows[0]["receipts"] or ())),
    )


def lease_record(thread_id: str, row: Mapping[str, Any]) -> LeaseRecord:
    return LeaseRecord(
        thread_id=thread_id,
        holder=unescaped(row["holder"]),
        token=row["token"],
        since=moment(row["since"]),
        expires_at=moment(row["expires_at"]),
    )

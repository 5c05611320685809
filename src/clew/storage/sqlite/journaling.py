"""The journal: what commits leave for another store, written with them and taken out when it is there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew.model.commit import Commit
from clew.model.queries import JournalPage, JournalQuery
from clew.model.records import JournalEntry
from clew.storage.packing import micros, moment, text_bytes
from clew.storage.rules import next_in_chain
from clew.storage.sqlite.receipts import read_receipts
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread

if TYPE_CHECKING:
    from clew.storage.sqlite.applying import Applier

_WRITES, _READS = named("writes.sql"), named("reads.sql")


def note(connection: sqlite3.Connection, commit: Commit, after: str | None, thread: Thread | None) -> None:
    """Enter the commit in the journal, if it is to be there. It comes `after` one, in the thread that it left or found."""
    if commit.journal is not None:
        incarnation = thread.incarnation if thread else None
        fields = (commit.thread_id, commit.commit_id, after, incarnation, micros(commit.at), commit.journal)
        connection.execute(_WRITES["add_entry"], fields)


def chain(connection: sqlite3.Connection, thread: Thread, commit: Commit) -> None:
    """Make `commit`, just applied, the last in the thread's chain, if it goes into one: else it has ended it."""
    last = next_in_chain(commit)
    if last is not None:
        thread.chain, thread.chained_at = last, thread.sequence
        connection.execute(_WRITES["chain"], (last, thread.sequence, thread.thread_no))


@dataclass(frozen=True, slots=True)
class Trimming:
    """One call of `Storage.trim`, to be done inside the writer's transaction."""

    entries: Sequence[JournalEntry]

    def __call__(self, applier: Applier) -> None:
        applier.connection.execute(_WRITES["drop_entries"], (json.dumps([each.position for each in self.entries]),))


def journal(connection: sqlite3.Connection, query: JournalQuery) -> JournalPage:
    """The oldest entries that are asked for, and the number of all."""
    # In hexadecimal, because a NUL character ends a string that JSON functions give.
    without = json.dumps([text_bytes(each).hex().upper() for each in query.without])
    statement = _READS["journal" if query.thread_id is None else "journal_of_thread"]
    asked = {"thread": query.thread_id, "without": without, "limit": query.limit}
    entries = tuple(
        JournalEntry(
            position=position,
            thread_id=thread_id,
            commit_id=commit_id,
            after=after,
            incarnation=incarnation,
            at=moment(at),
            data=data,
        )
        for position, thread_id, commit_id, after, incarnation, at, data in connection.execute(statement, asked)
    )
    (count,) = connection.execute(_READS["journal_count"]).fetchone()
    receipts: tuple[str, ...] = ()
    if query.receipts and query.thread_id is not None:
        receipts = read_receipts(connection, query.thread_id)
    return JournalPage(entries=entries, count=count, receipts=receipts)

"""A thread's row as the writer holds it in memory."""

from __future__ import annotations

from typing import Any, Final

from clew.model.records import Basis
from clew.storage.columns import LARGEST
from clew.storage.conversions import moment_or_none

POSITION_BITS = 32
MOST_THREADS = 1 << 31
"""A message's number has 63 bits: 31 for the thread's number and 32 for its position."""
_COUNTS = (
    *("epoch", "next_value", "sequence", "next_message", "message_count", "indexed_messages", "checkpoint_count"),
    "size",
)
ThreadRow = tuple[
    int, str | None, int, str, int, int, int, int, int, int, int, int, int, str | None, int | None, bytes | None, int
]
"""The columns of the statement `thread`, in order."""
_STAND_INS: Final[tuple[tuple[tuple[type, ...], Any], ...]] = (
    ((int,), -1),
    ((str, type(None)), ""),
    ((int,), -1),
    ((str,), ""),
    *[((int,), 0)] * 9,
    ((str, type(None)), None),
    ((int, type(None)), None),
    ((bytes, type(None)), None),
    ((int,), 0),
)
"""The types of the columns, and what replaces a value of another type."""


def readable_row(row: tuple[Any, ...]) -> ThreadRow | None:
    """`row` with stand-ins for its unreadable columns; `None` if all can be read.

    Such a thread can only be deleted.
    """
    mended = [
        value if type(value) in types else stand_in for value, (types, stand_in) in zip(row, _STAND_INS, strict=True)
    ]
    return None if all(one is other for one, other in zip(row, mended, strict=True)) else tuple(mended)


class Thread:
    """The row of one thread, changed in memory and written at the end of the transaction.

    `chain` is the last commit of the thread's chain, if that was its commit number `chained_at`.
    `heads` has the newest checkpoint's id of each namespace that was looked up; `receipts` is the
    number of the thread's rows in the receipts table. `points` are the packed branch points.
    """

    __slots__ = (
        "chain",
        "chained_at",
        "checkpoint_count",
        "epoch",
        "heads",
        "incarnation",
        "indexed_messages",
        "log_no",
        "message_count",
        "next_message",
        "next_value",
        "owner",
        "points",
        "receipts",
        "sequence",
        "size",
        "thread_id",
        "thread_no",
        "updated_at",
    )

    def __init__(self, thread_id: str, row: ThreadRow) -> None:
        self.thread_id = thread_id
        (
            self.thread_no,
            self.owner,
            self.log_no,
            self.incarnation,
            self.epoch,
            self.next_value,
            self.sequence,
            self.next_message,
            self.message_count,
            self.indexed_messages,
            self.checkpoint_count,
            self.size,
            self.updated_at,
            self.chain,
            self.chained_at,
            self.points,
            self.receipts,
        ) = row
        self.heads: dict[str, str | None] = {}

    def mend(self) -> str | None:
        """Replace numbers that are out of range, so that the thread can at least be deleted.

        Returns the name of such a column, or `None`.
        """
        damage = None if 0 < self.thread_no < MOST_THREADS else "thread_no"
        for name in _COUNTS:
            if not 0 <= getattr(self, name) <= LARGEST:
                setattr(self, name, 0)
                damage = name
        if self.indexed_messages > self.next_message:
            self.indexed_messages = 0
            damage = "indexed_messages"
        return damage if moment_or_none(self.updated_at) is not None else "updated_at"

    def changes(self) -> tuple[str | int | None, ...]:
        """The parameters of the statement `change_threads`."""
        return (
            self.owner,
            self.log_no,
            self.epoch,
            self.next_value,
            self.sequence,
            self.next_message,
            self.message_count,
            self.indexed_messages,
            self.checkpoint_count,
            self.size,
            self.updated_at,
            self.thread_no,
        )

    @property
    def basis(self) -> Basis:
        return Basis(incarnation=self.incarnation, epoch=self.epoch, next_value=self.next_value)

    @property
    def last_in_chain(self) -> str | None:
        """The last commit of the chain; `None` if a commit outside the chain has ended it."""
        return self.chain if self.chained_at == self.sequence else None

    @property
    def first_message_no(self) -> int:
        """The number of the message at position 0."""
        return self.thread_no << POSITION_BITS


def other_id(commit_id: str, checkpoint_id: str) -> str | None:
    """The `commit_id` column of a checkpoint: `None` if the commit has the checkpoint's id."""
    return None if commit_id == checkpoint_id else commit_id

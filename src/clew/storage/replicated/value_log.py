"""Value log of a thread: its values by digest, and checkpoints rebased onto it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from msgspec.structs import replace

from clew.errors import CorruptRecordError
from clew.model.commit import Applied, Commit, NewCheckpoint
from clew.model.config import ANY_USER
from clew.model.queries import ValueQuery
from clew.model.records import Basis, CheckpointRecord, Range, ValueRow
from clew.storage.content import again
from clew.storage.protocol import Storage

_log = logging.getLogger("clew.replication")
_DIGEST: Final = 16
_NO_DIGEST: Final = bytes(_DIGEST)


class Rebased(Protocol):
    """A body that refers to another value log; `row` has the values that the log lacks."""

    @property
    def body(self) -> bytes: ...
    @property
    def covers(self) -> tuple[Range, ...]: ...
    @property
    def row(self) -> ValueRow | None: ...


Rebase = Callable[[bytes, Sequence[ValueRow], Mapping[bytes, int], int], Rebased]
"""`clew.codec.rebase.rebase`, which storages can't import."""


@dataclass(frozen=True, slots=True)
class ValueLog:
    """The value log of a thread: `known` has its value numbers by digest."""

    basis: Basis | None
    known: dict[bytes, int]

    @classmethod
    async def read(cls, store: Storage, thread_id: str) -> ValueLog:
        """Return the thread's log in `store`."""
        page = await store.values(ValueQuery(thread_id=thread_id, user=ANY_USER))
        known: dict[bytes, int] = {}
        for row in page.rows:
            known.update(_digests(row))
        return cls(page.basis, known)

    def after(self, commit: Commit, outcome: Applied) -> ValueLog | None:
        """Return the log after `commit`; `None` if it has to be read from the store."""
        if outcome.repeated or commit.remove is not None or outcome.basis is None:
            return None
        if commit.values is not None:
            self.known.update(_digests(commit.values))
        return ValueLog(outcome.basis, self.known)

    def rebased(
        self, record: CheckpointRecord, rows: Sequence[ValueRow], rebase: Rebase
    ) -> tuple[NewCheckpoint, ValueRow | None]:
        """Return the checkpoint with references to this log, and a row with the values that it lacks."""
        try:
            moved = rebase(record.body, rows, self.known, self.basis.next_value if self.basis is not None else 0)
        except CorruptRecordError as error:
            # It stays damaged, and the other checkpoints are merged.
            _log.warning("damaged checkpoint merged: %r: %s", record.checkpoint_id, error)
            return replace(again(record), covers=()), None
        return replace(again(record), body=moved.body, covers=moved.covers), moved.row


def _digests(row: ValueRow) -> dict[bytes, int]:
    """Return a row's value numbers by digest, without removed values."""
    cut = ((row.digests[_DIGEST * at : _DIGEST * (at + 1)], row.first + at) for at in range(row.count))
    return {digest: number for digest, number in cut if digest != _NO_DIGEST}

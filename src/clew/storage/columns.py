"""Conversion of stored columns to records. A flipped bit must not hide a store.

A damaged row still becomes a record, so that lists and sweeps continue: unreadable columns get a
stand-in, and `damage` names them. Direct reads of such a record raise CorruptRecordError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from clew.errors import CorruptRecordError, EncryptionError
from clew.model.records import (
    LABEL_SIZE,
    AttachmentRecord,
    CheckpointRecord,
    JournalEntry,
    MessageRecord,
    ThreadRecord,
    ValueRow,
)
from clew.storage.conversions import moment, moment_or_none

R = TypeVar("R", bound=Struct)
Row = Sequence[Any]
DIGEST_SIZE: Final = 16
LARGEST: Final = 1 << 53
"""The greatest count, size or sequence number. No thread gets that far: a greater one is damaged."""


class _Kind(NamedTuple):
    """The types that a column may have, and the stand-in for a value of another type."""

    types: tuple[type, ...]
    stand_in: Any
    most: int | None = None
    """The greatest valid number, if there is one. Then the least is 0."""


_TEXT: Final = _Kind((str,), "")
_SOME_TEXT: Final = _Kind((str, type(None)), None)
_COUNT: Final = _Kind((int,), 0, LARGEST)
"""A count or a sequence number."""
_SIZE: Final = _Kind((int,), 0, (1 << 63) - 1)
"""The size that a checkpoint's writer states."""
_SOME_NUMBER: Final = _Kind((int, type(None)), None)
_TIME: Final = _Kind((int,), 0)
_SOME_TIME: Final = _Kind((int, type(None)), None)
"""The time when a checkpoint that was replaced was first saved."""
_BYTES: Final = _Kind((bytes,), b"")
_RANGES: Final = _Kind((tuple,), ())
"""Unreadable ranges come in as `None`."""
_UNUSABLE: Final = _Kind((type(None),), None)
"""The name of a damaged column that the record does not have, or `None`."""
_LABELS: Final = _Kind((tuple,), ())
"""Unreadable labels come in as `None` (`unpack_labels`)."""


class Columns(Generic[R]):
    """The columns of a kind of record, in row order. `make` takes them by name."""

    def __init__(self, make: Callable[..., R], **kinds: _Kind) -> None:
        self._make_record = make
        self._kinds = kinds
        self._times = [name for name, kind in kinds.items() if kind is _TIME]
        self._bounds = [(at, kind.most) for at, kind in enumerate(kinds.values()) if kind.most is not None]
        self._valid_types = frozenset(product(*(kind.types for kind in kinds.values())))

    def _make(self, row: Row) -> R:
        """Raises OverflowError for a number that is not a valid time or count."""
        return self._make_record(**self._checked(row))

    def _checked(self, row: Row) -> dict[str, Any]:
        for at, most in self._bounds:
            if not 0 <= row[at] <= most:
                raise OverflowError
        columns = dict(zip(self._kinds, row, strict=True))
        for name in self._times:
            columns[name] = moment(columns[name])
        return columns

    def record(self, row: Row) -> R:
        """Return the record, with stand-ins for damaged columns."""
        if tuple(map(type, row)) in self._valid_types:
            try:
                return self._make(row)
            except OverflowError:
                pass
        damaged: list[str] = []
        mended = [self._mended(*each, damaged) for each in zip(self._kinds.items(), row, strict=True)]
        return replace(self._make(mended), damage=damage_of(damaged))

    def unreadable(self, **known: Any) -> R:
        """Return a damaged record of which only the columns in `known` could be read."""
        columns = [known.get(name, kind.stand_in) for name, kind in self._kinds.items()]
        return replace(self._make(columns), damage="its record can't be read")

    def _mended(self, column: tuple[str, _Kind], value: Any, damaged: list[str]) -> Any:
        name, kind = column
        if type(value) in kind.types and _is_in_range(kind, value):
            return value
        damaged.append(value if kind is _UNUSABLE and type(value) is str else name)
        if kind.most is not None and type(value) is int:
            # The nearest valid number, so that damaged checkpoints keep their places in pages.
            return min(max(value, 0), kind.most)
        # Without lone surrogates, which not every storage accepts as an id.
        return value.decode("utf-8", "replace") if str in kind.types and type(value) is bytes else kind.stand_in


def _is_in_range(kind: _Kind, value: Any) -> bool:
    if kind.most is not None:
        return bool(0 <= value <= kind.most)
    return kind not in (_TIME, _SOME_TIME) or value is None or moment_or_none(value) is not None


def damage_of(columns: Iterable[str]) -> str:
    """The description of a record whose `columns` are damaged."""
    return f"its {' and '.join(columns)} can't be read"


def _thread(*, forked_thread: str | None, forked_checkpoint: str | None, **columns: Any) -> ThreadRecord:
    del columns["unusable"]
    forked_from = None if forked_thread is None else (forked_thread, forked_checkpoint or "")
    return ThreadRecord(forked_from=forked_from, head=None, **columns)


class _CheckpointColumns(Columns[CheckpointRecord]):
    """The columns of checkpoints. `created_at` is `None` if a checkpoint was never replaced."""

    def _make(self, row: Row) -> CheckpointRecord:
        columns = self._checked(row)
        created_at = columns["created_at"]
        columns["created_at"] = columns["saved_at"] if created_at is None else moment(created_at)
        return CheckpointRecord(**columns)


CHECKPOINT: Final = _CheckpointColumns(
    CheckpointRecord,
    sequence=_COUNT,
    checkpoint_id=_TEXT,
    namespace=_TEXT,
    parent_id=_SOME_TEXT,
    created_at=_SOME_TIME,
    saved_at=_TIME,
    node_name=_SOME_TEXT,
    step=_SOME_NUMBER,
    run_id=_SOME_TEXT,
    size=_SIZE,
    metadata=_BYTES,
    body=_BYTES,
    covers=_RANGES,
)
THREAD: Final = Columns(
    _thread,
    thread_id=_TEXT,
    user_id=_SOME_TEXT,
    created_at=_TIME,
    updated_at=_TIME,
    run_id=_SOME_TEXT,
    text=_TEXT,
    data=_BYTES,
    forked_thread=_SOME_TEXT,
    forked_checkpoint=_SOME_TEXT,
    checkpoint_count=_COUNT,
    message_count=_COUNT,
    size=_COUNT,
    unusable=_UNUSABLE,
    labels=_LABELS,
)
MESSAGE: Final = Columns(
    MessageRecord,
    message_id=_TEXT,
    text=_TEXT,
    tool_calls=_COUNT,
    run_id=_SOME_TEXT,
    created_at=_TIME,
    data=_BYTES,
    sequence=_COUNT,
    input_tokens=_COUNT,
    output_tokens=_COUNT,
)
ATTACHMENT: Final = Columns(AttachmentRecord, namespace=_TEXT, checkpoint_id=_TEXT, key=_TEXT, data=_BYTES)
ENTRY: Final = Columns(
    JournalEntry,
    position=_COUNT,
    thread_id=_TEXT,
    commit_id=_TEXT,
    after=_SOME_TEXT,
    incarnation=_SOME_TEXT,
    at=_TIME,
    data=_BYTES,
)


def pack_labels(labels: Iterable[bytes]) -> bytes:
    return b"".join(labels)


def unpack_labels(stored: Any) -> tuple[bytes, ...] | None:
    """Return the labels that `pack_labels` joined; `None` if they are damaged."""
    if type(stored) is not bytes or len(stored) % LABEL_SIZE:
        return None
    return tuple([stored[at : at + LABEL_SIZE] for at in range(0, len(stored), LABEL_SIZE)])


def value_row(first: Any, count: Any, digests: Any, data: Any) -> ValueRow | None:
    """Return a row of values; without data if it is damaged, `None` if `first` is invalid."""
    if type(first) is not int or first < 0:
        return None
    if type(digests) is not bytes or type(data) is not bytes or count != len(digests) // DIGEST_SIZE or not count:
        held = len(digests) // DIGEST_SIZE if type(digests) is bytes else 1
        return ValueRow(first=first, count=max(held, 1), digests=b"", data=b"")
    return ValueRow(first=first, count=count, digests=digests, data=data)


def damaged_thread(thread_id: str, problem: str) -> CorruptRecordError:
    """The error for a thread whose own record can't be used."""
    return CorruptRecordError(f"thread {thread_id!r} is damaged: {problem}", thread_id=thread_id)


class UnreadableFrame(bytes):
    """A stand-in for a sealed record that could not be opened, so that others can be read.

    It can't be decoded. `error` names the missing key; if `error` is `None`, the record is damaged.
    """

    error: EncryptionError | None

    def __new__(cls, frame: bytes, error: EncryptionError | None = None) -> Self:
        made = super().__new__(cls, frame)
        made.error = error
        return made

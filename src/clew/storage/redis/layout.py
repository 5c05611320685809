"""How records become members of a thread's sorted set, and back. `lua/layout.lua` has the same layout for the server."""

from __future__ import annotations

import struct
from datetime import datetime
from typing import NamedTuple

from msgspec import DecodeError, msgpack

from clew.errors import CorruptRecordError, StorageError
from clew.model.commit import NewCheckpoint, ThreadFields
from clew.model.records import (
    AttachmentRecord,
    Basis,
    CheckpointRecord,
    JournalEntry,
    MessageRecord,
    ValueRow,
)
from clew.storage.packing import bytes_text, micros, moment, pack_ranges, text_bytes, unpack_ranges

_DAY = 86_400_000_000
# Days are counted as in `date.toordinal`, so that none that a datetime can have is negative.
_FIRST_DAY = 719_163
_encode = msgpack.Encoder().encode
_decode_info = msgpack.Decoder(tuple[str, str | None, int | None, int, bytes]).decode
_decode_origin = msgpack.Decoder(tuple[str, str]).decode
_int = int.from_bytes


# Times: a day and the microseconds of the day, each of which a double holds exactly (microseconds since year 1 it does not).


def time_digits(at: datetime) -> bytes:
    """`at` as 18 digits, which compare like the times."""
    day, rest = divmod(micros(at), _DAY)
    return b"%07d%011d" % (day + _FIRST_DAY, rest)


def digits_time(digits: bytes) -> datetime:
    return moment((int(digits[:7]) - _FIRST_DAY) * _DAY + int(digits[7:]))


def time_bytes(at: datetime) -> bytes:
    """`at` in 8 bytes."""
    day, rest = divmod(micros(at), _DAY)
    return ((day + _FIRST_DAY) << 40 | rest).to_bytes(8, "big")


def bytes_time(stored: bytes) -> datetime:
    return moment((_int(stored[:3], "big") - _FIRST_DAY) * _DAY + _int(stored[3:8], "big"))


def day_number(stored: int) -> int:
    """The day since 1970 of a stored day."""
    return stored - _FIRST_DAY


# Parts


def _sized(text: bytes, width: int = 3) -> bytes:
    return len(text).to_bytes(width, "big") + text


def _optional(text: str | None) -> bytes:
    if text is None:
        return b"\0\0\0"
    encoded = text_bytes(text)
    return (len(encoded) + 1).to_bytes(3, "big") + encoded


class _Reader:
    """Reads the parts of a member one after the other."""

    __slots__ = ("_at", "_stored")

    def __init__(self, stored: bytes, at: int) -> None:
        self._stored, self._at = stored, at

    def number(self, width: int) -> int:
        return _int(self.take(width), "big")

    def take(self, count: int) -> bytes:
        at, self._at = self._at, self._at + count
        return self._stored[at : self._at]

    def sized(self, width: int = 3) -> bytes:
        return self.take(self.number(width))

    def text(self) -> str:
        return bytes_text(self.sized())

    def optional(self) -> str | None:
        size = self.number(3)
        return bytes_text(self.take(size - 1)) if size else None

    def rest(self) -> bytes:
        return self._stored[self._at :]


# Threads


_INCARNATION = 20
_HEADER = struct.Struct(">2s20sIIQQIIIIQQQQIB18s18s")


class Header(NamedTuple):
    """The header of a thread; the id of its head follows it, and its owner."""

    version: bytes
    incarnation: bytes
    sequence: int
    epoch: int
    next_value: int
    last_message: int
    groups: int
    spaces: int
    checkpoints: int
    messages: int
    tool_calls: int
    state_size: int
    message_size: int
    ordinal: int
    moves: int
    expires: int
    created: bytes
    updated: bytes
    owner: bytes

    @property
    def basis(self) -> Basis:
        return Basis(incarnation=incarnation_name(self.incarnation), epoch=self.epoch, next_value=self.next_value)

    @property
    def user_id(self) -> str | None:
        return owner_name(self.owner)

    @property
    def size(self) -> int:
        return self.state_size + self.message_size


def read_header(stored: bytes, thread_id: str) -> Header:
    size = _HEADER.size
    if len(stored) <= size + 3 or not stored.startswith(b"H1"):
        raise CorruptRecordError(f"thread {thread_id!r}: its header in Redis is damaged", thread_id=thread_id)
    head = _int(stored[size : size + 3], "big")
    return Header._make((*_HEADER.unpack_from(stored), stored[size + 3 + head :]))


def incarnation_field(incarnation: str) -> bytes:
    """An incarnation in the 20 bytes that it has in a header: what Clew draws has as many, others are filled up with NULs."""
    field = text_bytes(incarnation).ljust(_INCARNATION, b"\0")
    if len(field) > _INCARNATION:
        raise StorageError(
            f"Redis keeps {_INCARNATION} bytes of what a thread is known by; {incarnation!r} is longer: use `clew.ids.new_id`"
        )
    return field


def incarnation_name(field: bytes) -> str:
    return bytes_text(field.rstrip(b"\0"))


def owner_name(owner: bytes) -> str | None:
    return bytes_text(owner[1:]) if owner.startswith(b"+") else None


def owner_field(user: str | None) -> bytes:
    return b"-" if user is None else b"+" + text_bytes(user)


def pack_fields(fields: ThreadFields) -> bytes:
    """The describing fields."""
    return b"D" + _sized(text_bytes(fields.text), 4) + _optional(fields.run_id) + fields.data


def read_fields(stored: bytes) -> tuple[str, str | None, bytes]:
    """Text, run and data."""
    if not stored:
        return "", None, b""
    reader = _Reader(stored, 1)
    return bytes_text(reader.sized(4)), reader.optional(), reader.rest()


def pack_origin(thread_id: str, checkpoint_id: str) -> bytes:
    return b"F" + _encode((thread_id, checkpoint_id))


def read_origin(stored: bytes) -> tuple[str, str] | None:
    return _decode_origin(memoryview(stored)[1:]) if stored else None


# Checkpoints


def checkpoint_tail(new: NewCheckpoint, at: datetime, *, own: bool) -> bytes:
    """What follows the parent in a checkpoint's record. `own`: the commit that makes it has its id."""
    checkpoint_id, run_id, metadata, body = text_bytes(new.checkpoint_id), new.run_id, new.metadata, new.body
    info = _encode((new.namespace, new.node_name, new.step, new.size, metadata))
    covers = pack_ranges(new.covers)
    day, rest = divmod(micros(at), _DAY)
    # The id's size, and after it: own, counted bytes, day, microseconds. In one number each, which is quicker.
    fixed = (((own << 40 | len(metadata) + len(body)) << 24 | day + _FIRST_DAY) << 40) | rest
    return b"%b%b%b%b%b%b%b%b%b" % (
        len(checkpoint_id).to_bytes(3, "big"),
        checkpoint_id,
        fixed.to_bytes(14, "big"),
        b"\0\0\0" if run_id is None else _optional(run_id),
        len(info).to_bytes(4, "big"),
        info,
        len(covers).to_bytes(4, "big"),
        covers,
        body,
    )


def read_checkpoint(stored: bytes) -> CheckpointRecord:
    reader = _Reader(stored, 1)
    sequence, parent, checkpoint_id = reader.number(4), reader.optional(), reader.text()
    reader.take(6)
    created_at, run_id = bytes_time(reader.take(8)), reader.optional()
    try:
        namespace, node_name, step, size, metadata = _decode_info(reader.sized(4))
    except DecodeError as error:
        message = f"checkpoint {checkpoint_id!r}: its record in Redis is damaged"
        raise CorruptRecordError(message, checkpoint_id=checkpoint_id) from error
    covers = reader.sized(4)
    return CheckpointRecord(
        checkpoint_id=checkpoint_id,
        namespace=namespace,
        sequence=sequence,
        parent_id=parent,
        created_at=created_at,
        node_name=node_name,
        step=step,
        run_id=run_id,
        size=size,
        metadata=metadata,
        covers=_ranges(covers) if covers else (),
        body=reader.rest(),
    )


def _ranges(packed: bytes) -> tuple[tuple[int, int], ...]:
    try:
        return unpack_ranges(packed)
    except ValueError:
        # Damaged: whoever needs the values finds them missing, and says whose they are. The other checkpoints are read.
        return ()


class Copied(NamedTuple):
    """A checkpoint's record as a fork takes it along."""

    checkpoint_id: str
    tail: bytes
    size: int
    created: bytes


def copied_checkpoint(stored: bytes, as_id: str, *, own: bool) -> Copied:
    """The record of a fork's checkpoint: the same under another id."""
    reader = _Reader(stored, 1)
    reader.number(4)
    reader.optional()
    checkpoint_id = reader.text()
    reader.take(1)
    size = reader.take(5)
    rest = reader.rest()
    tail = _sized(text_bytes(as_id)) + (b"\1" if own else b"\0") + size + rest
    return Copied(checkpoint_id, tail, _int(size, "big"), rest[:8])


# Values


def pack_row(row: ValueRow) -> bytes:
    return b"V" + row.first.to_bytes(6, "big") + row.count.to_bytes(4, "big") + row.digests + row.data


def read_row(stored: bytes) -> ValueRow:
    first, count = _int(stored[1:7], "big"), _int(stored[7:11], "big")
    split = 11 + 16 * count
    return ValueRow(first=first, count=count, digests=stored[11:split], data=stored[split:])


# Messages


class PackedMessage(NamedTuple):
    """A message as the commit script takes it."""

    message_id: bytes
    tool_calls: int
    size: int
    tail: bytes


def pack_message(message: MessageRecord) -> PackedMessage:
    text, message_id = text_bytes(message.text), text_bytes(message.message_id)
    tail = b"".join(
        (
            message.tool_calls.to_bytes(4, "big"),
            time_bytes(message.created_at),
            _sized(text, 4),
            _optional(message.run_id),
            _sized(message_id),
            message.data,
        )
    )
    return PackedMessage(message_id, message.tool_calls, len(text) + len(message.data), tail)


def repacked_message(stored: bytes) -> PackedMessage:
    """A stored message as the commit script takes it, for a fork."""
    message = read_message(stored)
    size = len(text_bytes(message.text)) + len(message.data)
    return PackedMessage(text_bytes(message.message_id), message.tool_calls, size, stored[11:])


def read_message(stored: bytes) -> MessageRecord:
    reader = _Reader(stored, 11)
    tool_calls, created_at = reader.number(4), bytes_time(reader.take(8))
    text, run_id, message_id = bytes_text(reader.sized(4)), reader.optional(), reader.text()
    return MessageRecord(
        message_id=message_id,
        text=text,
        tool_calls=tool_calls,
        run_id=run_id,
        created_at=created_at,
        data=reader.rest(),
        sequence=_int(stored[7:11], "big"),
    )


# Attachments


def group_prefix(namespace: str) -> bytes:
    return b"a" + _sized(text_bytes(namespace))


def group_name(namespace: str, checkpoint_id: str) -> bytes:
    """The name of the group that a checkpoint's attachments lie in."""
    return group_prefix(namespace) + text_bytes(checkpoint_id)


def attachment_head(namespace: str, checkpoint_id: str, key: str) -> bytes:
    """The part of an attachment's member that says which it is; the data follows."""
    return b"A" + _sized(text_bytes(namespace)) + _sized(text_bytes(checkpoint_id)) + _sized(text_bytes(key))


def read_attachment(stored: bytes) -> AttachmentRecord:
    reader = _Reader(stored, 1)
    namespace, checkpoint_id, key = reader.text(), reader.text(), reader.text()
    return AttachmentRecord(namespace=namespace, checkpoint_id=checkpoint_id, key=key, data=reader.rest())


# The journal


def entry_tail(commit_id: str, at: datetime, data: bytes) -> bytes:
    """What follows the incarnation in an entry."""
    return time_bytes(at) + _sized(text_bytes(commit_id)) + data


def read_entry(stored: bytes, thread_id: str) -> JournalEntry:
    reader = _Reader(stored, 1)
    position = reader.number(8)
    reader.take(8)
    after, incarnation = reader.optional(), incarnation_name(reader.take(_INCARNATION))
    at, commit_id = bytes_time(reader.take(8)), reader.text()
    return JournalEntry(
        position=position,
        thread_id=thread_id,
        commit_id=commit_id,
        after=after,
        incarnation=incarnation or None,
        at=at,
        data=reader.rest(),
    )

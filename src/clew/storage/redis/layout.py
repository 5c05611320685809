"""Layout of records in a thread's sorted set. `lua/layout.lua` describes it for the server."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import msgpack

from clew.errors import CorruptRecordError, StorageError
from clew.model.commit import NewCheckpoint, ThreadFields
from clew.model.config import ANY_USER, User
from clew.model.records import AttachmentRecord, CheckpointRecord, JournalEntry, MessageRecord, Range, ValueRow
from clew.storage.columns import ATTACHMENT, CHECKPOINT, ENTRY, MESSAGE, value_row
from clew.storage.conversions import (
    UNDECODABLE,
    bytes_text,
    micros,
    moment,
    pack_ranges,
    text_bytes,
    unpack_ranges,
)
from clew.storage.redis.member_reader import MemberReader

_encode = msgpack.Encoder().encode
_decode_info = msgpack.Decoder(tuple[str, str | None, int | None, int, bytes]).decode
_decode_origin = msgpack.Decoder(tuple[str, str]).decode
_int = int.from_bytes


def _sized(text: bytes, width: int = 3) -> bytes:
    return len(text).to_bytes(width, "big") + text


def _optional(text: str | None) -> bytes:
    if text is None:
        return b"\0\0\0"
    encoded = text_bytes(text)
    return (len(encoded) + 1).to_bytes(3, "big") + encoded


# Times

_DAY = 86_400_000_000
# Days count from year 1, as in `date.toordinal`, so that no datetime has a negative one.
_FIRST_DAY = 719_163


def time_digits(at: datetime) -> bytes:
    """Return `at` as 18 sortable digits: day (7) and microseconds (11), each exact as a double."""
    day, rest = divmod(micros(at), _DAY)
    return b"%07d%011d" % (day + _FIRST_DAY, rest)


def digits_micros(digits: bytes) -> int:
    """Return the microseconds since 1970 for `digits`, which must pass `are_time`."""
    return (int(digits[:7]) - _FIRST_DAY) * _DAY + int(digits[7:])


def digits_time(digits: bytes) -> datetime:
    """Return the time. Raises CorruptRecordError if the digits are not a time."""
    if not are_time(digits):
        raise CorruptRecordError(f"a time stored in Redis is damaged: {digits!r}")
    return moment(digits_micros(digits))


def are_time(digits: bytes) -> bool:
    return digits.isdigit() and b"0000001" <= digits[:7] <= b"3652059" and digits[7:] < b"86400000000"


def _time_number(at: datetime) -> int:
    """Return `at` as a 64-bit number: the day, then 40 bits of microseconds."""
    day, rest = divmod(micros(at), _DAY)
    return (day + _FIRST_DAY) << 40 | rest


def stored_day(micros: int) -> tuple[int, int]:
    """Return the stored day, and the microseconds of that day, for microseconds since 1970."""
    day, rest = divmod(micros, _DAY)
    return day + _FIRST_DAY, rest


def bytes_micros(stored: bytes) -> int:
    """Return the microseconds since 1970 for a time stored in 8 bytes."""
    return (int.from_bytes(stored[:3], "big") - _FIRST_DAY) * _DAY + int.from_bytes(stored[3:8], "big")


def day_number(stored: int) -> int:
    """Return the days since 1970 for a stored day."""
    return stored - _FIRST_DAY


# Threads

_INCARNATION = 20


def user_field(user: User) -> bytes:
    """Return the user as scripts take it: `*` for any, `-` for none, or `+` and the name."""
    return b"*" if user is ANY_USER else owner_field(user)


def incarnation_field(incarnation: str) -> bytes:
    """Return the incarnation in 20 bytes, the length of a `new_id`. Shorter ones get NULs."""
    field = text_bytes(incarnation).ljust(_INCARNATION, b"\0")
    if len(field) > _INCARNATION:
        raise StorageError(
            f"incarnation {incarnation!r} has more than the {_INCARNATION} bytes that Redis stores; use `clew.ids.new_id`"
        )
    return field


def incarnation_name(field: bytes) -> str:
    return bytes_text(field.rstrip(b"\0"))


def owner_name(owner: bytes) -> str | None:
    return bytes_text(owner[1:]) if owner.startswith(b"+") else None


def owner_field(user: str | None) -> bytes:
    return b"-" if user is None else b"+" + text_bytes(user)


def pack_fields(fields: ThreadFields) -> bytes:
    return b"D" + _sized(text_bytes(fields.text), 4) + _optional(fields.run_id) + fields.data


def read_fields(stored: bytes) -> tuple[Any, Any, Any]:
    """Return text, run and data. The data is None if the record is damaged."""
    if not stored:
        return "", None, b""
    reader = MemberReader(stored, 1)
    try:
        return bytes_text(reader.sized(4)), reader.optional(), reader.rest()
    except ValueError:
        return "", None, None


def pack_origin(thread_id: str, checkpoint_id: str) -> bytes:
    return b"F" + _encode((thread_id, checkpoint_id))


def read_origin(stored: bytes) -> tuple[Any, Any]:
    """Return a fork's source thread and checkpoint; numbers, which readers reject, if damaged."""
    try:
        return _decode_origin(memoryview(stored)[1:]) if stored else (None, None)
    except UNDECODABLE:
        return 0, 0


_POINT = struct.Struct(">II")


def read_points(stored: bytes) -> tuple[Range, ...] | None:
    """Return branch points; `None` if they are damaged."""
    if len(stored) % _POINT.size != 1:
        return None
    return tuple((parent, start) for parent, start in _POINT.iter_unpack(memoryview(stored)[1:]))


# Checkpoints

_REPLACED = 2
"""The flag of a checkpoint whose record has the time when it was created. 1 is `own`."""
_WITH_CREATED = (_REPLACED, _REPLACED | 1)


def checkpoint_tail(new: NewCheckpoint, at: datetime, *, own: bool) -> bytes:
    """Return a checkpoint's record after the parent. `own`: the commit has the checkpoint's id.

    The server adds the time when it was created if it replaces another one.
    """
    checkpoint_id, run_id, metadata, body = text_bytes(new.checkpoint_id), new.run_id, new.metadata, new.body
    info = _encode((new.namespace, new.node_name, new.step, new.size, metadata))
    covers = pack_ranges(new.covers)
    created = b"" if new.created_at is None else _time_number(new.created_at).to_bytes(8, "big")
    flags = own | _REPLACED if created else own
    # The flags, the counted bytes and the time are packed as one number, which is faster.
    fixed = (flags << 40 | len(metadata) + len(body)) << 64 | _time_number(at)
    return b"%b%b%b%b%b%b%b%b%b%b" % (
        len(checkpoint_id).to_bytes(3, "big"),
        checkpoint_id,
        fixed.to_bytes(14, "big"),
        created,
        b"\0\0\0" if run_id is None else _optional(run_id),
        len(info).to_bytes(4, "big"),
        info,
        len(covers).to_bytes(4, "big"),
        covers,
        body,
    )


def read_checkpoint(stored: bytes) -> CheckpointRecord:
    reader = MemberReader(stored, 1)
    try:
        sequence, parent, checkpoint_id = reader.number(4), reader.optional(), reader.text()
        flags = reader.take(6)[0]
        saved_at = bytes_micros(reader.take(8))
        created_at = bytes_micros(reader.take(8)) if flags in _WITH_CREATED else None
        run_id, info = reader.optional(), reader.sized(4)
        # A record that was read without its body ends here.
        covers = reader.sized(4) if reader.has_more else b""
    except ValueError:
        return CHECKPOINT.unreadable()
    try:
        namespace, node_name, step, size, metadata = _decode_info(info)
    except UNDECODABLE:
        return CHECKPOINT.unreadable(sequence=sequence, checkpoint_id=_shown(checkpoint_id))
    ranges = unpack_ranges(covers)
    columns = (
        sequence,
        checkpoint_id,
        namespace,
        parent,
        created_at,
        saved_at,
        node_name,
        step,
        run_id,
        size,
        metadata,
    )
    return CHECKPOINT.record((*columns, reader.rest(), ranges))


def _shown(text: str | bytes) -> str:
    return bytes_text(text) if isinstance(text, bytes) else text


class Copied(NamedTuple):
    """A checkpoint's record, to be written to a fork."""

    checkpoint_id: str
    tail: bytes
    size: int
    times: bytes
    """When it was saved and when it was created, 8 bytes each."""


def copied_checkpoint(stored: bytes, as_id: str, *, own: bool) -> Copied:
    """Return the stored checkpoint under another id."""
    reader = MemberReader(stored, 1)
    reader.number(4)
    reader.optional()
    checkpoint_id = _shown(reader.text())
    flags = _REPLACED if reader.number(1) in _WITH_CREATED else 0
    size = reader.take(5)
    rest = reader.rest()
    tail = _sized(text_bytes(as_id)) + bytes([flags | own]) + size + rest
    return Copied(checkpoint_id, tail, _int(size, "big"), rest[:16] if flags else rest[:8] * 2)


# Values


def pack_row(row: ValueRow) -> bytes:
    return b"V" + row.first.to_bytes(6, "big") + row.count.to_bytes(4, "big") + row.digests + row.data


def read_rows(stored: Iterable[bytes]) -> tuple[ValueRow, ...]:
    """Return rows of values. Rows whose numbers are damaged are left out."""
    return tuple([row for row in map(_read_row, stored) if row is not None])


def _read_row(stored: bytes) -> ValueRow | None:
    first, count = _int(stored[1:7], "big"), _int(stored[7:11], "big")
    split = 11 + 16 * count
    return value_row(first, count, stored[11:split], stored[split:])


# Messages


_HAS_TOKENS = 1 << 31
"""Set in the number of tool calls if tokens follow."""


class PackedMessage(NamedTuple):
    """A message as arguments of the commit script."""

    message_id: bytes
    tool_calls: int
    size: int
    tail: bytes


def pack_message(message: MessageRecord) -> PackedMessage:
    text, message_id = text_bytes(message.text), text_bytes(message.message_id)
    tokens = b""
    if message.input_tokens or message.output_tokens:
        tokens = message.input_tokens.to_bytes(6, "big") + message.output_tokens.to_bytes(6, "big")
    tail = b"".join(
        (
            (message.tool_calls | (_HAS_TOKENS if tokens else 0)).to_bytes(4, "big"),
            _time_number(message.created_at).to_bytes(8, "big"),
            tokens,
            _sized(text, 4),
            _optional(message.run_id),
            _sized(message_id),
            message.data,
        )
    )
    return PackedMessage(message_id, message.tool_calls, len(text) + len(message.data), tail)


def repacked_message(stored: bytes) -> PackedMessage:
    """Convert a stored message for the commit script. Raises CorruptRecordError if damaged."""
    message = read_message(stored)
    if message.damage:
        raise CorruptRecordError(f"message {message.message_id!r} is damaged: {message.damage}")
    size = len(text_bytes(message.text)) + len(message.data)
    return PackedMessage(text_bytes(message.message_id), message.tool_calls, size, stored[11:])


def read_message(stored: bytes) -> MessageRecord:
    reader = MemberReader(stored, 11)
    try:
        tool_calls, created_at = reader.number(4), bytes_micros(reader.take(8))
        tokens = (reader.number(6), reader.number(6)) if tool_calls & _HAS_TOKENS else (0, 0)
        text, run_id, message_id = bytes_text(reader.sized(4)), reader.optional(), reader.text()
    except ValueError:
        return MESSAGE.unreadable()
    sequence = _int(stored[7:11], "big")
    counts = (sequence, *tokens)
    return MESSAGE.record((message_id, text, tool_calls & ~_HAS_TOKENS, run_id, created_at, reader.rest(), *counts))


# Attachments


def group_prefix(namespace: str) -> bytes:
    return b"a" + _sized(text_bytes(namespace))


def group_name(namespace: str, checkpoint_id: str) -> bytes:
    """Return the name of the group of a checkpoint's attachments."""
    return group_prefix(namespace) + text_bytes(checkpoint_id)


def attachment_head(namespace: str, checkpoint_id: str, key: str) -> bytes:
    """Return the identifying part of an attachment's member. The data follows it."""
    return b"A" + _sized(text_bytes(namespace)) + _sized(text_bytes(checkpoint_id)) + _sized(text_bytes(key))


def read_attachment(stored: bytes) -> AttachmentRecord:
    reader = MemberReader(stored, 1)
    try:
        return ATTACHMENT.record((reader.text(), reader.text(), reader.text(), reader.rest()))
    except ValueError:
        return ATTACHMENT.unreadable()


# The journal


def entry_tail(commit_id: str, at: datetime, data: bytes) -> bytes:
    """Return the part of a journal entry after the incarnation."""
    return _time_number(at).to_bytes(8, "big") + _sized(text_bytes(commit_id)) + data


def read_entry(stored: bytes, thread_id: str) -> JournalEntry:
    reader = MemberReader(stored, 1)
    try:
        position = reader.number(8)
        reader.take(8)
        after, incarnation = reader.optional(), incarnation_name(reader.take(_INCARNATION))
        at, commit_id = bytes_micros(reader.take(8)), reader.text()
    except ValueError:
        return ENTRY.unreadable(position=_int(stored[1:9], "big"), thread_id=thread_id)
    return ENTRY.record((position, thread_id, commit_id, after, incarnation or None, at, reader.rest()))

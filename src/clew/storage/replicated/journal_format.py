"""Journal format: a commit as bytes, with everything that another store needs to apply it.

An entry is a version byte, the CRC-32 of the rest (4 bytes, big-endian), and the rest: msgpack of
the model's own structs. `Commit` and `Removal` are written by field name without defaults, the
structs inside them as arrays, by position (`array_like`). So any change to their fields needs a new
version number. Version 3 added `Commit.back_to`, version 5 `NewCheckpoint.created_at`, version 6
`Commit.move_messages`; entries of the versions from 2 on are read, too.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.errors import CorruptRecordError
from clew.model.commit import Commit
from clew.model.records import JournalEntry
from clew.storage.conversions import UNDECODABLE, bytes_text, text_bytes

VERSION: Final = b"\x06"
_READABLE: Final = (VERSION, b"\x05", b"\x04", b"\x03", b"\x02")
COPY: Final = b""
"""The data of an entry that stands for the whole thread: shipping it copies the thread."""
_HEADER: Final = 5


class Origin(Struct, frozen=True, omit_defaults=True):
    """The origin of a journal entry: its term, and whether its store may have acknowledged the
    commit alone (`lone`). A commit that is not lone is acknowledged only when the other store has
    it too."""

    term: int = 0
    lone: bool = False


class _Packed(Origin, frozen=True, kw_only=True, omit_defaults=True):
    """`texts` has the texts of the commit's messages and thread as bytes if one of them has a lone surrogate,
    which a msgpack string can't hold."""

    commit: Commit
    texts: tuple[bytes, ...] = ()


_encode: Final = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(_Packed)
_origin_decoder: Final = msgspec.msgpack.Decoder(Origin)


def pack(commit: Commit, *, term: int = 0, lone: bool = False) -> bytes:
    """Return a portable `commit` as bytes, with its `Origin`, without chain and receipts.

    The thread id is a field of the entry.
    """
    stored = replace(portable(commit), thread_id="", after=None, receipts=())
    try:
        packed = _encode(_Packed(commit=stored, term=term, lone=lone))
    except UnicodeEncodeError:
        stored, texts = _without_texts(stored)
        packed = _encode(_Packed(commit=stored, texts=texts, term=term, lone=lone))
    return VERSION + crc32(packed).to_bytes(4) + packed


def portable(commit: Commit) -> Commit:
    """Return `commit` without what concerns only the store that it was made for: fence, journal,
    and the sequence number in `remove.as_of`."""
    removal = commit.remove
    if removal is not None and removal.as_of is not None:
        removal = replace(removal, as_of=None)
    return replace(commit, fence=None, journal=None, remove=removal)


def unpack(entry: JournalEntry) -> Commit:
    """Return the commit in `entry`. Raises CorruptRecordError for damage and other versions."""
    packed = _checked(entry)
    try:
        found = _decoder.decode(packed)
        commit = replace(found.commit, thread_id=entry.thread_id)
        return _with_texts(commit, found.texts) if found.texts else commit
    except (msgspec.MsgspecError, ValueError) as error:
        raise _damaged(entry, error) from error


def origin(entry: JournalEntry) -> Origin:
    """Return the origin of `entry`. Raises CorruptRecordError for damage and other versions."""
    if entry.data == COPY and not entry.damage:
        return Origin()
    packed = _checked(entry)
    try:
        return _origin_decoder.decode(packed)
    except UNDECODABLE as error:
        raise _damaged(entry, error) from error


def _checked(entry: JournalEntry) -> memoryview:
    """Return the msgpack in `entry`, after a check of version and checksum."""
    if entry.damage:
        raise _damaged(entry, entry.damage)
    version, packed = entry.data[:1], memoryview(entry.data)[_HEADER:]
    if version not in _READABLE:
        raise CorruptRecordError(
            f"journal entry of thread {entry.thread_id!r} has format version {version.hex() or 'none'}; this "
            f"version of Clew reads versions up to {VERSION.hex()}: run the version of Clew that wrote it",
            thread_id=entry.thread_id,
        )
    if entry.data[1:_HEADER] != crc32(packed).to_bytes(4):
        raise _damaged(entry, "wrong checksum")
    return packed


def _damaged(entry: JournalEntry, error: object) -> CorruptRecordError:
    message = f"journal entry of thread {entry.thread_id!r} is damaged: {error}"
    return CorruptRecordError(message, thread_id=entry.thread_id)


def _without_texts(commit: Commit) -> tuple[Commit, tuple[bytes, ...]]:
    """Split off the texts of the commit's messages, in their order, and the text of its thread."""
    texts = [text_bytes(each.text) for each in commit.messages]
    messages = tuple(replace(each, text="") for each in commit.messages)
    thread = commit.thread
    if thread is not None:
        texts.append(text_bytes(thread.text))
        thread = replace(thread, text="")
    return replace(commit, messages=messages, thread=thread), tuple(texts)


def _with_texts(commit: Commit, texts: tuple[bytes, ...]) -> Commit:
    """Undo `_without_texts`. Raises ValueError if the number of texts does not fit."""
    thread = commit.thread
    if thread is not None:
        *texts_of_messages, text = map(bytes_text, texts)
        thread = replace(thread, text=text)
    else:
        texts_of_messages = list(map(bytes_text, texts))
    pairs = zip(commit.messages, texts_of_messages, strict=True)
    return replace(commit, messages=tuple(replace(each, text=text) for each, text in pairs), thread=thread)

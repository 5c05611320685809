"""Mutations of a SQLite file, from a flipped bit to forged records with a valid checksum."""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from clew.codec.frame import seal, unseal
from clew.codec.nodes import LIST, MAP, Container, extension, pieces_node, sequence_node, value_node, varint
from clew.errors import ClewError

TABLES: Final = (
    *("threads", "logs", "value_rows", "checkpoints", "attachments", "messages", "receipts", "leases", "journal"),
    *("threads_to_index", "indexed_threads", "ended_threads", "thread_labels", "own", "last_token"),
    *("feed_state", "feed", "search_segments", "search_cells", "search_chunks", "search_waiting"),
)
_TRIES: Final = 8
_NUMBERS: Final = (0, 1, -1, 2, 7, 255, 1 << 31, 1 << 32, 1 << 40, (1 << 62) + 5, (1 << 63) - 1, -(1 << 63))


def damage(path: Path, random: Random) -> str:
    """Damage the file and return a description."""
    done = []
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        way = random.choices((_flip_bytes, _change_cell), (1, 3))[0]
        done.append(way(path, random))
    return ", ".join(done)


def _flip_bytes(path: Path, random: Random) -> str:
    """Change bits and stretches of the file, after its header."""
    content = bytearray(path.read_bytes())
    count = random.choice((1, 1, 3, 20))
    places = [random.randrange(100, len(content)) for _ in range(count)]
    for place in places:
        content[place] ^= 1 << random.randrange(8) if random.random() < 0.7 else random.randrange(1, 256)
    if random.random() < 0.1:
        start = random.randrange(100, len(content))
        content[start : start + 600] = bytes(len(content[start : start + 600]))
    path.write_bytes(bytes(content))
    return f"bytes {places[:3]}"


def _change_cell(path: Path, random: Random) -> str:
    """Change one cell of one table, trying others if that fails."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.text_factory = bytes
    try:
        for _ in range(_TRIES):
            done = _changed_cell(connection, random)
            if done:
                return done
        return "nothing"
    finally:
        connection.close()


def _changed_cell(connection: sqlite3.Connection, random: Random) -> str | None:
    table = random.choice(TABLES)
    try:
        columns = [name.decode() for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        rows = connection.execute(f"SELECT * FROM {table} LIMIT 1000").fetchall()  # noqa: S608
        if not rows:
            return None
        at, row = random.randrange(len(columns)), random.choice(rows)
        changed = changed_value(row[at], random)
        given = "CAST(? AS TEXT)" if isinstance(changed, _Text) else "?"
        which = " AND ".join(f"CAST({column} AS BLOB) IS CAST(? AS BLOB)" for column in columns)
        connection.execute(f"UPDATE {table} SET {columns[at]} = {given} WHERE {which}", (changed, *row))  # noqa: S608
    except (sqlite3.Error, UnicodeError, OverflowError):
        # The column accepts only its own type, or the file is already too damaged.
        return None
    return f"{table}.{columns[at]}"


class _Text(bytes):
    """Arbitrary bytes that are stored as text."""


def changed_value(value: Any, random: Random) -> Any:
    """Return another value of the same kind."""
    if value is None or isinstance(value, int):
        if random.random() < 0.3 and isinstance(value, int):
            return _clamped(value ^ 1 << random.randrange(64))
        return random.choice((*_NUMBERS, None, _Text(b"text"), b"bytes"))
    assert isinstance(value, bytes)
    return random.choice(_WAYS)(value, random)


def _clamped(number: int) -> int:
    return max(-(1 << 63), min(number, (1 << 63) - 1))


def _flipped(value: bytes, random: Random) -> bytes:
    if not value:
        return random.randbytes(random.randrange(9))
    changed = bytearray(value)
    changed[random.randrange(len(value))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _other_text(value: bytes, random: Random) -> bytes:
    return _Text(random.choice((b"", b"\xff", b"a\x00b", b"t", b"\xed\xa0\x80", value + b"\xc3", value[:-1])))


def _cut(value: bytes, random: Random) -> bytes:
    at = random.randrange(len(value) + 1)
    return value[:at] if random.random() < 0.5 else value + random.randbytes(at % 50)


def _inside(value: bytes, random: Random) -> bytes:
    """Return a frame with changed content and a valid checksum, as an attacker would make it."""
    try:
        content = unseal(value, 1 << 24)
    except ClewError:
        return _flipped(value, random)
    for _ in range(random.choice((1, 1, 4))):
        content = _flipped(content, random) if random.random() < 0.7 else _cut(content, random)
    return seal(content)


def _crafted(value: bytes, random: Random) -> bytes:
    """Return a valid frame with unexpected content."""
    return random.choice(_FRAMES)(random)


def _node(random: Random) -> bytes:
    """Return plausible and implausible references."""
    number = random.choice((0, 1, 5, 100, 10**9, 1 << 40, (1 << 62) + 1))
    runs = tuple(
        (random.choice((0, 1, number)), random.choice((0, 1, 3, 10**9, 1 << 40)))
        for _ in range(random.choice((1, 1, 3, 50)))
    )
    kind = random.choice((LIST, Container(MAP), Container(0x90, random.randrange(40), random.randbytes(3))))
    return random.choice(
        (
            value_node(number, random.choice((0, number))),
            pieces_node(number, runs),
            sequence_node(kind, random.choice((0, 3, number)), number, reach=runs[:1], spine=runs[1:], runs=runs),
            extension(random.randrange(128), random.randbytes(random.randrange(20))),
        )
    )


def _body(random: Random) -> bytes:
    node = _node(random)
    return seal(random.choice((node, b"\x81\xa1k" + node, b"\x81\xa8messages" + node, b"\x92" + node * 2)))


def _bomb(random: Random) -> bytes:
    return seal(random.choice((b"\x80", b"\x90", b"\x00")) * random.choice((1 << 12, 1 << 20, 1 << 25)))


def _nested(random: Random) -> bytes:
    return seal(random.choice((b"\x91", b"\x81\xa1k", b"\xc7\xff\x01")) * random.choice((100, 900, 20_000)) + b"\xc0")


def _wrong_shape(random: Random) -> bytes:
    """Return content that decodes, but that Clew never writes there."""
    item = random.choice(
        (b"\xc0", b"\x07", b"\xa1x", b"\x90", b"\x80", b"\x81\xa4role\x07", b"\x81\xa4tags\xc0", b"\xcb" + bytes(8))
    )
    wrapped = random.choice(
        (item, b"\x81\xa8metadata" + item, b"\x81\xaatool_calls" + item, b"\x81\xa9retention" + item)
    )
    tagged = extension(
        random.randrange(1, 17), random.choice((item, b"1E+99999999999999999999", b"\x93\xcb" + b"\x7e" * 8 + b"\0\0"))
    )
    return seal(random.choice((wrapped, tagged)))


def _directory(random: Random) -> bytes:
    count = random.choice((0, 1, 100, 1 << 20))
    return seal(varint(random.choice((3, count))) + b"\x92\xdd" + struct.pack(">I", count) + b"\x00" * 40)


def _claimed(random: Random) -> bytes:
    """Return a compressed frame that declares an arbitrary size."""
    packed = b"\x28\xb5\x2f\xfd\xe0" + random.choice((0, 1 << 20, 8 << 30)).to_bytes(8, "little") + b"\x03\x00\x10\x80"
    return b"\xc1\x11" + zlib.crc32(packed, zlib.crc32(b"\x11")).to_bytes(4, "little") + packed


_FRAMES: Final[tuple[Callable[[Random], bytes], ...]] = (_body, _bomb, _nested, _wrong_shape, _directory, _claimed)
_WAYS: Final[tuple[Callable[[bytes, Random], bytes], ...]] = (
    *(_flipped, _other_text, _cut, _inside, _inside, _crafted, _crafted),
)

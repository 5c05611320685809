"""Crafted bytes raise CorruptRecordError, without using much memory or time."""

from __future__ import annotations

import struct
import sys
import tracemalloc
import zlib
from collections.abc import Callable

import msgspec
import ormsgpack
import pytest

from clew.codec import rows
from clew.codec.frame import MAGIC, VERSION, ZSTD, content_size, seal, unseal
from clew.codec.nodes import (
    ARRAY,
    LIST,
    MAP,
    Container,
    extension,
    header,
    pieces_node,
    read_runs,
    sequence_node,
    value_node,
    varint,
)
from clew.codec.registry import Registry
from clew.codec.rows import OpenRows
from clew.codec.state import StateCodec
from clew.codec.tags import Tag
from clew.errors import ClewError, CorruptRecordError, StateTooLargeError
from clew.model.records import ValueRow
from clew.upkeep.compaction import merged, rows_to_merge

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIMIT = 1 << 20


def codec() -> StateCodec:
    return StateCodec(Registry(), max_state_bytes=LIMIT)


def frame(packed: bytes) -> bytes:
    """Return a compressed frame with a valid checksum."""
    kind = VERSION << 4 | ZSTD
    return struct.pack("<BBI", MAGIC, kind, zlib.crc32(packed, zlib.crc32(bytes([kind])))) + packed


def row_of(*contents: bytes) -> ValueRow:
    return rows.write_row(0, contents, [1] * len(contents), [bytes([n % 256]) * 16 for n in range(len(contents))])


def peak(work: Callable[[], object]) -> int:
    """Return the peak memory of `work`, which may fail."""
    tracemalloc.start()
    try:
        work()
    except ClewError:
        pass
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return most


def rle_blocks(declared: int) -> bytes:
    """Return a zstd frame that declares `declared` bytes but contains a gigabyte of repeated bytes."""
    header = b"\x28\xb5\x2f\xfd" + bytes([0xC0 | 0x00, 0x88]) + declared.to_bytes(8, "little")
    block = (1 << 17) << 3 | 1 << 1
    return header + (block.to_bytes(3, "little") + b"\x80") * 8192 + (block | 1).to_bytes(3, "little") + b"\x80"


@pytest.mark.parametrize(
    "packed",
    [
        zstd.compress(bytes(8 << 20)),
        zstd.compress(b"x") + zstd.compress(bytes(8 << 20)),
        rle_blocks(1000),
        rle_blocks(8 << 30),
        b"\x28\xb5\x2f\xfd\x00\x88" + b"\x03\x00\x10\x80" * 9,
        b"",
        b"\x28\xb5\x2f\xfd",
    ],
    ids=["large", "second frame", "more than it says", "8 GB", "no size", "nothing", "cut"],
)
def test_a_frame_that_unpacks_to_more_than_is_allowed_takes_no_memory(packed: bytes) -> None:
    for read in (codec().unpack, lambda stored: unseal(stored, LIMIT), lambda stored: codec().covers(stored)):
        with pytest.raises(CorruptRecordError):
            read(frame(packed))
        assert peak(lambda read=read: read(frame(packed))) < 4 * LIMIT  # type: ignore[misc]


def test_every_written_record_is_within_the_limits_of_reading() -> None:
    small = codec()
    large = small.pack("x" * (2 * LIMIT - 10), name="it")
    assert len(small.unpack(large)) == 2 * LIMIT - 10
    with pytest.raises(StateTooLargeError, match="max_state_bytes"):
        small.pack("x" * 2 * LIMIT, name="it")
    state = {"x": "y" * (LIMIT - 100), "n": []}
    encoded = small.encode(state, None, "")
    assert encoded.row is not None
    assert small.decode(encoded.body, small.open_rows([encoded.row])) == state


def test_merged_rows_stay_within_the_limits_of_reading() -> None:
    contents = bytes(rows.LARGEST_MERGE // 3)
    zeroes = [rows.write_row(n, [contents], [1], [bytes([n]) * 16]) for n in range(5)]
    assert sum(len(row.data) for row in zeroes) < 16 << 10
    for row, _ in merged(zeroes, 0):
        assert content_size(row.data) <= rows.LARGEST_MERGE + 100
    assert len(rows_to_merge(zeroes, [row.first for row in zeroes], 0)) < 4


VALUES = row_of(
    *(b"\x90", b"\xc0" * 3, value_node(2, 9)),
    *(b"\x92" + value_node(4, 9) * 2, b"\x92" + value_node(3, 9) * 2),
    bytes(LIMIT // 16),
)
TWO = (1 << 62, 1)


@pytest.mark.parametrize(
    "item",
    [
        pieces_node(9, [(0, 10**9)]),
        pieces_node(9, [(5, 1), (0, 1)] * 70),
        sequence_node(LIST, 3, 9, reach=(), spine=(), runs=((0, 10**9),)),
        sequence_node(LIST, 3, 9, reach=(), spine=((0, 1 << 60),), runs=()),
        sequence_node(LIST, 1 << 40, 9, reach=(), spine=(), runs=((1, 1),)),
        sequence_node(Container(MAP, Tag.SET, b""), 1 << 31, 9, reach=(), spine=(), runs=((1, 1),)),
        sequence_node(LIST, 3, 9, reach=(), spine=((0, 2),), runs=()),
        value_node(1 << 61, 9),
        value_node(2, 9),
        value_node(3, 9),
        extension(34, b"\x90\x00" + b"\xff" * 200_000),
        extension(33, b"\xff" * 9),
        extension(32, b""),
        extension(34, b""),
        extension(99, b"x"),
    ],
    ids=[
        *("wide pieces", "many pieces", "wide list", "wide spine", "long list", "large set", "no spine"),
        *(
            "far value",
            "its own value",
            "each other's twice",
            "long number",
            "is truncated",
            "no number",
            "no node",
            "unknown",
        ),
    ],
)
@pytest.mark.parametrize("place", ["alone", "in a map", "in an item"])
def test_impossible_references_are_damage_and_take_no_memory(item: bytes, place: str) -> None:
    if place == "in a map":
        item = b"\x81\xa1k" + item
    elif place == "in an item":
        item = b"\x81\xa1k\x91" + item
    small, body = codec(), seal(item)
    for load in (small.decode, small.decode_with_memo, lambda body, rows: small.check(body, rows)):
        with pytest.raises(CorruptRecordError):
            load(body, small.open_rows([VALUES]))
        assert peak(lambda load=load: load(body, small.open_rows([VALUES]))) < 16 * LIMIT  # type: ignore[misc]
    for look in (small.covers, small.needed_to_edit):
        try:
            look(body)
        except CorruptRecordError:
            pass


def test_a_large_value_counts_each_time_that_a_state_refers_to_it() -> None:
    large, times = row_of(msgspec.msgpack.encode(bytes(LIMIT // 16))), 1000
    small = codec()
    for item in (
        sequence_node(LIST, times, 9, reach=(), spine=(), runs=((0, 1),) * times),
        header(ARRAY, times) + value_node(0, 9) * times,
    ):
        body = seal(b"\x81\xa1k" + item)
        for load in (small.decode, small.decode_with_memo, lambda body, rows: small.check(body, rows)):
            with pytest.raises(CorruptRecordError, match="max_state_bytes"):
                load(body, small.open_rows([large]))


def test_ranges_beyond_the_largest_value_number_are_damage() -> None:
    for stored in (varint(TWO[0] << 1) + varint(TWO[0]) * 2, b"\x05\x01", b"\xff" * 8 + b"\x7f\x01"):
        with pytest.raises(CorruptRecordError):
            read_runs(memoryview(stored + stored))


@pytest.mark.parametrize("count", [0, 1, 7, 1 << 40])
def test_a_row_that_holds_other_values_than_it_says_is_damage(count: int) -> None:
    row = msgspec.structs.replace(VALUES, count=count)
    with pytest.raises(CorruptRecordError, match="row"):
        OpenRows([row])._opened(0)
    assert peak(lambda: OpenRows([row])._opened(0)) < LIMIT


def test_a_directory_is_not_read_if_it_has_more_values_than_the_row() -> None:
    directory = msgspec.msgpack.encode([[0] * 1_000_000, None])
    row = ValueRow(first=0, count=1, digests=bytes(16), data=seal(varint(len(directory)) + directory))
    assert peak(lambda: rows.OpenRow(row)) < 4 * LIMIT
    for lengths in ([-1, 1], [1, -1]):
        directory = msgspec.msgpack.encode([lengths, None])
        row = ValueRow(first=0, count=2, digests=bytes(32), data=seal(varint(len(directory)) + directory))
        with pytest.raises(CorruptRecordError):
            rows.OpenRow(row)


def test_a_gap_that_no_collection_left_is_damage() -> None:
    far = msgspec.structs.replace(VALUES, first=1 << 40)
    with pytest.raises(CorruptRecordError, match="are missing"):
        list(rows.adjacent([far], (1 << 40) + 5))
    near = msgspec.structs.replace(VALUES, first=3 * rows.GAP_ROW + 1)
    unbroken = list(rows.adjacent([near], 3 * rows.GAP_ROW + 6))
    assert [row.count for row in unbroken] == [rows.GAP_ROW] * 3 + [1, 5]


@pytest.mark.parametrize(
    ("tag", "data"),
    [
        (Tag.DECIMAL, b"1E+9999999999999999999"),
        (Tag.DECIMAL, b"not a number"),
        (Tag.TIMEDELTA, ormsgpack.packb([1 << 40, 0, 0])),
        (Tag.TIMEDELTA, ormsgpack.packb([1.5e300])),
        (Tag.DATETIME, b"9999-99-99"),
        (Tag.DATETIME, b""),
        (Tag.DATETIME, ormsgpack.packb(["2026-01-01", 7, 0])),
        (Tag.TIME, ormsgpack.packb(["25:00", 0])),
        (Tag.TIME, ormsgpack.packb([0, 0])),
        (Tag.DATE, b"\xff"),
        (Tag.UUID, b"short"),
        (Tag.COMPLEX, ormsgpack.packb(["x", "y"])),
        (Tag.SET, ormsgpack.packb([[1], [2]])),
        (Tag.PAIRS, ormsgpack.packb([1, 2, 3])),
        (Tag.DEQUE, ormsgpack.packb([-1, []])),
        (Tag.DEQUE, ormsgpack.packb({"a": 1})),
        (Tag.RECORD, b"\xa1x\x90"),
        (Tag.RECORD, b"\xff"),
        (Tag.TUPLE, b"\x05"),
    ],
)
def test_a_value_out_of_range_is_damage(tag: Tag, data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        codec().unpack(seal(extension(tag, data)))


@pytest.mark.parametrize("zone", ["Europe", "../../../etc", "x" * 5000, "\0", ""])
def test_an_invalid_time_zone_raises_a_clew_error(zone: str) -> None:
    said = codec().unpack(seal(extension(Tag.DATETIME, ormsgpack.packb(["2026-01-01T00:00:00+01:00", zone, 0]))))
    assert said.isoformat() == "2026-01-01T00:00:00+01:00"
    with pytest.raises(ClewError, match="zone"):
        codec().unpack(seal(extension(Tag.TIME_IN_ZONE, ormsgpack.packb(["00:00", 0, zone]))))


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1k", b"\xd4\x01", b"\xc7\xff\x01"])
def test_what_nests_deeper_than_any_stack_is_damage(opening: bytes) -> None:
    stored = seal(opening * 5_000 + b"\xc0")
    for read in (codec().unpack, lambda body: codec().decode(body, OpenRows([]))):
        with pytest.raises(CorruptRecordError):
            read(stored)

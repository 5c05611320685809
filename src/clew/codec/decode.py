"""Decoding: turns a body and its value rows into the state, and a memo for the next save."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, chain
from typing import Any, Final

import msgspec

from clew.codec.chunks import Chunks
from clew.codec.cuts import opened, split_pairs
from clew.codec.index import Memo
from clew.codec.nodes import (
    LIST,
    MAP,
    NodeTag,
    Runs,
    Sequence,
    header,
    ranges_of,
    read_extension,
    read_pieces,
    read_runs,
    read_sequence,
    read_value,
)
from clew.codec.packer import MAX_DEPTH, Packer
from clew.codec.rows import OpenRows, measures
from clew.codec.tags import Tag
from clew.errors import CorruptRecordError

_FIRST_NODE: Final = NodeTag.VALUE.value
_RUN: Final = 8
"""The cost of a run, in addition to its values."""


class Decoding:
    """One load: reads values from `rows` as the body refers to them, at most
    `most` bytes and values in total.

    Repeated references count again: nested references could otherwise
    expand to more than the memory.
    """

    def __init__(self, packer: Packer, rows: OpenRows, *, most: int) -> None:
        self._packer = packer
        self._rows = rows
        self._most = self._left = most
        self._decoder = msgspec.msgpack.Decoder(ext_hook=self._revive)
        self._nodes_met = 0
        self._depth = 0

    def decode(self, item: bytes) -> Any:
        """Decode `item`. `read_stored` translates the errors of missing or damaged values."""
        return self._decoder.decode(item)

    def decode_with_memo(self, item: bytes, known: Memo | None = None) -> tuple[Any, Memo | None]:
        """Decode `item`, with its memo where that needs no extra work.

        Parts that `known` remembers are decoded from it, without reading values.
        """
        if known is not None and known.packed and known.node == item:
            return self._unpacked(known.packed), known
        extended = read_extension(item)
        if extended is not None and extended[0] == NodeTag.SEQUENCE:
            return self._list_with_memo(item, read_sequence(memoryview(item)[extended[1] :]))
        container = opened(item)
        if container is None or container[0].shape != MAP or container[0].tag not in (0, Tag.RECORD):
            return self.decode(item), None
        kind, count, start = container
        state: dict[str, Any] = {}
        memos: dict[bytes, Memo] = {}
        for key, packed in split_pairs(item[start:], count).items():
            value, memo = self.decode_with_memo(packed, known.entries.get(key) if known is not None else None)
            state[self.decode(key)] = value
            if memo is not None:
                memos[key] = memo
        memo = Memo(packed=b"", node=item, entries=memos) if memos else None
        return (self._packer.build(kind.prefix, state) if kind.tag else state), memo

    def _unpacked(self, packed: bytes | Chunks) -> Any:
        if isinstance(packed, Chunks):
            return list(chain.from_iterable([self.decode(part) for part in packed.parts]))
        return self.decode(packed)

    def runs(self, node: Sequence) -> Runs:
        """Return all runs of a sequence, those in its spine first."""
        if not node.spine:
            return node.runs
        spine = [run for part in self._contents(node.spine, single=True) for run in read_runs(part)]
        return (*spine, *node.runs)

    def content(self, node: Sequence) -> bytes:
        """Return the concatenated items of a sequence."""
        return b"".join(self._contents(self.runs(node)))

    def _list_with_memo(self, item: bytes, node: Sequence) -> tuple[Any, Memo | None]:
        runs = self.runs(node)
        self._take_values(runs)
        stretches = [stretch for first, count in runs for stretch in self._rows.stretches(first, count)]
        inner = _inner(node, self._taken([row.slice(first, end) for row, first, end in stretches]))
        met = self._nodes_met
        value = self._container(node, inner)
        if node.container != LIST or self._nodes_met != met:
            # Values with nested references have no memo: the next save finds them by digest.
            return value, None
        lengths, items = measures(stretches)
        memo = Memo(
            packed=inner,
            container=node.container,
            start=len(header(node.container.shape, node.count)),
            node=item,
            covers=ranges_of(runs),
            numbers=list(chain.from_iterable([range(first, first + count) for first, count in runs])),
            ends=list(accumulate(lengths)),
            items=list(accumulate(items)),
            runs=runs,
        )
        return value, memo

    def _revive(self, tag: int, data: memoryview) -> Any:
        if tag < _FIRST_NODE:
            return self._packer.revive_with(self._decoder, tag, data)
        self._nodes_met += 1
        if self._depth >= MAX_DEPTH:
            raise CorruptRecordError("stored values refer to each other in a cycle")
        self._depth += 1
        try:
            return self._read_node(tag, data)
        finally:
            self._depth -= 1

    def _read_node(self, tag: int, data: memoryview) -> Any:
        if tag == NodeTag.VALUE:
            number, _ = read_value(data)
            return self._decoder.decode(b"".join(self._contents(((number, 1),))))
        if tag == NodeTag.PIECES:
            _, runs = read_pieces(data)
            return self._decoder.decode(b"".join(self._contents(runs)))
        if tag == NodeTag.SEQUENCE:
            node = read_sequence(data)
            return self._container(node, _inner(node, self._contents(self.runs(node))))
        return self._packer.revive_with(self._decoder, tag, data)

    def _container(self, node: Sequence, inner: bytes) -> Any:
        if node.container.tag:
            return self._packer.revive_with(self._decoder, node.container.tag, memoryview(inner))
        return self._decoder.decode(inner)

    def _contents(self, runs: Runs, *, single: bool = False) -> list[memoryview]:
        """Return the contents of the values in `runs`, in order; with `single`, one part per value."""
        self._take_values(runs)
        if single:
            runs = tuple((number, 1) for first, count in runs for number in range(first, first + count))
        return self._taken([part for first, count in runs for part in self._rows.read(first, count)])

    def _take_values(self, runs: Runs) -> None:
        """Count the runs and their values before anything is allocated for them."""
        self._take(_RUN * len(runs) + sum([count for _, count in runs]))

    def _taken(self, parts: list[memoryview]) -> list[memoryview]:
        """Count `parts` before they are joined, and return them."""
        self._take(sum(map(len, parts)))
        return parts

    def _take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise CorruptRecordError(
                f"a stored state refers to more than {self._most:,} bytes or values; if that is expected, raise max_state_bytes"
            )


def _inner(node: Sequence, contents: Iterable[memoryview]) -> bytes:
    """Return a sequence written out, without its tag."""
    kind = node.container
    return b"".join([kind.prefix, header(kind.shape, node.count), *contents])

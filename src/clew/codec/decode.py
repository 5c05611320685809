"""From a body and value rows back to the state, with the memo that makes the next save cheap."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, chain
from typing import Any, Final

import msgspec

from clew.codec.chunks import Chunks
from clew.codec.cutting import opened, split_pairs
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
from clew.codec.packing import Packer
from clew.codec.rows import OpenRows, measures
from clew.codec.tags import Tag

_FIRST_NODE: Final = NodeTag.VALUE.value


class Decoding:
    """One load: reads values from `rows` as the body asks for them."""

    def __init__(self, packer: Packer, rows: OpenRows) -> None:
        self._packer = packer
        self._rows = rows
        self._decoder = msgspec.msgpack.Decoder(ext_hook=self._revive)
        self._nodes_met = 0

    def decode(self, item: bytes) -> Any:
        """The object that `item` stands for. Raises what `reading` expects if a value is missing or damaged."""
        return self._decoder.decode(item)

    def decode_with_memo(self, item: bytes, known: Memo | None = None) -> tuple[Any, Memo | None]:
        """The same, and how it was cut, where that can be told without more work.

        What `known` remembers of `item` is decoded from there, and no values are read for it.
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
        """All runs of a sequence, those in its spine first."""
        if not node.spine:
            return node.runs
        spine = [run for part in self._contents(node.spine, single=True) for run in read_runs(part)]
        return (*spine, *node.runs)

    def content(self, node: Sequence) -> bytes:
        """The items of a sequence, one after the other."""
        return b"".join(self._contents(self.runs(node)))

    def _list_with_memo(self, item: bytes, node: Sequence) -> tuple[Any, Memo | None]:
        runs = self.runs(node)
        stretches = [stretch for first, count in runs for stretch in self._rows.stretches(first, count)]
        inner = _inner(node, [row.slice(first, end) for row, first, end in stretches])
        met = self._nodes_met
        value = self._container(node, inner)
        if node.container != LIST or self._nodes_met != met:
            # Values with references inside them: the next save cuts them anew, and finds them by their digests.
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
        if tag == NodeTag.VALUE:
            number, _ = read_value(data)
            return self._decoder.decode(b"".join(self._rows.read(number, 1)))
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
        """What the values of `runs` hold, in order; `single` gives one part for each value."""
        if single:
            runs = tuple((number, 1) for first, count in runs for number in range(first, first + count))
        return [part for first, count in runs for part in self._rows.read(first, count)]


def _inner(node: Sequence, contents: Iterable[memoryview]) -> bytes:
    """What a sequence looks like written out, after its tag."""
    kind = node.container
    return b"".join([kind.prefix, header(kind.shape, node.count), *contents])

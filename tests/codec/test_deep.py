"""States can nest to the promised depth, from any stack depth, and RecursionError never escapes."""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from clew.codec.packer import MAX_DEPTH
from clew.codec.registry import Registry
from clew.codec.rows import OpenRows
from clew.codec.state import Encoded, StateCodec
from clew.errors import CorruptRecordError, UnsupportedTypeError


@dataclass
class Node:
    child: Any


WRAPS: dict[str, Callable[[Any], Any]] = {
    "list": lambda inner: [inner],
    "tuple": lambda inner: (inner,),
    "dict": lambda inner: {"k": inner},
    "dict with other keys": lambda inner: {1: inner},
    "ordered": lambda inner: OrderedDict(k=inner),
    "deque": lambda inner: deque([inner]),
    "object": Node,
}


def nested(levels: int, leaf: Any, wrap: Callable[[Any], Any]) -> Any:
    for _ in range(levels):
        leaf = wrap(leaf)
    return leaf


def depth_of(value: Any) -> tuple[int, Any]:
    """Return the number of levels and the leaf. `==` would exceed the recursion limit."""
    levels = 0
    while not isinstance(value, str):
        if isinstance(value, Node):
            value = value.child
        else:
            value = next(iter(value.values() if isinstance(value, dict) else value))
        levels += 1
    return levels, value


def codec() -> StateCodec:
    registry = Registry()
    registry.register(Node)
    return StateCodec(registry, max_state_bytes=1 << 30)


def rows_of(encoded: Encoded) -> OpenRows:
    return OpenRows([encoded.row] if encoded.row is not None else [])


def in_a_deep_stack(work: Callable[[], Any], room: int) -> Any:
    """Run `work()` with only `room` more nested calls allowed."""
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]

    def deeper(calls: int) -> Any:
        return deeper(calls - 1) if calls else work()

    return deeper(sys.getrecursionlimit() - depth - room)


@pytest.mark.parametrize("room", [150, 800])
@pytest.mark.parametrize("leaf", ["x", "x" * 6000], ids=["small", "large"])
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_two_hundred_levels_are_saved_edited_and_loaded_from_any_stack(wrap: Any, leaf: str, room: int) -> None:
    state = {"v": nested(MAX_DEPTH - 1, leaf, wrap)}

    def there_and_back() -> Any:
        encoded = codec().encode(state, None, "")
        assert codec().covers(encoded.body) == encoded.covers
        changed = codec().edit(encoded.body, [], None, set={"z": state["v"]}, append={}, remove=["v"])
        loaded, _ = codec().decode_with_memo(encoded.body, rows_of(encoded))
        return loaded["v"], codec().decode(changed.body, rows_of(changed))["z"]

    for value in in_a_deep_stack(there_and_back, room):
        assert depth_of(value) == (MAX_DEPTH - 1, leaf)


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_far_more_levels_are_refused_with_their_place(wrap: Any) -> None:
    with pytest.raises(UnsupportedTypeError, match="deeper than 200") as caught:
        codec().encode({"v": nested(2000, "x", wrap)}, None, "")
    assert caught.value.path.startswith("state.v")


def test_what_nests_too_deep_to_be_read_is_damage() -> None:
    # Clew never writes this.
    packed = b"\x91" * 5000 + b"\xc0"
    with pytest.raises(CorruptRecordError, match="deep"):
        codec()._packer.unpack(packed)


@pytest.mark.parametrize(
    "state",
    [
        {"list": ["m" * 300] * 5},
        {"list": [str(n) * 300 for n in range(50)]},
        {"text": "long " * 9000},
        {"tuple": tuple(str(n) * 300 for n in range(50))},
        [str(n) * 300 for n in range(50)],
        Node([str(n) * 300 for n in range(50)]),
    ],
    ids=lambda state: type(state).__name__,
)
def test_values_that_are_cut_short_or_missing_are_damage(state: Any) -> None:
    from clew.codec import rows

    encoded = codec().encode(state, None, "")
    assert encoded.row is not None
    contents, items = rows._taken_apart([encoded.row])
    for damaged in ([content[:-1] for content in contents], [b"" for _ in contents], [b"\xc1" * 9 for _ in contents]):
        row = rows._row(0, damaged, items, encoded.row.digests, level=1)
        for load in (codec().decode, codec().decode_with_memo):
            try:
                load(encoded.body, OpenRows([row]))
            except CorruptRecordError:
                continue
            # A truncated text is still a text. The frame's checksum detects that.
            assert "text" in state
    with pytest.raises(CorruptRecordError):
        codec().decode_with_memo(encoded.body, OpenRows([]))

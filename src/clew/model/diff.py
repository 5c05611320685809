"""Differences between two states, as data that prints well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from rich.text import Text

Kind = Literal["added", "removed", "changed"]

_WIDTH = 60
_STYLES: Mapping[Kind, str] = {"added": "green", "removed": "red", "changed": "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference. `path` has the keys, field names and list indexes that lead to it.

    Adjacent elements that were added to a list or removed from it are one change: `path` ends with the
    index of the first, `count` is their number, and `after` (or `before`) is a list of them. For members
    of a set, `path` leads to the set, and `after` (or `before`) is a set of them. Otherwise `count` is
    `None`.

    Indexes of removed elements are those of the older list, all others those of the newer one.
    """

    path: tuple[Any, ...]
    kind: Kind
    before: Any = None
    after: Any = None
    count: int | None = None

    @property
    def place(self) -> str:
        """The path as text: `plan.steps[3]`, `messages[12..13]`, `files['a.txt']`."""
        if self.count is None or self.count == 1 or not isinstance(self._values, list):
            return _spelled(self.path)
        *above, first = self.path
        return f"{_spelled(above) if above else ''}[{first}..{first + self.count - 1}]"

    @property
    def _values(self) -> Any:
        return self.before if self.kind == "removed" else self.after

    def __str__(self) -> str:
        if self.kind == "changed":
            before, after = _shown_apart(self.before, self.after)
            return f"{self.place} changed: {before} -> {after}"
        if self.count is None:
            return f"{self.place} {self.kind}: {shortened(self._values)}"
        noun = "" if isinstance(self._values, list) else " member" if self.count == 1 else " members"
        return f"{self.place}{noun} {self.kind}: {_cut(_joined(_in_order(self._values)), _WIDTH)}"

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict. Its values are the states' own objects, not copies."""
        return {
            "path": list(self.path),
            "kind": self.kind,
            "before": self.before,
            "after": self.after,
            "count": self.count,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild what `to_dict` gave."""
        return cls(**{**data, "path": tuple(data["path"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """All differences between two states, in the state's order. False if they are equal.

    Types count: `1`, `1.0` and `True` differ, and so do a list and a tuple. The order of a dict's keys does not.
    """

    changes: tuple[Change, ...] = ()

    def __len__(self) -> int:
        return len(self.changes)

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) or "no changes"

    def __rich__(self) -> Text:
        # Only rich calls this, so it is installed.
        from rich.text import Text

        lines = [Text(str(change), style=_STYLES[change.kind]) for change in self.changes]
        return Text("\n").join(lines) if lines else Text("no changes", style="dim")

    def to_dict(self) -> dict[str, Any]:
        """`{"changes": […]}`, each change as a dict."""
        return {"changes": [change.to_dict() for change in self.changes]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild what `to_dict` gave."""
        return cls(changes=tuple(Change.from_dict(change) for change in data["changes"]))


def shortened(value: Any, width: int = _WIDTH) -> str:
    """`repr(value)` in one line of at most `width` characters. Cheap even for large values."""
    return _cut(_pieces(value), width)


def safe_repr(value: Any) -> str:
    """`repr(value)`, or the name of the type if `repr` fails."""
    try:
        return repr(value)
    except Exception:  # a foreign __repr__ may raise anything, and an integer may have too many digits
        return f"<{type(value).__name__}>"


def _spelled(path: Iterable[Any]) -> str:
    text = ""
    for part in path:
        if type(part) is str and part.isidentifier():
            text += f".{part}" if text else part
        else:
            text += f"[{shortened(part)}]"
    return text or "state"


def _shown_apart(before: Any, after: Any) -> tuple[str, str]:
    """Both values, shortened. Long texts are cut so that they begin where they differ."""
    if type(before) is str and type(after) is str and max(len(before), len(after)) > _WIDTH - 2:
        start = _shared_length(before, after) - _WIDTH // 3
        if start > 0:
            return f"…{shortened(before[start:], _WIDTH - 1)}", f"…{shortened(after[start:], _WIDTH - 1)}"
    return shortened(before), shortened(after)


def _shared_length(one: str, other: str) -> int:
    """The length of the common prefix."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _cut(pieces: Iterator[str], width: int) -> str:
    text = ""
    for piece in pieces:
        text += piece
        if len(text) > width:
            return text[: width - 1] + "…"
    return text


def _pieces(value: Any) -> Iterator[str]:
    """Yield the parts of `repr(value)`, so that a caller that needs only the beginning can stop."""
    kind = type(value)
    if kind is str or kind is bytes:
        yield repr(value[: 2 * _WIDTH])
    elif kind is dict and value:
        for number, (key, item) in enumerate(value.items()):
            yield "{" if number == 0 else ", "
            yield from _pieces(key)
            yield ": "
            yield from _pieces(item)
        yield "}"
    elif kind in _BRACKETS and value:
        opening, closing = _BRACKETS[kind]
        yield opening
        yield from _joined(_in_order(value))
        yield ",)" if kind is tuple and len(value) == 1 else closing
    else:
        yield safe_repr(value).replace("\n", " ")


_BRACKETS: Mapping[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


def _joined(values: Iterable[Any]) -> Iterator[str]:
    for number, value in enumerate(values):
        if number:
            yield ", "
        yield from _pieces(value)


def _in_order(values: Any) -> Iterable[Any]:
    # Sorted, so that a set prints the same each time. Only the beginning is ever shown.
    return sorted(islice(values, 1000), key=safe_repr) if isinstance(values, set | frozenset) else values

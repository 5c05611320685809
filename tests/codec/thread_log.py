"""A thread's value log without a storage, to test the codec alone."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

from clew.codec.index import ThreadIndex, View
from clew.codec.registry import Registry
from clew.codec.rows import OpenRows
from clew.codec.state import Encoded, StateCodec
from clew.model.records import Basis, ValueRow


class ThreadLog:
    """Saves consecutive states, keeps every body and row, and counts the bytes of each save."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.codec = StateCodec(registry or Registry(), max_state_bytes=1 << 30)
        self.index = ThreadIndex(Basis(incarnation="i", epoch=0, next_value=0))
        self.rows: list[ValueRow] = []
        self.saved: list[tuple[Encoded, Any]] = []
        self.written: list[int] = []

    def save(self, state: Any) -> Encoded:
        return self._keep(self.codec.encode(state, self.index, ""), deepcopy(state))

    def edit(self, state_after: Any, **changes: Any) -> Encoded:
        body = self.saved[-1][0].body if self.saved else None
        needed = self.codec.needed_to_edit(body) if body is not None else ()
        rows = [row for row in self.rows if any(row.first < end and first < row.end for first, end in needed)]
        changes = {"set": {}, "append": {}, "remove": ()} | changes
        return self._keep(self.codec.edit(body, rows, self.index, **changes), deepcopy(state_after))

    def load(self, at: int = -1) -> Any:
        encoded = self.saved[at][0]
        return self.codec.decode(encoded.body, OpenRows(self._covered(encoded)))

    def become_cold(self) -> None:
        """Forget everything but the digests, like a process that has not loaded the thread."""
        self.index = ThreadIndex(self.index.basis)
        self.index.learn(self.rows)

    def reload(self) -> Any:
        """Load the head as a new process does, with its memo."""
        encoded = self.saved[-1][0]
        rows = self._covered(encoded)
        state, memo = self.codec.decode_with_memo(encoded.body, OpenRows(rows))
        self.index = ThreadIndex(self.index.basis)
        self.index.learn(rows)
        self.index.views[""] = View(checkpoint_id="c", body=encoded.body, size=encoded.size, memo=memo)
        return state

    def check_all(self) -> None:
        """Check that every saved state loads equal, from exactly the rows that its covers name."""
        for encoded, state in self.saved:
            rows = OpenRows(self._covered(encoded))
            assert self.codec.decode(encoded.body, rows) == state
            assert self.codec.decode_with_memo(encoded.body, rows)[0] == state

    def _covered(self, encoded: Encoded) -> list[ValueRow]:
        return [row for row in self.rows if any(row.first < end and first < row.end for first, end in encoded.covers)]

    def _keep(self, encoded: Encoded, state: Any) -> Encoded:
        written = len(encoded.body)
        next_value = self.index.basis.next_value
        if encoded.row is not None:
            assert encoded.row.first == next_value
            self.rows.append(encoded.row)
            written += len(encoded.row.data) + len(encoded.row.digests)
            next_value += encoded.row.count
        encoded.remember(self.index, "", str(len(self.saved)), Basis(incarnation="i", epoch=0, next_value=next_value))
        self.saved.append((encoded, state))
        self.written.append(written)
        return encoded


def message(number: int, size: int = 500) -> dict[str, Any]:
    """Return a message of about `size` bytes that is unique to its number."""
    return {"id": f"m{number}", "role": "user", "content": _content(number, size)}


@cache
def _content(number: int, size: int) -> str:
    return " ".join(f"w{(number * 7919 + at * 104729) % 9973:x}" for at in range(size // 6))[:size]

"""Reader of a sorted set's members, part by part."""

from __future__ import annotations

from clew.storage.conversions import text_or_bytes

_int = int.from_bytes


class MemberReader:
    """Reads the parts of a member in order. Raises ValueError if the member is too short."""

    __slots__ = ("_at", "_stored")

    def __init__(self, stored: bytes, at: int) -> None:
        self._stored, self._at = stored, at

    def number(self, width: int) -> int:
        return _int(self.take(width), "big")

    def take(self, count: int) -> bytes:
        at, self._at = self._at, self._at + count
        taken = self._stored[at : self._at]
        if len(taken) != count:
            raise ValueError("a part of a record is missing")
        return taken

    def sized(self, width: int = 3) -> bytes:
        return self.take(self.number(width))

    def text(self) -> str | bytes:
        return text_or_bytes(self.sized())

    def optional(self) -> str | bytes | None:
        size = self.number(3)
        return text_or_bytes(self.take(size - 1)) if size else None

    def rest(self) -> bytes:
        return self._stored[self._at :]

    @property
    def has_more(self) -> bool:
        return self._at < len(self._stored)

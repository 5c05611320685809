"""What a cipher does. How sealed bytes are made up is the codec's business: `clew.codec.sealing.Keyring` is one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from clew.storage.packing import text_bytes

_encode = msgspec.msgpack.Encoder().encode


class Cipher(Protocol):
    """Seals and opens bytes, each for what they are about."""

    @property
    def broken(self) -> bytes:
        """What stands in the place of what can't be opened: whoever decodes it finds it damaged."""

    def seal(self, content: bytes, about: bytes) -> bytes: ...

    def open(self, stored: bytes, about: bytes) -> bytes | None:
        """What was sealed; `None` if it is damaged, or about something else."""

    def is_plain(self, stored: bytes) -> bool:
        """Whether `stored` was never sealed, and may be read as it is."""

    def is_current(self, stored: bytes) -> bool:
        """Whether `stored` is sealed with the key that `seal` uses."""

    def hide(self, digests: bytes) -> bytes: ...

    def reveal(self, digests: bytes, stored: bytes) -> bytes:
        """What `hide` was given, in a row with the data `stored`."""


def about(kind: str, *names: str | int | bytes) -> bytes:
    """What a record is about: its kind, and by what it is known."""
    return _encode([kind, *(text_bytes(name) if isinstance(name, str) else name for name in names)])


def opened(cipher: Cipher, stored: bytes, places: Iterable[bytes]) -> bytes | None:
    """What is sealed for one of the `places`; `None` if it is for none of them."""
    for place in places:
        content = cipher.open(stored, place)
        if content is not None:
            return content
    return None

"""The protocol of a cipher. `clew.codec.keyring.Keyring` implements it and defines the format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from clew.errors import EncryptionError
from clew.storage.conversions import text_bytes

_encode = msgspec.msgpack.Encoder().encode


class Cipher(Protocol):
    """Seals and opens bytes, which open only for the `about` that they were sealed for."""

    @property
    def broken(self) -> bytes:
        """A stand-in for data that can't be opened. It decodes as damaged."""

    @property
    def checks(self) -> Mapping[str, bytes]:
        """Check values of the keys by id, for a store to recognise them by."""

    @property
    def current(self) -> str:
        """The id of the key that `seal` uses."""

    def refused(self, error: EncryptionError) -> bytes:
        """Return a stand-in for data whose key is missing. Decoding it raises `error`."""

    def seal(self, content: bytes, about: bytes) -> bytes: ...

    def open(self, stored: bytes, about: bytes) -> bytes | None:
        """Return the content; None if it is damaged, or sealed for something else."""

    def is_plain(self, stored: bytes) -> bool:
        """Return whether `stored` is not sealed and may be read. Raises EncryptionError."""

    def is_current(self, stored: bytes) -> bool:
        """Return whether `stored` is sealed with the current key."""

    def hide(self, digests: bytes) -> bytes: ...

    def reveal(self, digests: bytes, stored: bytes) -> bytes:
        """Undo `hide`, for a row with the data `stored`."""


def about(kind: str, *names: str | int | bytes) -> bytes:
    """Return a record's kind and identity, as bytes to authenticate."""
    return _encode([kind, *(text_bytes(name) if isinstance(name, str) else name for name in names)])

"""Sealed frames: AES-256-GCM, and which key it was.

The content of a sealed frame is

    length of the key's id (1 byte)  id  check (4 bytes)  nonce (12 bytes)  ciphertext  tag (16 bytes)

The check is made from the key, so that another key under the same id is told from damage. What a record is *about* (its kind
and its place) is authenticated with it: put elsewhere, it can't be opened. From each key come three, by keyed blake2b: for
sealing, for digests and for the check.
"""

from __future__ import annotations

import hashlib
import os
from typing import Final, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from clew.codec.frame import BROKEN, intact, is_sealed, sealed_content, sealed_frame
from clew.errors import EncryptionError
from clew.model.encryption import Encryption

_CHECK: Final = 4
_NONCE: Final = 12
_TAG: Final = 16
_DIGEST: Final = 16
_NO_DIGEST: Final = bytes(_DIGEST)


class _Key:
    """One key, ready for use."""

    __slots__ = ("digests", "prefix", "sealing")

    def __init__(self, name: str, key: bytes) -> None:
        self.sealing = AESGCM(_derived(key, b"clew.sealing"))
        # One block each, and digests are as good as random: nothing but equality can be seen of them.
        self.digests = Cipher(algorithms.AES(_derived(key, b"clew.digests")), modes.ECB())
        self.prefix = bytes([len(name)]) + name.encode() + _derived(key, b"clew.check")[:_CHECK]


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(key=key, digest_size=32, person=purpose).digest()


class Keyring:
    """Seals with the current key, opens with the one that it was sealed with. One object serves many threads."""

    broken: Final = BROKEN

    def __init__(self, encryption: Encryption) -> None:
        keys = {name: _Key(name, cast(bytes, key)) for name, key in encryption.keys.items()}
        self._keys = {key.prefix: key for key in keys.values()}
        self._current = keys[encryption.current or ""]
        self._refuses_plain = encryption.plain == "refuse"

    def seal(self, content: bytes, about: bytes) -> bytes:
        """`content` as a sealed frame that can be opened only with what it is `about`."""
        nonce = os.urandom(_NONCE)
        return sealed_frame(
            b"".join((self._current.prefix, nonce, self._current.sealing.encrypt(nonce, content, about)))
        )

    def open(self, stored: bytes, about: bytes) -> bytes | None:
        """What was sealed; `None` if it is damaged, or about something else. Raises EncryptionError if the key is missing."""
        key = self._key_of(stored)
        if key is None:
            return None
        content = sealed_content(stored)
        start = len(key.prefix) + _NONCE
        if len(content) < start + _TAG:
            return None
        try:
            return key.sealing.decrypt(content[len(key.prefix) : start], content[start:], about)
        except InvalidTag:
            return None

    def is_plain(self, stored: bytes) -> bool:
        """Whether `stored` was never sealed. Raises EncryptionError if such records are refused."""
        if is_sealed(stored):
            return False
        if not self._refuses_plain:
            return True
        if intact(stored):
            raise EncryptionError(
                "a stored record is not encrypted, though encryption= was given; to encrypt a store that holds plain "
                'records, open it with clew.Encryption(…, plain="read") and call areseal'
            )
        return False

    def is_current(self, stored: bytes) -> bool:
        """Whether `stored` is sealed with the current key."""
        return is_sealed(stored) and sealed_content(stored)[: len(self._current.prefix)] == self._current.prefix

    def hide(self, digests: bytes) -> bytes:
        """Digests of values so that only who has the key can tell what they are of. Those of emptied values stay nought."""
        return _kept_nought(digests, self._current.digests.encryptor().update(digests))

    def reveal(self, digests: bytes, stored: bytes) -> bytes:
        """The digests that `hide` was given with the key with which `stored`, the data of their row, is sealed.

        Without the data, the key is taken to be the current one: of another, the digests are then of nothing that anybody has.
        """
        key: _Key | None = self._current
        if stored:
            if self.is_plain(stored):
                return digests
            key = self._key_of(stored)
        return digests if key is None else _kept_nought(digests, key.digests.decryptor().update(digests))

    def _key_of(self, stored: bytes) -> _Key | None:
        """The key of a sealed frame; `None` if it is damaged."""
        if not is_sealed(stored):
            return None
        content = sealed_content(stored)
        length = content[0] if content else 0
        key = self._keys.get(bytes(content[: 1 + length + _CHECK]))
        if key is None and length and intact(stored):
            raise _missing(bytes(content[1 : 1 + length]), self._keys)
        return key


def _missing(name: bytes, given: dict[bytes, _Key]) -> EncryptionError:
    shown = ascii(name.decode("ascii", "replace"))
    if any(prefix[1:-_CHECK] == name for prefix in given):
        return EncryptionError(
            f"key {shown} is not the one with this id that the store was encrypted with; give the right one in encryption="
        )
    return EncryptionError(
        f"the store was encrypted with key {shown}, which was not given; add it to the keys in encryption="
    )


def _kept_nought(before: bytes, after: bytes) -> bytes:
    """`after` with nought where `before` has it."""
    if _NO_DIGEST not in before:
        return after
    places = range(0, len(before), _DIGEST)
    return b"".join(
        _NO_DIGEST if before[at : at + _DIGEST] == _NO_DIGEST else after[at : at + _DIGEST] for at in places
    )

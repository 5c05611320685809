"""Keyrings: seal and open frames with AES-256-GCM.

The content of a sealed frame is

    length of the key's id (1 byte)  id  check (4 bytes)  nonce (12 bytes)  ciphertext  tag (16 bytes)

The check is derived from the key, so that a different key under the same id is not mistaken for
damage. What a record is *about* (its kind and place) is authenticated: a record that is moved can't be
opened. Keyed blake2b derives four secrets from each key: for sealing, for digests, for the check in
each frame, and for the check that a store keeps.
"""

from __future__ import annotations

import hashlib
import os
from typing import Final, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from clew.codec.frame import BROKEN, intact, is_sealed, refused_frame, sealed_content, sealed_frame
from clew.errors import EncryptionError
from clew.model.encryption import Encryption, missing_key, wrong_key

_CHECK: Final = 4
_KNOWN: Final = 16
_NONCE: Final = 12
_TAG: Final = 16
_DIGEST: Final = 16
_NO_DIGEST: Final = bytes(_DIGEST)


class _Key:
    """A key with its derived secrets."""

    __slots__ = ("check", "digests", "prefix", "sealing")

    def __init__(self, name: str, key: bytes) -> None:
        self.sealing = AESGCM(_derived(key, b"clew.sealing"))
        # ECB is safe here: each digest is one block, and digests are random,
        # so only equality is visible.
        self.digests = Cipher(algorithms.AES(_derived(key, b"clew.digests")), modes.ECB())
        self.check = _derived(key, b"clew.known")[:_KNOWN]
        self.prefix = bytes([len(name)]) + name.encode() + _derived(key, b"clew.check")[:_CHECK]


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(key=key, digest_size=32, person=purpose).digest()


class Keyring:
    """Seals with the current key, and opens with the key that a record names. Thread-safe."""

    broken: Final = BROKEN

    def __init__(self, encryption: Encryption) -> None:
        keys = {name: _Key(name, cast(bytes, key)) for name, key in encryption.keys.items()}
        self._keys = {key.prefix: key for key in keys.values()}
        self._current = keys[encryption.current or ""]
        self._refuses_plain = encryption.plain == "refuse"
        self.current = encryption.current or ""
        self.checks = {name: key.check for name, key in keys.items()}
        """Checks by which a store recognises the keys. They reveal nothing about them."""

    def seal(self, content: bytes, about: bytes) -> bytes:
        """Return a sealed frame that can be opened only with the same `about`."""
        nonce = os.urandom(_NONCE)
        return sealed_frame(
            b"".join((self._current.prefix, nonce, self._current.sealing.encrypt(nonce, content, about)))
        )

    def open(self, stored: bytes, about: bytes) -> bytes | None:
        """Return the sealed content; `None` if it is damaged or about something else.

        Raises EncryptionError if the key is missing.
        """
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
        """Return whether `stored` was never sealed. Raises EncryptionError if such records are refused."""
        if is_sealed(stored):
            return False
        if not self._refuses_plain:
            return True
        if intact(stored):
            raise EncryptionError(
                "a stored record is not encrypted, although encryption= was given; to encrypt a store that holds plain "
                'records, open it with clew.Encryption(…, plain="read") and call areseal'
            )
        return False

    def refused(self, error: EncryptionError) -> bytes:
        """Return a placeholder for a frame that needs another key. Decoding it raises `error`."""
        return refused_frame(str(error))

    def is_current(self, stored: bytes) -> bool:
        """Return whether `stored` is sealed with the current key."""
        return is_sealed(stored) and sealed_content(stored)[: len(self._current.prefix)] == self._current.prefix

    def hide(self, digests: bytes) -> bytes:
        """Encrypt digests of values, so that only the key's owner can match them. Zero digests
        of emptied values stay zero."""
        return _keep_zeros(digests, self._current.digests.encryptor().update(digests))

    def reveal(self, digests: bytes, stored: bytes) -> bytes:
        """Decrypt the digests of a row with the key that sealed its data, `stored`.

        Without the data, the current key is used. If that is the wrong one,
        the result matches no value.
        """
        key: _Key | None = self._current
        if stored:
            if self.is_plain(stored):
                return digests
            key = self._key_of(stored)
        return digests if key is None else _keep_zeros(digests, key.digests.decryptor().update(digests))

    def _key_of(self, stored: bytes) -> _Key | None:
        """Return the key of a sealed frame; `None` if the frame is damaged."""
        if not is_sealed(stored):
            return None
        content = sealed_content(stored)
        length = content[0] if content else 0
        key = self._keys.get(bytes(content[: 1 + length + _CHECK]))
        if key is None and length and intact(stored):
            name = bytes(content[1 : 1 + length]).decode("ascii", "replace")
            what = "a stored record"
            raise wrong_key(what, name) if name in self.checks else missing_key(what, name)
        return key


def _keep_zeros(before: bytes, after: bytes) -> bytes:
    """Return `after` with zero digests where `before` has them."""
    if _NO_DIGEST not in before:
        return after
    places = range(0, len(before), _DIGEST)
    return b"".join(
        _NO_DIGEST if before[at : at + _DIGEST] == _NO_DIGEST else after[at : at + _DIGEST] for at in places
    )

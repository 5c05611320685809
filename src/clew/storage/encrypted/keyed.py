"""A storage wrapper that refuses processes without the store's keys.

A store has a record of the keys that it is sealed with: their ids, each with a check value that
only the key can produce and that reveals nothing about it. The first sealed commit writes the
record, and each process reads it before its first operation. The record is a byte for its format,
the CRC-32 of the rest (4 bytes, big-endian), and a msgpack map with at least one key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar
from zlib import crc32

import msgspec

from clew.errors import ClewError, CorruptRecordError
from clew.model.commit import Applied, Commit
from clew.model.encryption import missing_key, no_key, wrong_key
from clew.storage.conversions import UNDECODABLE
from clew.storage.protocol import Own, Storage
from clew.storage.wrapper import Kind, StorageWrapper

_encode = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(dict[str, bytes]).decode
_FORMAT: Final = b"\x01"
_HEADER: Final = 5
_T = TypeVar("_T")
_READS: Final = ("checkpoints", "values", "attachments", "messages", "search", "threads")
"""The operations that calls wait for most often."""


class Keys(Protocol):
    """A process's keys: their check values by id, and the id of the key that it seals with."""

    @property
    def checks(self) -> Mapping[str, bytes]: ...

    @property
    def current(self) -> str: ...


class KeyedStorage(StorageWrapper):
    """`inner`, for processes with one of its keys. Without `keys`, it must not be sealed.

    Otherwise, setup or the first operation raises EncryptionError. A process with one of the keys
    may add another: keys are rotated this way.
    """

    def __init__(self, inner: Storage, keys: Keys | None) -> None:
        super().__init__(inner)
        self.keys = keys
        self._admitted = False
        self._enlisted = False

    async def setup(self) -> None:
        await super().setup()
        await self._admit()

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        if not self._enlisted:
            await self._enlist()
        return await self.inner.apply(commits)

    async def _around(self, kind: Kind, operation: Callable[[], Awaitable[_T]]) -> _T:
        if not self._admitted:
            await self._admit()
        return await operation()

    async def _admit(self) -> None:
        _check(_read(await self.inner.own(Own.KEYS)), self.keys)
        self._admitted = True
        self._open(*_READS)

    def _open(self, *operations: str) -> None:
        """Call the inner storage directly from now on: there is nothing left to check."""
        for name in operations:
            setattr(self, name, getattr(self.inner, name))

    async def _enlist(self) -> None:
        """Add this process's current key to the store's record."""
        while True:
            stored = await self.inner.own(Own.KEYS)
            known = _read(stored)
            _check(known, self.keys)
            if self.keys is None or self.keys.current in known:
                break
            known[self.keys.current] = self.keys.checks[self.keys.current]
            if await self.inner.put_own(Own.KEYS, _packed(known), instead_of=stored):
                break
        self._admitted = self._enlisted = True
        self._open("apply", *_READS)

    async def keep_current(self) -> None:
        """Remove all keys but the current one from the store's record."""
        stored = await self.inner.own(Own.KEYS)
        if self.keys is not None and stored is not None:
            only = {self.keys.current: self.keys.checks[self.keys.current]}
            # If another process has added a key meanwhile, the record stays unchanged.
            await self.inner.put_own(Own.KEYS, _packed(only), instead_of=stored)


def ungated(storage: Storage) -> Storage:
    """Return `storage` without the check that it is not sealed."""
    return storage.inner if isinstance(storage, KeyedStorage) and storage.keys is None else storage


def _check(known: Mapping[str, bytes], keys: Keys | None) -> None:
    """Raise EncryptionError if a process with `keys` may not use a store sealed with `known`."""
    if not known:
        return
    if keys is None:
        raise no_key()
    for name, check in known.items():
        if keys.checks.get(name, check) != check:
            raise wrong_key("the store", name)
    if not any(name in keys.checks for name in known):
        raise missing_key("the store", *known)


def _packed(known: Mapping[str, bytes]) -> bytes:
    content = _encode(known)
    return _FORMAT + crc32(content).to_bytes(4) + content


def _read(stored: bytes | None) -> dict[str, bytes]:
    """Return the keys in the store's record; none if it has no record. Raises CorruptRecordError."""
    if stored is None:
        return {}
    content = memoryview(stored)[_HEADER:]
    if stored[:_HEADER] != _FORMAT + crc32(content).to_bytes(4):
        raise _damaged("wrong checksum")
    try:
        known = _decode(content)
    except UNDECODABLE as error:
        raise _damaged(error) from error
    if not known:
        # Such a record is never written. The store would pass for one that is not encrypted.
        raise _damaged("it has no key")
    return known


def _damaged(problem: object) -> CorruptRecordError:
    return CorruptRecordError(
        f"the store's record of its encryption keys ({Own.KEYS.value!r}) is damaged: {problem}; restore it from a backup"
    )

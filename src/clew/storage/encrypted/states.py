"""Volatile states that are sealed before others see them."""

from __future__ import annotations

from clew.errors import EncryptionError
from clew.model.config import ANY_USER, User
from clew.storage.encrypted.cipher import Cipher, about
from clew.storage.wrapper import SharedStates, StateVersion


class SealedStates:
    """A shared place for volatile states that sees sealed ones only. One that can't be opened is not there."""

    def __init__(self, inner: SharedStates, cipher: Cipher) -> None:
        self._inner = inner
        self._cipher = cipher

    async def put_state(
        self, thread_id: str, namespace: str, user: User, version: StateVersion, state: bytes, ttl: float
    ) -> bool:
        sealed = self._cipher.seal(state, _about(thread_id, namespace, user))
        return await self._inner.put_state(thread_id, namespace, user, version, sealed, ttl)

    async def get_state(self, thread_id: str, namespace: str, user: User, version: StateVersion) -> bytes | None:
        found = await self._inner.get_state(thread_id, namespace, user, version)
        try:
            return None if found is None else self._cipher.open(found, _about(thread_id, namespace, user))
        except EncryptionError:
            # Of a process that has newer keys.
            return None


def _about(thread_id: str, namespace: str, user: User) -> bytes:
    if user is None:
        return about("state", thread_id, namespace)
    return about("state", thread_id, namespace, 0 if user is ANY_USER else user)

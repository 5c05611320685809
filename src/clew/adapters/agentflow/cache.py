"""A cache with TTLs that all processes on a store share, kept as ordinary records of a thread."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any, Final

from clew.checkpointer.base import BaseCheckpointer
from clew.clock import Clock
from clew.errors import ThreadDeletedError
from clew.model.config import OwnConfig
from clew.model.message import Message

_PART: Final = "agentflow.cache"
_SWEEP_EVERY: Final = 100
_GRACE: Final = timedelta(hours=1)


class TimedValues:
    """Values by namespace and key. Each namespace is a thread, and each value a message in it.

    Every read asks the store, so a value is visible to all processes at once.
    """

    def __init__(self, store: BaseCheckpointer, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._puts = count(1)

    async def put(self, namespace: str, key: str, value: Any, ttl: float | None) -> None:
        """Store `value` for `ttl` seconds, or without a limit."""
        now = self._clock.now()
        kept = {"value": value, "expires_at": now + timedelta(seconds=ttl) if ttl else None}
        record = Message(message_id=key, role="cache", metadata=kept, created_at=now)
        try:
            await self._store.aput_messages(_thread(namespace), [record])
        except ThreadDeletedError:
            # The store was cleared. A cache has nothing that must stay deleted, so start again.
            await self._store.aexists(_thread(namespace))
            await self._store.aput_messages(_thread(namespace), [record])
        if next(self._puts) % _SWEEP_EVERY == 0:
            await self._sweep(namespace)

    async def get(self, namespace: str, key: str) -> Any:
        """Return the value, or `None` if it is missing or has expired."""
        record = await self._store.aget_message(_thread(namespace), key)
        return record.metadata["value"] if record is not None and not self._has_expired(record) else None

    async def clear(self, namespace: str, key: str) -> Any:
        """Remove the value and return it like `get`.

        Reads first, because usually there is nothing to remove.
        """
        record = await self._store.aget_message(_thread(namespace), key)
        if record is None:
            return None
        await self._store.adelete_message(_thread(namespace), key)
        return None if self._has_expired(record) else record.metadata["value"]

    async def keys(self, namespace: str) -> list[str]:
        """Return the keys of all values that have not expired."""
        records = await self._store.alist_messages(_thread(namespace), limit=None)
        return [record.message_id for record in records if not self._has_expired(record)]

    async def _sweep(self, namespace: str) -> None:
        """Remove values that expired long ago. A value that has just expired may be put again at this moment."""
        for record in await self._store.alist_messages(_thread(namespace), limit=None):
            if self._has_expired(record, by=_GRACE):
                await self._store.adelete_message(_thread(namespace), record.message_id)

    def _has_expired(self, record: Message, *, by: timedelta = timedelta()) -> bool:
        expires_at = record.metadata["expires_at"]
        return expires_at is not None and expires_at + by <= self._clock.now()


def _thread(namespace: str) -> OwnConfig:
    return OwnConfig(_PART, namespace)

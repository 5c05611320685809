"""Values with a time to live that all processes on a store share, kept as ordinary records of a thread."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any, Final

from clew.checkpointer.base import BaseCheckpointer
from clew.clock import Clock
from clew.errors import ThreadDeletedError
from clew.model.message import Message

OWNER: Final = "agentflow.cache"
"""Whose threads the caches are: not among those of any user, nor among those of nobody."""
_SWEEP_EVERY: Final = 100
_GRACE: Final = timedelta(hours=1)


class TimedValues:
    """Values by namespace and key. Each namespace is a thread, each value a message of it, replaced in its place.

    Reading asks the store each time: what one process puts, the next read of any other finds.
    """

    def __init__(self, store: BaseCheckpointer, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._puts = count(1)

    async def put(self, namespace: str, key: str, value: Any, ttl: float | None) -> None:
        """Keep `value` for `ttl` seconds, or for good."""
        now = self._clock.now()
        kept = {"value": value, "expires_at": now + timedelta(seconds=ttl) if ttl else None}
        record = Message(message_id=key, role="cache", metadata=kept, created_at=now)
        try:
            await self._store.aput_messages(_thread(namespace), [record])
        except ThreadDeletedError:
            # Somebody cleared the store. A cache has nothing that a deletion should protect: begin anew.
            await self._store.aexists(_thread(namespace))
            await self._store.aput_messages(_thread(namespace), [record])
        if next(self._puts) % _SWEEP_EVERY == 0:
            await self._sweep(namespace)

    async def get(self, namespace: str, key: str) -> Any:
        """The value, or `None` if there is none or its time is over."""
        record = await self._store.aget_message(_thread(namespace), key)
        return record.metadata["value"] if record is not None and not self._is_over(record) else None

    async def clear(self, namespace: str, key: str) -> Any:
        """Forget the value and return it, as `get` does. Reads first: mostly there is none, and then nothing is written."""
        record = await self._store.aget_message(_thread(namespace), key)
        if record is None:
            return None
        await self._store.adelete_message(_thread(namespace), key)
        return None if self._is_over(record) else record.metadata["value"]

    async def keys(self, namespace: str) -> list[str]:
        """The keys of all values whose time is not over."""
        records = await self._store.alist_messages(_thread(namespace), limit=None)
        return [record.message_id for record in records if not self._is_over(record)]

    async def _sweep(self, namespace: str) -> None:
        """Remove what ended long ago: so long that nobody puts it again between the look and the removal."""
        for record in await self._store.alist_messages(_thread(namespace), limit=None):
            if self._is_over(record, by=_GRACE):
                await self._store.adelete_message(_thread(namespace), record.message_id)

    def _is_over(self, record: Message, *, by: timedelta = timedelta()) -> bool:
        expires_at = record.metadata["expires_at"]
        return expires_at is not None and expires_at + by <= self._clock.now()


def _thread(namespace: str) -> dict[str, str]:
    return {"thread_id": f"{OWNER}/{namespace}", "user_id": OWNER}

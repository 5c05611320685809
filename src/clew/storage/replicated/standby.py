"""A pair without replication: the primary serves alone, and the secondary, if there is one, is only watched."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from clew.errors import ClewError
from clew.model.status import Status
from clew.storage.execution import may_block
from clew.storage.protocol import Capabilities, Storage
from clew.storage.replicated.validation import check_stores
from clew.storage.wrapper import StorageWrapper


class UnreplicatedStorage(StorageWrapper):
    """The primary. Nothing is written to the secondary, and it never serves: it has old content, or none."""

    def __init__(self, primary: Storage, secondary: Storage | None, *, timeout: float) -> None:
        if secondary is not None:
            check_stores(primary, secondary)
        super().__init__(primary)
        self._secondary = secondary
        self._timeout = timeout

    @property
    def capabilities(self) -> Capabilities:
        primary, secondary = self.inner.capabilities, self._secondary
        if secondary is None or not secondary.capabilities.suspends:
            return primary
        return replace(primary, suspends=True)

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            if self._secondary is not None:
                await self._secondary.close()

    async def status(self, found: Status) -> Status:
        healthy = None if self._secondary is None else await _answers(self._secondary, self._timeout)
        return replace(await super().status(found), secondary_healthy=healthy, enable_replication=False)


async def _answers(store: Storage, timeout: float) -> bool:
    try:
        if may_block() or not store.capabilities.suspends:
            await store.ping()
        else:
            await asyncio.wait_for(store.ping(), timeout)
    except (ClewError, TimeoutError):
        return False
    return True

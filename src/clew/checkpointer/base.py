"""The checkpointer: all groups of methods together, and its lifecycle."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from clew.checkpointer.attachments import AttachmentMethods
from clew.checkpointer.autocleanup import AutoCleanup
from clew.checkpointer.background import SettledStorage
from clew.checkpointer.blocking import blocking
from clew.checkpointer.cleaning import CleanupMethods
from clew.checkpointer.copying import CopyMethods
from clew.checkpointer.leases import LeaseMethods
from clew.checkpointer.messages import MessageMethods
from clew.checkpointer.operations import OperationMethods
from clew.checkpointer.resealing import ResealMethods
from clew.checkpointer.state import StateMethods
from clew.checkpointer.status import StatusMethods
from clew.checkpointer.threads import ThreadMethods
from clew.checkpointer.travel import TravelMethods
from clew.storage.offload import inline
from clew.storage.protocol import Storage


class BaseCheckpointer(
    StateMethods,
    AttachmentMethods,
    TravelMethods,
    CopyMethods,
    MessageMethods,
    ThreadMethods,
    LeaseMethods,
    OperationMethods,
    CleanupMethods,
    ResealMethods,
    StatusMethods,
):
    """Durable session memory over any storage.

    One object serves async code, sync code, several threads and several event loops. Every async method `aX` has the sync
    twin `X` with the same parameters. Options: `state_type` (a class that states come back as), `max_state_bytes`,
    `max_index_bytes` (memory of the writer), `max_cached_threads` and `cache_ttl` (of `aput_state_cache`), `clock`.
    """

    def _begin(self) -> None:
        if self._cleanup_interval is not None:
            AutoCleanup(self, interval=self._cleanup_interval).start()

    @property
    def storage(self) -> Storage:
        """Where everything is kept."""
        return self._storage.inner if isinstance(self._storage, SettledStorage) else self._storage

    async def asetup(self) -> None:
        """Make the store ready. Idempotent, safe in many processes at once, and done by itself on first use."""
        await self._try(self._storage.setup)

    async def arelease(self) -> None:
        """Finish what was begun and close the storage. Releasing twice is fine."""
        if self._auto_cleanup is not None:
            await self._auto_cleanup.astop()
        if not inline.get():
            # A sync caller can't wait for tasks; they only tidy up, and find the storage closed.
            loop = asyncio.get_running_loop()
            mine = [task for task in list(self._tasks) if task.get_loop() is loop]
            await asyncio.gather(*mine, return_exceptions=True)
        await self._storage.close()

    async def aping(self) -> None:
        """Answer if the storage does; raises StorageError otherwise."""
        await self._storage.ping()

    def release(self) -> None:
        """Sync twin of `arelease`; the thread that ran the other twins ends, too."""
        self._runner.run(self.arelease(), "release")
        self._runner.close()

    setup = blocking(asetup)
    ping = blocking(aping)

    async def __aenter__(self) -> Self:
        try:
            await self.asetup()
        except BaseException:
            await self.arelease()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.arelease()

    def __enter__(self) -> Self:
        try:
            self.setup()
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

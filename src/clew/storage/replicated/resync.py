"""Resync: compares both stores thread by thread, and repairs the one that does not serve."""

from __future__ import annotations

from clew.model.config import ANY_USER
from clew.model.queries import ThreadQuery
from clew.model.reports import Progress, ResyncReport
from clew.storage.content import read_content, same_content
from clew.storage.execution import pause
from clew.storage.protocol import Storage
from clew.storage.replicated.copies import BusyError, Unbroken, copy_thread, pending_entries
from clew.storage.replicated.failover import Side
from clew.storage.replicated.shipper import Shipper

_PAGE = 500
_TRIES = 20


class Resync:
    """One comparison. The serving store is right."""

    def __init__(
        self, serving: Side, primary: Storage, secondary: Storage, shipper: Shipper, unbroken: Unbroken
    ) -> None:
        self._serving = serving
        self._from, self._to = (primary, secondary) if serving == "primary" else (secondary, primary)
        self._shipper = shipper
        self._unbroken = unbroken

    async def run(self, *, delete_extra: bool, progress: Progress | None) -> ResyncReport:
        """Compare and repair all threads."""
        names = await _names(self._from)
        known = set(names)
        others = [name for name in await _names(self._to) if name not in known]
        repaired, extra, removed = [], [], 0
        for done, name in enumerate([*names, *others]):
            if progress is not None:
                progress(done, len(names) + len(others))
            if done < len(names):
                if not await self._is_same(name):
                    await self._repair_with_retries(name)
                    repaired.append(name)
            elif not await pending_entries(self._to, name) and await self._from.content(name) is None:
                extra.append(name)
                if delete_extra:
                    removed += await copy_thread(self._from, self._to, name, self._unbroken)
        if progress is not None:
            progress(len(names) + len(others), len(names) + len(others))
        return ResyncReport(
            threads=len(names) + len(others), repaired=tuple(repaired), extra=tuple(extra), removed=removed
        )

    async def _is_same(self, name: str) -> bool:
        here, there = await read_content(self._from, name), await read_content(self._to, name)
        if here is None or there is None:
            return here is there
        return same_content(here, there)

    async def _repair_with_retries(self, name: str) -> None:
        """Repair the thread, with retries while it has concurrent writers."""
        for tried in range(_TRIES):
            try:
                return await self._repair(name)
            except BusyError:
                if tried == _TRIES - 1:
                    raise
                await pause(0.02 * (tried + 1))
                if await self._is_same(name):
                    return None
        return None

    async def _repair(self, name: str) -> None:
        # If the primary does not serve, it may have commits of its own from before it was lost.
        if self._serving == "primary" or not await copy_thread(self._from, self._to, name, self._unbroken):
            await self._shipper.repair(name, serving=self._serving)


async def _names(store: Storage) -> list[str]:
    found: list[str] = []
    offset = 0
    while page := await store.threads(ThreadQuery(user=ANY_USER, offset=offset, limit=_PAGE)):
        found += [each.thread_id for each in page]
        offset += len(page)
    return found

"""Resync: compares both stores thread by thread, and repairs the one that does not serve."""

from __future__ import annotations

import logging

from clew.errors import CorruptRecordError
from clew.model.config import ANY_USER
from clew.model.queries import Content, ThreadQuery
from clew.model.reports import Damage, Progress, ResyncReport
from clew.storage.content import read_content, same_content
from clew.storage.execution import pause
from clew.storage.protocol import Storage
from clew.storage.replicated.copies import BusyError, Unbroken, chain_end, copy_thread, pending_entries
from clew.storage.replicated.failover import Side
from clew.storage.replicated.shipper import Shipper

_log = logging.getLogger("clew.replication")
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
        refused: list[Damage] = []
        for done, name in enumerate([*names, *others]):
            if progress is not None:
                progress(done, len(names) + len(others))
            try:
                if done < len(names):
                    if not await self._is_same(name):
                        await self._repair_with_retries(name)
                        repaired.append(name)
                elif not await pending_entries(self._to, name) and await self._from.content(name) is None:
                    extra.append(name)
                    if delete_extra:
                        removed += await copy_thread(self._from, self._to, name, self._unbroken)
            except CorruptRecordError as error:
                refused.append(Damage(thread_id=name, problem=f"{error}; {await self._advice(name)}"))
                _log.warning("thread not compared: %s", refused[-1].problem)
        if progress is not None:
            progress(len(names) + len(others), len(names) + len(others))
        return ResyncReport(
            threads=len(names) + len(others),
            repaired=tuple(repaired),
            extra=tuple(extra),
            removed=removed,
            refused=tuple(refused),
        )

    async def _is_same(self, name: str) -> bool:
        """Return whether both stores have the same thread. Raises CorruptRecordError if the serving store's is
        damaged; the standby's may be, and is then repaired."""
        here = await self._sound(self._from, name)
        try:
            there = await self._sound(self._to, name)
        except CorruptRecordError as error:
            _log.warning("damaged thread in the standby: %s", error)
            return False
        if here is None or there is None:
            return here is there
        return same_content(here, there)

    async def _sound(self, store: Storage, name: str) -> Content | None:
        """Return the thread's content. Raises CorruptRecordError if it may not be copied."""
        content = await read_content(store, name)
        if content is not None:
            self._unbroken(content)
        return content

    async def _advice(self, name: str) -> str:
        """Return what to do about a thread that was refused.

        The standby's thread is never copied over the serving one, which may have commits that the
        standby lacks, and which others are reading and writing meanwhile.
        """
        try:
            if await self._sound(self._to, name) is None:
                return "the standby has no such thread"
            end = await chain_end(self._to, name)
            same = end is not None and end == await chain_end(self._from, name)
        except CorruptRecordError as error:
            return f"in the standby, too: {error}"
        return (
            f"the standby's copy has no damage and {'the same' if same else 'other'} commits, and was left as it is; to "
            "take it, stop all processes, connect once with primary and secondary swapped, call resync, and swap them back"
        )

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

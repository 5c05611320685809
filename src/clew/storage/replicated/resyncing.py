"""Comparing both stores thread by thread, and making the one that does not serve what the other is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from clew.model.config import ANY_USER
from clew.model.queries import ThreadQuery
from clew.model.records import ThreadRecord, ValueRow
from clew.model.reports import Progress, ResyncReport
from clew.storage.copying import Content, read_content
from clew.storage.packing import union
from clew.storage.protocol import RESERVED, Storage
from clew.storage.replicated.copies import Unbroken, copy_thread, waiting
from clew.storage.replicated.failover import Side
from clew.storage.replicated.shipping import Shipping

_PAGE = 500
_DIGEST = 16


class Resyncing:
    """One comparison. What the store that serves has is the truth."""

    def __init__(
        self, serving: Side, primary: Storage, secondary: Storage, shipping: Shipping, unbroken: Unbroken
    ) -> None:
        self._serving = serving
        self._from, self._to = (primary, secondary) if serving == "primary" else (secondary, primary)
        self._shipping = shipping
        self._unbroken = unbroken

    async def run(self, *, delete_extra: bool, progress: Progress | None) -> ResyncReport:
        """Compare and repair everything."""
        names = await _names(self._from)
        others = [name for name in await _names(self._to) if name not in set(names)]
        repaired, extra, removed = [], [], 0
        for done, name in enumerate([*names, *others]):
            if progress is not None:
                progress(done, len(names) + len(others))
            if done < len(names):
                if not await self._is_same(name):
                    await self._repair(name)
                    repaired.append(name)
            elif not await waiting(self._to, name) and await read_content(self._from, name) is None:
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

    async def _repair(self, name: str) -> None:
        if self._serving == "primary":
            await self._shipping.same(name)
        elif not await copy_thread(self._from, self._to, name, self._unbroken):
            # The primary has commits of its own from before it was lost.
            await self._shipping.back(name)


async def _names(store: Storage) -> list[str]:
    found: list[str] = []
    offset = 0
    while page := await store.threads(ThreadQuery(user=ANY_USER, offset=offset, limit=_PAGE)):
        found += [each.thread_id for each in page if each.thread_id != RESERVED]
        offset += len(page)
    return found


def same_content(one: Content, other: Content) -> bool:
    """Whether two threads hold the same: everything but sequence numbers, sizes and where a fork came from."""
    return _plain(one) == _plain(other) and _same_values(one, other)


def _plain(content: Content) -> tuple[object, ...]:
    return (
        _plain_thread(content.thread),
        content.basis,
        [replace(each, sequence=0) for each in content.checkpoints],
        content.attachments,
        content.messages,
    )


def _plain_thread(thread: ThreadRecord) -> ThreadRecord:
    return replace(thread, size=0, forked_from=None, head=None)


def _same_values(one: Content, other: Content) -> bool:
    """Whether the values that checkpoints need are the same; the others may be gone in one of the stores."""
    needed = union(covered for each in one.checkpoints for covered in each.covers)
    if _digests(one.rows, needed) != _digests(other.rows, needed):
        return False
    # What is behind the digests is only looked at where it was packed in the same way.
    data = {(row.first, row.count): row.data for row in one.rows}
    return all(data.get((row.first, row.count), row.data) == row.data for row in other.rows)


def _digests(rows: Sequence[ValueRow], needed: Iterable[tuple[int, int]]) -> dict[int, bytes]:
    digests = {
        row.first + at: row.digests[_DIGEST * at : _DIGEST * (at + 1)] for row in rows for at in range(row.count)
    }
    return {number: digests.get(number, b"") for first, end in needed for number in range(first, end)}

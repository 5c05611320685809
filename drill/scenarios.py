"""Scenarios: each promise, on each kind of store that it has to hold on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import clew
from clew.testing.verdict.history import History
from clew.testing.verdict.judge import Findings
from clew.testing.verdict.stock import take_stock
from drill.faults import Site, open_site
from drill.replication import AsyncReplication, SyncReplication
from drill.scenario import Scenario
from drill.worker import Lane


class Cache(Scenario):
    """Promise 5: a hot cache never returns a stale state, even to a writer cut off from it."""

    name = "cache"
    opener = "drill.stores:cached"

    def open_sites(self, stack: ExitStack) -> list[Site]:
        return [open_site("postgres", stack), open_site("redis", stack, proxies=2)]

    def settings(self, sites: list[Site], writer: int) -> dict[str, Any]:
        return {"url": sites[0].url(), "cache": sites[1].url(proxy=1 if writer == 1 else 0)}

    def store(self, sites: list[Site]) -> clew.BaseCheckpointer:
        return clew.connect(sites[0].server.url)

    async def look_again(self, sites: list[Site], findings: Findings, history: History) -> None:
        async with clew.connect(sites[0].server.url, cache=sites[1].server.url) as through_the_cache:
            await take_stock(through_the_cache, history, findings)


class Deletion(Scenario):
    """Promise 6: threads that are deleted under their writers stay deleted."""

    lanes = ("victims",)
    opener = "drill.stores:plain"

    def lanes_of(self, writer: int) -> Sequence[Lane]:
        return ("deleter",) if writer == 0 else ("victims",)


class PostgresDeletion(Deletion):
    """Promise 6 on PostgreSQL."""

    name = "deletion, PostgreSQL"

    def open_sites(self, stack: ExitStack) -> list[Site]:
        return [open_site("postgres", stack)]

    def settings(self, sites: list[Site], writer: int) -> dict[str, Any]:
        return {"url": sites[0].url()}

    def store(self, sites: list[Site]) -> clew.BaseCheckpointer:
        return clew.connect(sites[0].server.url)


class RedisDeletion(PostgresDeletion):
    """Promise 6 on Redis."""

    name = "deletion, Redis"

    def open_sites(self, stack: ExitStack) -> list[Site]:
        return [open_site("redis", stack)]


class CacheDeletion(Cache, Deletion):
    """Promise 6 with the hot cache."""

    name = "deletion, cache"
    lanes = ("victims",)
    opener = "drill.stores:cached"


SCENARIOS: dict[str, tuple[type[Scenario], ...]] = {
    "cache": (Cache,),
    "deletion": (PostgresDeletion, RedisDeletion, CacheDeletion),
    "sync": (SyncReplication,),
    "async": (AsyncReplication,),
}
"""The names that `--only` accepts, and their runs, which share the number of commits."""

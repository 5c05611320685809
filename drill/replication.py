"""Replication scenarios (promise 7): outages of the primary that make the secondary take over."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, Literal

import clew
from clew.testing.servers.process import Closing
from clew.testing.verdict.history import History
from clew.testing.verdict.judge import Findings
from clew.testing.verdict.stock import compare
from drill import stores
from drill.faults import Injector, Site, What, open_site
from drill.scenario import Scenario, StuckError

_TIMINGS: Final[dict[str, float]] = {"health_check_interval": 0.5, "failback_delay": 1.0, "timeout": 1.0}
_PATIENCE: Final = 60.0
OUTAGES: Final[tuple[What, ...]] = ("kill", "pause", "refuse")


class Observer(Closing):
    """A separate client that counts failovers and failbacks. A context manager."""

    def __init__(self, checkpointer: clew.BaseCheckpointer) -> None:
        self._checkpointer = checkpointer
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="drill-observer", daemon=True)
        self.failed_over = False
        self.failovers = 0
        self.failbacks = 0
        self._checkpointer.setup()
        self.status = self._checkpointer.status()
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            self.status = self._checkpointer.status()
            over = self.status.failed_over
            if over != self.failed_over:
                self.failed_over = over
                self.failovers += over
                self.failbacks += not over

    def close(self) -> None:
        self._ended.set()
        self._thread.join(_PATIENCE)
        self._checkpointer.release()


class Replication(Scenario):
    """PostgreSQL replicated to Redis."""

    opener = "drill.stores:replicated"
    # Writers rest longer, because the primary must catch up with them on the same machine.
    calm = 4.0
    mode: Literal["sync", "async"]

    def open_sites(self, stack: ExitStack) -> list[Site]:
        sites = [open_site("postgres", stack), open_site("redis", stack)]
        self._observer = stack.enter_context(Observer(stores.replicated(**self.settings(sites, -1))))
        self._outages_at = [
            self.size.commits * (number + 1) // (self.size.outages + 1) for number in range(self.size.outages)
        ]
        return sites

    def settings(self, sites: list[Site], writer: int) -> dict[str, Any]:
        return {"primary": sites[0].url(), "secondary": sites[1].url(), "replication_mode": self.mode, **_TIMINGS}

    def store(self, sites: list[Site]) -> clew.BaseCheckpointer:
        return clew.connect(sites[0].server.url)

    def trouble(self, injector: Injector, sites: list[Site], commits: int) -> None:
        if not self._outages_at or commits < self._outages_at[0]:
            return injector.strike()
        del self._outages_at[0]
        self._wait("failback", lambda: not self._observer.failed_over)
        # The outage lasts until the secondary serves, and a little longer. Then the primary takes
        # over again.
        with injector.outage(self.chance.choice(OUTAGES), sites[0]):
            self._wait("failover", lambda: self._observer.failed_over)
            time.sleep(self.chance.uniform(0.2, 1.5))
        if self.chance.random() < 0.5:
            injector.do("lose", sites[1], 0.1)
        return self._wait("failback", lambda: not self._observer.failed_over)

    def _wait(self, what: str, done: Callable[[], bool]) -> None:
        until = time.monotonic() + _PATIENCE
        while not done():
            if time.monotonic() > until:
                raise StuckError(f"no {what} within {_PATIENCE:g} s: {self._observer.status}")
            time.sleep(0.02)

    async def settle(self, sites: list[Site], findings: Findings, history: History) -> None:
        await asyncio.to_thread(self._wait, "failback", lambda: not self._observer.failed_over)
        directly = {"primary": sites[0].server.url, "secondary": sites[1].server.url}
        async with stores.replicated(**self.settings(sites, -1) | directly) as checkpointer:
            until = time.monotonic() + _PATIENCE
            while True:
                status = await checkpointer.astatus()
                well = status.primary_healthy and status.secondary_healthy and not status.failed_over
                if well and not status.replication_queue_size:
                    break
                if time.monotonic() > until:
                    findings.add("different", f"not settled within {_PATIENCE:g} s: {status}")
                    break
                await asyncio.sleep(0.05)
        self.failovers, self.failbacks = self._observer.failovers, self._observer.failbacks

    async def look_again(self, sites: list[Site], findings: Findings, history: History) -> None:
        threads = sorted({each.thread for each in history.writes})
        async with clew.connect(sites[0].server.url) as one, clew.connect(sites[1].server.url) as other:
            async for text in compare(one, other, threads):
                findings.add("different", text)


class SyncReplication(Replication):
    """A commit is acknowledged when both stores have it, so no read is ever stale."""

    name = "sync"
    mode = "sync"


class AsyncReplication(Replication):
    """A commit is acknowledged when the primary has it. An outage hides unshipped commits."""

    name = "async"
    mode = "async"
    may_hide = True
    removals = False

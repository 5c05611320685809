"""Simulated servers and network: requests and answers are delayed, reordered, lost or duplicated.

A server is a memory storage. Its writes are durable, except on a server that `forgets` (a cache
without fsync), which may lose its last writes in a crash. A request may arrive after its sender
gave up or died.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from clew.errors import ClewError, StorageError, TransientStorageError
from clew.model.commit import Applied, Begin, Commit
from clew.model.config import User
from clew.model.feed import FeedPage, FeedQuery
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    Content,
    JournalPage,
    JournalQuery,
    MessageQuery,
    SearchQuery,
    StorageStats,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, FoundMessage, JournalEntry, LeaseRecord, MessageRecord, ThreadRecord
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Capabilities, Own
from clew.storage.rules import adds
from clew.testing.simulation.loop import Process, VirtualLoop
from clew.testing.simulation.trace import Trace

PATIENCE: Final = 2.0
"""Seconds that a driver waits for an answer."""
LATEST: Final = 12.0
"""The latest that a second copy of a request arrives, in seconds."""
_CHANGES: Final = frozenset({"apply", "lease", "trim", "put_own"})


@dataclass(slots=True)
class Weather:
    """One client's connections to a server: shares of bad requests and answers, from 0 to 1."""

    lossy: float = 0.0
    slow: float = 0.0
    twice: float = 0.0
    cut: bool = False


class Server:
    """A store and its condition. A `full` one refuses additions."""

    def __init__(
        self, name: str, *, forgets: bool = False, memory: Callable[[], MemoryStorage] = MemoryStorage
    ) -> None:
        self.name = name
        self.forgets = forgets
        self._memory = memory
        self.store = memory()
        self.down = self.paused = self.full = False
        self.lives = 0
        self.waiting: list[Request] = []
        self._done: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def call(self, name: str, args: tuple[Any, ...], more: dict[str, Any]) -> Any:
        """Run an operation and return its result."""
        if self.full and (name == "put_own" or (name == "apply" and any(map(adds, args[0])))):
            raise StorageError(f"{self.name}: no space left; free some space")
        result = run(getattr(self.store, name)(*args, **more))
        if self.forgets and name in _CHANGES:
            self._done.append((name, ([self._again(each) for each in args[0]],) if name == "apply" else args, more))
        return result

    def _again(self, commit: Commit) -> Commit:
        """Return the commit to replay after a crash, with the same incarnation for its thread."""
        thread = self.store._threads.get(commit.thread_id)
        if thread is None or commit.begin is not None:
            return commit
        return replace(commit, begin=Begin(incarnation=thread.incarnation))

    def crash(self, lost: int) -> None:
        """Go down. A server that forgets loses its last `lost` writes."""
        self.down, self.paused = True, False
        self.lives += 1
        if self.forgets and lost:
            kept = self._done[:-lost]
            self.store, self._done = self._memory(), []
            self.full = False
            for name, args, more in kept:
                self.call(name, args, more)


def run(work: Any) -> Any:
    """Return the result of a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError(f"{work!r} suspended")


@dataclass(slots=True, eq=False)
class Request:
    """A request on its way, and the future of its answer."""

    link: Link
    name: str
    args: tuple[Any, ...]
    more: dict[str, Any]
    answer: asyncio.Future[Any]
    sent: float

    @property
    def thread(self) -> str:
        """The thread that the request names, or the first of several."""
        first = self.args[0] if self.args else None
        if isinstance(first, (list, tuple)):
            first = first[0] if first else None
        return first if isinstance(first, str) else getattr(first, "thread_id", None) or ""

    @property
    def may_come_twice(self) -> bool:
        """Whether the contract makes a second copy harmless.

        A commit with a basis or a place in a chain is recognised, even after its thread was deleted. A
        commit without them would create the thread again, so it is not duplicated. An own record is
        changed by compare-and-swap.
        """
        if self.name != "apply":
            return self.name == "put_own"
        return all(each.basis is not None or each.after is not None for each in self.args[0])


class Network:
    """Delivers requests to servers and answers to clients."""

    def __init__(self, loop: VirtualLoop, trace: Trace) -> None:
        self._loop = loop
        self._trace = trace
        self._context = contextvars.Context()
        self.faults: Counter[str] = Counter()
        self.calm = False
        """Whether all faults are over."""

    def at(self, when: float, call: Any, *args: Any) -> None:
        """Schedule `call`, independently of the process that asks for it."""
        self._loop.call_at(when, call, *args, context=self._context)

    def send(self, request: Request) -> None:
        link = request.link
        if self._strikes(link.weather.lossy, link):
            self._lose(request, "request lost")
        else:
            self.at(self._loop._passed + self._delay(link), self._arrive, request)

    def _strikes(self, share: float, link: Link) -> bool:
        return share > 0 and not self.calm and link.chance.random() < share

    def _delay(self, link: Link) -> float:
        if self._strikes(link.weather.slow, link):
            self.faults["slow"] += 1
            return link.chance.uniform(0.2, 0.9)
        return link.chance.expovariate(500)

    def _arrive(self, request: Request) -> None:
        server = request.link.server
        if request.link.weather.cut and not self.calm:
            self._lose(request, "cut off")
        elif server.down:
            self._fail(request, f"{server.name} refused the connection")
        elif server.paused:
            server.waiting.append(request)
            self.at(max(self._loop._passed, request.sent + PATIENCE), self._fail, request, "no answer")
        else:
            self._do(request)

    def _do(self, request: Request) -> None:
        link, server = request.link, request.link.server
        result, error = None, None
        try:
            result = server.call(request.name, request.args, request.more)
        except ClewError as raised:
            error = raised
        if self._trace.on:
            self._trace.done(request, result, error)
        if self._strikes(link.weather.lossy, link):
            self._lose(request, "answer lost")
        else:
            self.at(self._loop._passed + self._delay(link), self._answer, request, server.lives, result, error)
        if self._strikes(link.weather.twice, link) and request.may_come_twice:
            self.faults["twice"] += 1
            self.at(self._loop._passed + link.chance.uniform(0.0, LATEST), self._again, request)

    def _again(self, request: Request) -> None:
        """Deliver a copy of the request, whose answer nobody awaits."""
        server = request.link.server
        if server.paused:
            server.waiting.append(request)
        elif not server.down:
            result = server.call(request.name, request.args, request.more) if not server.full else None
            if self._trace.on:
                self._trace.done(request, result, None, note="second copy")

    def _answer(self, request: Request, lives: int, result: Any, error: ClewError | None) -> None:
        link = request.link
        if link.server.lives != lives:
            self._fail(request, f"{link.server.name} closed the connection")
        elif link.weather.cut and not self.calm:
            self._lose(request, "cut off before the answer")
        elif not request.answer.done():
            if error is not None:
                request.answer.set_exception(error)
            else:
                request.answer.set_result(result)

    def _lose(self, request: Request, why: str) -> None:
        """Lose the request or its answer. The sender notices at once, or by timeout."""
        self.faults[why] += 1
        if self._trace.on:
            self._trace.note(request.link.client, f"{why}: {request.name}", request.thread, request.link.server.name)
        soon = request.link.chance.random() < 0.7
        now = self._loop._passed
        self.at(now + 0.002 if soon else max(now, request.sent + PATIENCE), self._fail, request, why)

    def _fail(self, request: Request, why: str) -> None:
        if not request.answer.done():
            request.answer.set_exception(TransientStorageError(why))

    # Servers

    def resume(self, server: Server) -> None:
        """Resume a paused server, which handles the requests that have arrived."""
        server.paused = False
        waiting, server.waiting = server.waiting, []
        for request in waiting:
            self._do(request)

    def crash(self, server: Server, lost: int = 0) -> None:
        server.crash(lost)
        waiting, server.waiting = server.waiting, []
        for request in waiting:
            self._fail(request, f"{server.name} closed the connection")


class Link:
    """A storage that sends each operation to a server: one client's connections."""

    def __init__(
        self, network: Network, server: Server, process: Process, client: str, weather: Weather, chance: Random
    ) -> None:
        self._network = network
        self._loop = network._loop
        self.server = server
        self.process = process
        self.client = client
        self.weather = weather
        self.chance = chance
        self.capabilities = Capabilities(name=server.name, durable=True, suspends=True, shares_forks=True)

    async def _call(self, name: str, *args: Any, **more: Any) -> Any:
        if not self.process.alive:
            raise asyncio.CancelledError(f"{self.process.name} is dead")
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._network.send(Request(self, name, args, more, answer, self._loop._passed))
        return await answer

    async def setup(self) -> None:
        await self._call("setup")

    async def close(self) -> None:
        """Do nothing: simulated connections need no close."""

    async def ping(self) -> None:
        await self._call("ping")

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        found: list[Applied | ClewError] = await self._call("apply", list(commits))
        return list(found)

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        found: LeaseRecord = await self._call("lease", thread_id, user, holder=holder, now=now, ttl=ttl)
        return found

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        found: CheckpointPage = await self._call("checkpoints", query)
        return found

    async def values(self, query: ValueQuery) -> ValuePage:
        found: ValuePage = await self._call("values", query)
        return found

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        found: list[AttachmentRecord] = await self._call("attachments", query)
        return found

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        found: list[MessageRecord] = await self._call("messages", query)
        return found

    async def search(self, query: SearchQuery) -> list[FoundMessage]:
        found: list[FoundMessage] = await self._call("search", query)
        return found

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        found: list[ThreadRecord] = await self._call("threads", query)
        return found

    async def content(self, thread_id: str) -> Content | None:
        found: Content | None = await self._call("content", thread_id)
        return found

    async def stats(self, user: User) -> StorageStats:
        found: StorageStats = await self._call("stats", user)
        return found

    async def journal(self, query: JournalQuery) -> JournalPage:
        found: JournalPage = await self._call("journal", query)
        return found

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        await self._call("trim", list(entries))

    async def feed(self, query: FeedQuery) -> FeedPage:
        # The simulated network does not wait for an entry: the stores are in virtual time.
        page: FeedPage = await self._call("feed", replace(query, wait=0.0))
        return page

    async def own(self, name: Own) -> bytes | None:
        found: bytes | None = await self._call("own", name)
        return found

    async def put_own(self, name: Own, data: bytes, *, instead_of: bytes | None) -> bool:
        done: bool = await self._call("put_own", name, data, instead_of=instead_of)
        return done

    async def reclaim(self) -> None:
        await self._call("reclaim")

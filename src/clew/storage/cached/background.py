"""Writes on their way to the hot storage: in the order they came, while nobody waits, and never too many of them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from weakref import WeakSet

from clew.model.commit import Commit
from clew.storage.cached.covering import HeldRow
from clew.storage.loops import PerLoop

MAX_WRITES: Final = 2048
MAX_BYTES: Final = 32 << 20
"""What may be on its way at once in a process. Beyond that, rows are not cached; reading them will."""
_AT_ONCE: Final = 64


class Write:
    """A commit for the hot storage, and the rows that it brings; `done` is set when it has arrived, or has failed."""

    __slots__ = ("commit", "done", "incarnation", "rows", "size")

    def __init__(self, commit: Commit, incarnation: str = "", rows: Sequence[HeldRow] = ()) -> None:
        self.commit = commit
        self.incarnation = incarnation
        self.rows = rows
        self.size = len(commit.checkpoint.body) if commit.checkpoint else 0
        self.done: asyncio.Future[None] | None = None


class Pending:
    """What is on its way in this process. Its rows can be read already."""

    def __init__(self) -> None:
        self.begin_anew()
        _everywhere.add(self)

    def begin_anew(self) -> None:
        """Forget all of it: this is a child process, and its parent does it."""
        self._lock = threading.Lock()
        self._writes: dict[str, list[Write]] = {}
        self._count = self._bytes = 0

    def add(self, write: Write, *, bounded: bool) -> bool:
        """Take note of `write`; false if there are too many of them."""
        with self._lock:
            if bounded and (self._count >= MAX_WRITES or self._bytes + write.size > MAX_BYTES):
                return False
            self._count += 1
            self._bytes += write.size
            self._writes.setdefault(write.commit.thread_id, []).append(write)
            return True

    def remove(self, writes: Sequence[Write]) -> None:
        with self._lock:
            for write in writes:
                own = self._writes.get(write.commit.thread_id, [])
                if write in own:
                    own.remove(write)
                    self._count -= 1
                    self._bytes -= write.size
                if not own:
                    self._writes.pop(write.commit.thread_id, None)

    def rows(self, thread_id: str, incarnation: str) -> list[HeldRow]:
        """Rows of the thread that are on their way, but for those that a removal will take away."""
        found: list[HeldRow] = []
        with self._lock:
            for write in self._writes.get(thread_id, ()):
                if write.commit.remove is not None and write.commit.remove.thread:
                    found.clear()
                elif write.incarnation == incarnation:
                    found += write.rows
        return found


_everywhere: WeakSet[Pending] = WeakSet()


def _after_fork() -> None:
    for each in _everywhere:
        each.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Worker:
    """Does the writes of one event loop, several at once; and chores, when there is nothing to write."""

    def __init__(self, write: Callable[[Sequence[Write]], Awaitable[None]]) -> None:
        self._write = write
        self._queue: deque[Write] = deque()
        self._chores: dict[str, Callable[[], Awaitable[None]]] = {}
        self._task: asyncio.Task[None] | None = None

    def put(self, write: Write) -> None:
        self._queue.append(write)
        self._wake()

    def chore(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Have `work` done, once, however often it is asked for until then."""
        self._chores.setdefault(name, work)
        self._wake()

    def _wake(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._queue or self._chores:
            if self._queue:
                batch = [self._queue.popleft() for _ in range(min(_AT_ONCE, len(self._queue)))]
                try:
                    await self._write(batch)
                finally:
                    for write in batch:
                        if write.done is not None and not write.done.done():
                            write.done.set_result(None)
            else:
                await self._chores.pop(next(iter(self._chores)))()

    async def settle(self) -> None:
        """Return when there is nothing more to do."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def close(self, seconds: float) -> list[Write]:
        """Go on for so long at most, then stop; what was not done."""
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=seconds)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task})
        left = list(self._queue)
        self._queue.clear()
        return left


Workers = PerLoop[Worker]

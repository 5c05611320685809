"""Background writes to the hot storage: in order, batched and bounded."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from weakref import WeakSet

from clew.model.commit import Commit
from clew.storage.cached.coverage import HeldRow
from clew.storage.loops import PerLoop

MAX_WRITES: Final = 2048
MAX_BYTES: Final = 32 << 20
"""Bounds of a process's pending writes. Rows beyond them are cached when they are next read."""
_AT_ONCE: Final = 64


class Write:
    """A commit for the hot storage, and its rows. `done` is set when it has succeeded or failed."""

    __slots__ = ("commit", "done", "incarnation", "rows", "size")

    def __init__(self, commit: Commit, incarnation: str = "", rows: Sequence[HeldRow] = ()) -> None:
        self.commit = commit
        self.incarnation = incarnation
        self.rows = rows
        self.size = len(commit.checkpoint.body) if commit.checkpoint else 0
        self.done: asyncio.Future[None] | None = None


class PendingWrites:
    """The pending writes of this process. Their rows can be read already."""

    def __init__(self) -> None:
        self.reset()
        _instances.add(self)

    def reset(self) -> None:
        """Forget all writes, in a child process: the parent does them."""
        self._lock = threading.Lock()
        self._writes: dict[str, list[Write]] = {}
        self._count = self._bytes = 0

    def add(self, write: Write, *, bounded: bool) -> bool:
        """Add `write`. Returns false if the bounds are reached."""
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
        """Return the thread's pending rows, except those that a pending removal drops."""
        found: list[HeldRow] = []
        with self._lock:
            for write in self._writes.get(thread_id, ()):
                if write.commit.remove is not None and write.commit.remove.thread:
                    found.clear()
                elif write.incarnation == incarnation:
                    found += write.rows
        return found


_instances: WeakSet[PendingWrites] = WeakSet()


def _after_fork() -> None:
    for each in _instances:
        each.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Worker:
    """Does the writes of one event loop in batches, and chores when there is nothing to write."""

    def __init__(self, write: Callable[[Sequence[Write]], Awaitable[None]]) -> None:
        self._write = write
        self._queue: deque[Write] = deque()
        self._chores: dict[str, Callable[[], Awaitable[None]]] = {}
        self._task: asyncio.Task[None] | None = None

    def put(self, write: Write) -> None:
        self._queue.append(write)
        self._wake()

    def chore(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Schedule `work`, unless work of the same name is scheduled already."""
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
        """Wait until there is nothing more to do."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def close(self, seconds: float) -> list[Write]:
        """Continue for at most that many seconds, then stop. Returns the writes that were not done."""
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=seconds)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task})
        left = list(self._queue)
        self._queue.clear()
        return left


Workers = PerLoop[Worker]

"""Queues of writers: the concurrent writers of one thread in one process take turns.

The leader, the first in the queue, may also write for the waiting writers. A queue only saves work:
the storage alone decides what may be applied. So a writer that can't wait, or has waited too long,
writes without a turn. A queue exists only while it has a writer.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, Final, Generic, TypeVar

from clew.answers import Answer
from clew.os_threads import reset_after_fork
from clew.storage.execution import is_sync_call_in_loop, may_block

PATIENCE: Final = 5.0
"""A queue that has not moved for so many seconds is dissolved: its leader may hang, or be gone."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Queue:
    """The writers behind the leader. `moved` counts the turns that ended."""

    def __init__(self) -> None:
        self.moved = 0
        self.waiting: deque[Writer[Any, Any]] = deque()


class Writer(Generic[Item, Result]):
    """A writer in the queue of its thread.

    After `wait_turn`, it leads, or was served, or writes without a turn. `item` is what another
    writer may write for this one, or `None`. The leader ends its turn with `leave`.
    """

    # Class attributes, because most writers are alone and never set them.
    leads = waits = cancelled = False
    outcome: Result | Exception | None = None
    """The result, if another writer wrote this one's item."""
    taken: Sequence[Writer[Item, Result]] = ()
    """The writers whose items this one writes too, in their order."""
    _queue: _Queue | None = None
    _woken: Answer[None] | None = None

    def __init__(self, queues: WriteQueues, key: Hashable, item: Item | None) -> None:
        self.item = item
        self._queues = queues
        self._key = key

    def take_along(self, most: int) -> None:
        """Take the next writers in the queue along, as far as their items can be written by others."""
        if self.leads and self._queue is not None:
            self.taken = self._queues._take(self._queue, most)

    def serve(self, other: Writer[Item, Result], outcome: Result | Exception) -> None:
        """Give the result of its item to a writer in the batch."""
        self.taken = [each for each in self.taken if each is not other]
        other.outcome = outcome
        other._wake()

    def dissolve(self) -> None:
        """Have all writers write without a turn, also those in the batch: the storage fails, and each
        retries alone."""
        if self.leads and self._queue is not None:
            self._queues._dissolve(self._key, self._queue)
            taken, self.taken = self.taken, ()
            for each in taken:
                each._wake()

    def leave(self) -> None:
        """End the turn. Writers that were taken along and not served come first again."""
        if self.leads:
            self.leads = False
            taken, self.taken = self.taken, ()
            self._queues._advance(self, taken)

    async def wait_turn(self) -> None:
        """Wait until this writer leads, was served, or has to write without a turn."""
        woken, queue = self._woken, self._queue
        if woken is None or queue is None:
            return
        try:
            moved = queue.moved
            while not await _is_given(woken):
                if queue.moved == moved:
                    self._queues._dissolve(self._key, queue)
                    return
                moved = queue.moved
        except BaseException:
            self._queues._withdraw(self, queue)
            raise

    def _wake(self) -> None:
        if self._woken is not None:
            self._woken.give(None)


async def _is_given(woken: Answer[None]) -> bool:
    """Return whether the answer comes within `PATIENCE` seconds."""
    try:
        if may_block():
            woken.wait(PATIENCE)
        else:
            async with asyncio.timeout(PATIENCE):
                await woken.arrive()
    except TimeoutError:
        return False
    return True


class WriteQueues:
    """The queues of one checkpointer, by key. Used from any number of OS threads and event loops."""

    def __init__(self) -> None:
        self.reset()
        reset_after_fork(self)

    def reset(self) -> None:
        """Empty all queues: at first, and in a forked child, whose parent has the writers."""
        self._lock = threading.Lock()
        self._leaders: dict[Hashable, Writer[Any, Any]] = {}

    def __len__(self) -> int:
        return len(self._leaders)

    def join(self, key: Hashable, item: Any) -> Writer[Any, Any]:
        """Enter the queue of `key`; the first writer leads."""
        writer: Writer[Any, Any] = Writer(self, key, item)
        if self._leaders.setdefault(key, writer) is writer:
            writer.leads = True
            return writer
        with self._lock:
            # Nobody leaves while the lock is held, but the leader may just have left.
            leader = self._leaders.setdefault(key, writer)
            if leader is writer:
                writer.leads = True
            elif not is_sync_call_in_loop():
                # Otherwise the leader may be a task of the very loop that waiting would block.
                if leader._queue is None:
                    leader._queue = _Queue()
                writer._queue, writer._woken, writer.waits = leader._queue, Answer(), True
                writer._queue.waiting.append(writer)
        return writer

    def _take(self, queue: _Queue, most: int) -> list[Writer[Any, Any]]:
        taken: list[Writer[Any, Any]] = []
        with self._lock:
            while queue.waiting and len(taken) < most and queue.waiting[0].item is not None:
                taken.append(queue.waiting.popleft())
        return taken

    def _advance(self, writer: Writer[Any, Any], back: Sequence[Writer[Any, Any]]) -> None:
        """End the writer's turn; those in `back` return to the head of the queue."""
        woken: Sequence[Writer[Any, Any]] = ()
        with self._lock:
            queue = writer._queue
            if queue is not None:
                queue.moved += 1
            if self._leaders.get(writer._key) is not writer:
                woken = back
            elif queue is None:
                del self._leaders[writer._key]
            else:
                queue.waiting.extendleft([each for each in reversed(back) if not each.cancelled])
                if queue.waiting:
                    following = self._leaders[writer._key] = queue.waiting.popleft()
                    following.leads = True
                    woken = (following,)
                else:
                    del self._leaders[writer._key]
        for each in woken:
            each._wake()

    def _dissolve(self, key: Hashable, queue: _Queue) -> None:
        with self._lock:
            leader = self._leaders.get(key)
            if leader is not None and leader._queue is queue:
                del self._leaders[key]
            alone, queue.waiting = queue.waiting, deque()
        for each in alone:
            each._wake()

    def _withdraw(self, writer: Writer[Any, Any], queue: _Queue) -> None:
        """Remove a writer that was cancelled while it waited; pass the turn on if it has just got it."""
        with self._lock:
            writer.cancelled = True
            if writer in queue.waiting:
                queue.waiting.remove(writer)
        writer.leave()

"""Queues of writers: the concurrent writers of one thread in one process take turns.

The leader, the first in the queue, may also write for the waiting writers. A queue only saves work:
the storage alone decides what may be applied. So a writer that can't wait, or has waited too long,
writes without a turn. A queue exists only while it has a writer.

Ctrl-C may come at any line, also while a writer leaves. So each writer holds a lock of its own, in a
`with` statement, for as long as it is in a queue. A leader that does not hold its lock, or whose
event loop does not run, is gone, and the others continue without it.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio import _get_running_loop
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from clew.answers import Answer
from clew.os_threads import reset_after_fork
from clew.storage.execution import is_sync_call_in_loop, may_block

PATIENCE: Final = 5.0
"""A queue that has not moved for so many seconds is dissolved: its leader may hang."""
LOOK: Final = 0.1
"""Seconds between two checks of a waiting writer that its leader is still there."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Queue:
    """The writers behind the leader. `moved` counts the turns that ended."""

    def __init__(self) -> None:
        self.moved = 0
        self.waiting: deque[Writer[Any, Any]] = deque()


class Writer(Generic[Item, Result]):
    """A writer in the queue of its thread.

    After `enter`, it leads, or was served, or writes without a turn. `item` is what another writer
    may write for this one, or `None`. `leave` ends its turn, or its wait. Its `presence` is held from
    before `enter` until after `leave`.
    """

    # Class attributes, because most writers are alone and never set them.
    leads = withdrawn = False
    outcome: Result | Exception | None = None
    """The result, if another writer wrote this one's item."""
    taken: Sequence[Writer[Item, Result]] = ()
    """The writers whose items this one writes too, in their order."""
    _queue: _Queue | None = None
    _woken: Answer[None] | None = None

    def __init__(self, queues: WriteQueues, key: Hashable, item: Item | None) -> None:
        self.item = item
        self.presence = threading.Lock()
        self._queues = queues
        self._key = key
        self._loop = _get_running_loop()

    async def enter(self) -> None:
        """Join the queue, and wait until this writer leads, was served, or has to write without a turn."""
        self._queues._join(self)
        woken, queue = self._woken, self._queue
        if woken is None or queue is None:
            return
        moved, stood_still = queue.moved, 0.0
        while not await _is_given(woken):
            leader = self._queues._leader(self._key, queue)
            if leader is self:
                # The last leader was interrupted before it could say so.
                self.leads = True
                return
            stood_still = stood_still + LOOK if queue.moved == moved else 0.0
            moved = queue.moved
            if leader is None or stood_still >= PATIENCE:
                self._queues._dissolve(self._key, queue)
                return

    def take_along(self, most: int) -> None:
        """Take the next writers in the queue along, as far as their items can be written by others."""
        if self.leads and self._queue is not None:
            self._queues._take(self, self._queue, most)

    def serve(self, other: Writer[Item, Result], outcome: Result | Exception) -> None:
        """Give the result of its item to a writer in the batch."""
        other.outcome = outcome
        other._wake()
        self.taken = [each for each in self.taken if each is not other]

    def dissolve(self) -> None:
        """Have all writers write without a turn, also those in the batch: the storage fails, and each
        retries alone."""
        if self.leads and self._queue is not None:
            self._queues._dissolve(self._key, self._queue)
            for each in self.taken:
                each._wake()
            self.taken = ()

    def leave(self) -> None:
        """End the turn, or the wait for it. Writers that were taken along and not served come first again."""
        if self._queue is not None and self._woken is not None and not self._woken.done:
            self._queues._withdraw(self, self._queue)
        if self.leads:
            self._queues._advance(self)
            self.leads, self.taken = False, ()

    @property
    def is_present(self) -> bool:
        """Whether the writer is still in its `with` statement, and can continue there."""
        return self.presence.locked() and (self._loop is None or self._loop.is_running())

    @property
    def is_waiting(self) -> bool:
        """Whether the writer still waits for its turn."""
        return self.is_present and not self.withdrawn and self.outcome is None

    def _wake(self) -> None:
        if self._woken is not None:
            self._woken.give(None)


async def _is_given(woken: Answer[None]) -> bool:
    """Return whether the answer comes within `LOOK` seconds."""
    if may_block():
        return woken.comes_within(LOOK)
    try:
        async with asyncio.timeout(LOOK):
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

    async def in_turn(
        self, key: Hashable, item: Item | None, write: Callable[[Writer[Item, Result]], Awaitable[Result]]
    ) -> Result:
        """Return the result of `write`, called in a turn of the queue of `key`, or the result of another
        writer that wrote `item`."""
        writer: Writer[Item, Result] = Writer(self, key, item)
        with writer.presence:
            try:
                if self._leaders.setdefault(key, writer) is writer:
                    # The usual case: nobody else writes.
                    writer.leads = True
                else:
                    await writer.enter()
                    if isinstance(writer.outcome, Exception):
                        raise writer.outcome
                    if writer.outcome is not None:
                        return writer.outcome
                return await write(writer)
            finally:
                writer.leave()

    def _join(self, writer: Writer[Any, Any]) -> None:
        """Enter the queue of the writer's key, in which another writer was first."""
        key = writer._key
        alone: Sequence[Writer[Any, Any]] = ()
        with self._lock:
            # Nobody leaves while the lock is held, but the leader may just have left.
            leader = self._leaders.setdefault(key, writer)
            if leader is not writer and not leader.is_present:
                # It was interrupted before it could leave.
                alone = leader.taken if leader._queue is None else [*leader.taken, *leader._queue.waiting]
                leader = self._leaders[key] = writer
            if leader is writer:
                writer.leads = True
            elif not is_sync_call_in_loop():
                # Otherwise the leader may be a task of the very loop that waiting would block.
                if leader._queue is None:
                    leader._queue = _Queue()
                writer._queue, writer._woken = leader._queue, Answer()
                writer._queue.waiting.append(writer)
        for each in alone:
            each._wake()

    def _leader(self, key: Hashable, queue: _Queue) -> Writer[Any, Any] | None:
        """The leader of `queue`; `None` if it is gone."""
        leader = self._leaders.get(key)
        return leader if leader is not None and leader._queue is queue and leader.is_present else None

    def _take(self, writer: Writer[Any, Any], queue: _Queue, most: int) -> None:
        with self._lock:
            waiting = queue.waiting
            taken: list[Writer[Any, Any]] = []
            writer.taken = taken
            # In this order: after an interrupt, a writer may be in both lists, but never in none.
            while waiting and len(taken) < most and waiting[0].item is not None:
                taken.append(waiting[0])
                waiting.popleft()

    def _advance(self, writer: Writer[Any, Any]) -> None:
        """End the writer's turn; those that it has taken along return to the head of the queue."""
        woken: Sequence[Writer[Any, Any]] = ()
        with self._lock:
            queue = writer._queue
            if queue is not None:
                queue.moved += 1
            if self._leaders.get(writer._key) is not writer:
                woken = writer.taken
            elif queue is None:
                del self._leaders[writer._key]
            else:
                queue.waiting.extendleft(reversed(writer.taken))
                while queue.waiting and not queue.waiting[0].is_waiting:
                    queue.waiting.popleft()
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
            alone = list(queue.waiting)
        for each in alone:
            each._wake()
        queue.waiting.clear()

    def _withdraw(self, writer: Writer[Any, Any], queue: _Queue) -> None:
        """Remove a writer that no longer waits, so that it does not get the turn."""
        with self._lock:
            writer.withdrawn = True
            with suppress(ValueError):
                queue.waiting.remove(writer)

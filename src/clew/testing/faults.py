"""Fault injection: a storage that fails on purpose, and one that retries.

    storage = FaultyStorage(MemoryStorage(), script([None, "after apply"]))   # the second commit's answer is lost
    storage = FaultyStorage(SQLiteStorage(path), at_random(seed=7, rate=0.1))

The fault points are `"before apply"` (nothing was written), `"after apply"` (it was
written, but the answer is lost), `"before read"`, and `"slow"`, which only delays. A lease
counts as an apply, a ping as a read.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from clew.errors import TransientStorageError
from clew.storage.protocol import Storage
from clew.storage.wrapper import Kind, StorageWrapper

FaultPoint = Literal["before apply", "after apply", "before read", "slow"]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault point, with the error to raise instead of a TransientStorageError."""

    point: FaultPoint
    error: Exception | None = None


Step = Fault | FaultPoint | None
Plan = Callable[[Kind], Step]
"""Called once per operation; returns the fault to inject, if any."""


def script(steps: Iterable[Step], *, kinds: Sequence[Kind] = ("apply",)) -> Plan:
    """Return a plan that takes one of `steps` for each operation of `kinds`, in order.
    After the last, nothing fails.

    Pass `itertools.cycle([...])` for a plan without an end.
    """
    remaining = iter(steps)
    return lambda kind: next(remaining, None) if kind in kinds else None


def at_random(
    *, seed: int, rate: float, points: Sequence[FaultPoint] = ("before apply", "after apply", "before read")
) -> Plan:
    """Return a plan in which a share `rate` of operations fails, the same for each `seed`."""
    chance = random.Random(seed)

    def plan(kind: Kind) -> Step:
        fitting = [point for point in points if kind in point or point == "slow"]
        return chance.choice(fitting) if fitting and chance.random() < rate else None

    return plan


class FaultyStorage(StorageWrapper):
    """A storage that fails according to `plan`. It suspends only if the inner one does.
    "slow" takes `delay` seconds."""

    def __init__(self, inner: Storage, plan: Plan, *, delay: float = 0.01) -> None:
        super().__init__(inner)
        self._plan = plan
        self._delay = delay
        self._wait = time.sleep  # The inner storage blocks the calling thread as well.
        self._lock = threading.Lock()
        self.faults: list[FaultPoint] = []
        """The faults so far, in order."""

    async def _around(self, kind: Kind, operation: Callable[[], Awaitable[_T]]) -> _T:
        with self._lock:
            step = self._plan(kind)
            fault = step if isinstance(step, Fault) or step is None else Fault(step)
            if fault:
                self.faults.append(fault.point)
        if fault is None:
            return await operation()
        if fault.point == "slow":
            if self.capabilities.suspends:
                await asyncio.sleep(self._delay)
            else:
                self._wait(self._delay)
            return await operation()
        error = fault.error or TransientStorageError(f"a fault on purpose, {fault.point}", point=fault.point)
        if fault.point == "after apply":
            await operation()
        raise error


class RetryingStorage(StorageWrapper):
    """A storage that retries transient failures at once, up to `attempts` times."""

    def __init__(self, inner: Storage, *, attempts: int = 10) -> None:
        super().__init__(inner)
        self._attempts = attempts

    async def setup(self) -> None:
        await self._around("apply", self.inner.setup)

    async def _around(self, kind: Kind, operation: Callable[[], Awaitable[_T]]) -> _T:
        for _ in range(self._attempts - 1):
            try:
                return await operation()
            except TransientStorageError:
                continue
        return await operation()

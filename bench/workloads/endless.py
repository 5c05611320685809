"""W9: an endless thread: compares a save in it with one in a thread of 10,000 saves.

`--full` makes up to 1,000,000 saves. Smaller runs give the writer less memory, so that the long thread
outgrows it too.
"""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import dataclass

import clew
from bench.figure import Figure
from bench.measure import in_turn
from bench.targets.clew import Clew
from bench.workloads.common import Results, Run

GOAL = 2.0
"""Maximum time of a save in the long thread, relative to the other thread."""


@dataclass(frozen=True, slots=True)
class Sizes:
    short: int
    long: int
    rounds: int
    memory: int
    """`max_index_bytes`, less than the digests of the long thread need."""


SIZES = {
    "tiny": Sizes(20, 200, 5, 20_000),
    "usual": Sizes(10_000, 25_000, 1_000, 2 << 20),
    "full": Sizes(10_000, 1_000_000, 3_000, 64 << 20),
}


async def run(run: Run) -> Results:
    sizes = SIZES[run.size]

    class Bounded(Clew):
        def options(self) -> dict[str, int]:
            return {"max_index_bytes": sizes.memory}

    async with run.opened([Bounded]) as opened:
        checkpointer = opened[0].target.engine
        assert isinstance(checkpointer, clew.BaseCheckpointer)
        long, short = Line(checkpointer, "long"), Line(checkpointer, "short")
        for line, count in ((long, sizes.long), (short, sizes.short)):
            while line.saves < count:
                if line.saves % 1_000 == 0:
                    run.report(f"{line.saves:,} of {count:,} saves")
                await line.save()
        # Wait for background work of the server and the checkpointer.
        await asyncio.gather(*list(checkpointer._engine.tasks))
        taken = await in_turn({"long": long.save, "short": short.save}, rounds=sizes.rounds, warm_up=1)
        index = (await checkpointer.astats()).index
        for line in (long, short):
            assert await checkpointer.aget_state(line.thread) == line.state(), (
                f"{line.thread}: the loaded state differs from the saved one"
            )
    late, early = (statistics.median(taken[name]) * 1e3 for name in ("long", "short"))
    return [
        Figure(
            f"save {sizes.long:,} against save {sizes.short:,} of a thread",
            late / early,
            GOAL,
            f"{late:,.3f} ms against {early:,.3f} ms",
        ),
        Figure("memory of the index, of max_index_bytes", index.bytes / index.max_bytes, 1.0, f"{index.bytes:,} B"),
    ]


class Line:
    """A thread and its number of saves."""

    def __init__(self, checkpointer: clew.BaseCheckpointer, thread: str) -> None:
        self._checkpointer = checkpointer
        self.thread = thread
        self.saves = 0

    def state(self) -> dict[str, object]:
        """Return a small state with one new value per save, long enough to be stored as a value."""
        return {"step": self.saves, "said": f"{self.thread} {self.saves} " * 60}

    async def save(self, _: int = 0) -> None:
        self.saves += 1
        await self._checkpointer.aput_state(self.thread, self.state())

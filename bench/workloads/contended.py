"""W8: concurrent writers of one thread: saves per second, fairness, and attempts per save."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import clew
from bench.conversation import messages
from bench.figure import Figure
from bench.measure import Measure
from bench.workloads.common import Results, Run
from clew.model.commit import Applied, Commit
from clew.storage.wrapper import StorageWrapper

ONE, TWO, REPLICATED = "clew", "clew, two processes", "clew, sync replication"
"""The setups: one checkpointer; two on one store, like two processes;
one over SQLite and PostgreSQL."""
RATE = {ONE: 500.0, REPLICATED: 200.0}
FAIR = 5.0
"""Maximum time of the slowest writer, relative to the median writer."""


@dataclass(frozen=True, slots=True)
class Sizes:
    writers: tuple[int, ...]
    saves: int
    rounds: int
    base: int = 10
    """Number of conversation turns that all states share."""


SIZES = {"tiny": Sizes((4,), 2, 1), "usual": Sizes((50, 200), 5, 3), "full": Sizes((50, 200), 10, 7)}


class Counting(StorageWrapper):
    """Counts attempted commits."""

    tried = 0

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | clew.ClewError]:
        self.tried += len(commits)
        return await super().apply(commits)


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round: the time of each writer."""

    seconds: float
    writers: Sequence[float]
    commits: int
    tried: int


async def run(run: Run) -> Results:
    sizes, results = SIZES[run.size], list[Measure | Figure]()
    for name in (ONE, TWO, *([REPLICATED] if run.storage == "postgres" else [])):
        if name == TWO and run.storage == "memory":
            continue
        async with _opened(run, name) as checkpointers:
            for count in sizes.writers:
                rounds = []
                for number in range(sizes.rounds + 1):
                    run.report(f"{name}: {count} writers, round {number}")
                    rounds.append(await _round(checkpointers, f"{count}-{number}", count, sizes))
                # The first round is a warm-up.
                results += _results(name, count, rounds[1:])
    return results


@asynccontextmanager
async def _opened(run: Run, name: str) -> AsyncIterator[list[clew.BaseCheckpointer]]:
    place = await run.ground.place(run.storage)
    async with AsyncExitStack() as stack:
        made: list[clew.BaseCheckpointer]
        if name == REPLICATED:
            primary = await run.ground.place("sqlite")
            made = [clew.DistributedCheckpointer(primary.url, place.url, replication_mode="sync", timeout=60.0)]
        else:
            made = [clew.connect(place.url) for _ in range(2 if name == TWO else 1)]
        yield [await stack.enter_async_context(each) for each in made]


async def _round(checkpointers: Sequence[clew.BaseCheckpointer], thread: str, count: int, sizes: Sizes) -> Round:
    said = messages(sizes.base)
    own = [messages(sizes.saves, seed) for seed in range(1, count + 1)]
    counting = []
    for checkpointer in checkpointers:
        counting.append(Counting(checkpointer._engine.storage))
        checkpointer._engine.storage = counting[-1]
    taken: list[float] = []

    async def write(writer: int) -> None:
        checkpointer, begun = checkpointers[writer % len(checkpointers)], time.perf_counter()
        for turn in range(sizes.saves):
            state = {"messages": [*said, *own[writer][: 2 * turn + 2]], "writer": writer}
            await checkpointer.aput_state(thread, state)
        taken.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*[write(writer) for writer in range(count)])
    seconds = time.perf_counter() - begun
    for checkpointer, each in zip(checkpointers, counting, strict=True):
        checkpointer._engine.storage = each.inner
    made = len(await checkpointers[0].alist_checkpoints(thread, limit=None))
    assert made == count * sizes.saves
    return Round(seconds, taken, made, sum(each.tried for each in counting))


def _results(name: str, count: int, rounds: Sequence[Round]) -> Results:
    what = f"{count} writers of a thread"
    rates = [each.commits / each.seconds for each in rounds]
    unfair = [max(each.writers) / statistics.median(each.writers) for each in rounds]
    rate = Measure.of(f"{what}: saves a second", "/s", name, rates)
    slowest = Measure.of(f"{what}: slowest against median writer", "x", name, unfair)
    tried = Measure.of(f"{what}: tries a save", "x", name, [each.tried / each.commits for each in rounds])
    figures = [Figure(f"{name}, {slowest.what}", slowest.median, FAIR, "seconds for all saves of a writer")]
    if name in RATE:
        figures.append(Figure(f"{name}, {rate.what}", rate.median, RATE[name], "", at_least=True, unit="/s"))
    return [rate, slowest, tried, *figures]

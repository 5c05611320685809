"""W5: the same calls in a store of few threads and in one of many, all
of one user, active over days."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.measure import Call, Measure, in_turn
from bench.targets import Target
from bench.targets.clew import OwnedClew
from bench.workloads.common import Results, Run


@dataclass(frozen=True, slots=True)
class Sizes:
    few: int
    many: int
    checkpoints: int
    rounds: int


SIZES = {"tiny": Sizes(12, 30, 3, 3), "usual": Sizes(1_000, 20_000, 10, 60), "full": Sizes(1_000, 100_000, 10, 200)}
PEER_SIZES = {"tiny": SIZES["tiny"], "usual": Sizes(50, 500, 10, 40), "full": Sizes(1_000, 20_000, 10, 60)}
AT_ONCE = 500
SECONDS = 10.0
"""Approximate seconds per kind of call, because some read the whole store."""


async def run(run: Run) -> Results:
    sizes = (PEER_SIZES if run.peers else SIZES)[run.size]
    results: Results = []
    classes: list[type[Target]] = [OwnedClew] if run.only("clew") else []
    if run.peers:
        classes += run.without("clew", "clew update", "raw", "encoding")
    for cls in classes:
        # Two stores, so that the calls can be interleaved.
        async with run.opened([cls, cls], tasks=AT_ONCE) as (small, large):
            await _fill(run, small.target, sizes.few, sizes.checkpoints)
            await _fill(run, large.target, sizes.many, sizes.checkpoints)
            await small.place.settle()
            await large.place.settle()
            async with small.target.again() as few, large.target.again() as many:
                names = _calls(few)
                for what in names:
                    run.report(f"{cls.name}: {what} among {sizes.few:,} and {sizes.many:,} threads")
                    calls: dict[str, Call] = {"few": _calls(few)[what], "many": _calls(many)[what]}
                    begun = time.monotonic()
                    if not await run.try_to(few, what, partial(_once, calls, sizes.few - 1)):
                        continue
                    rounds = _rounds(time.monotonic() - begun, min(sizes.rounds, sizes.few - 3))
                    taken = await in_turn(calls, rounds=rounds)
                    results += Measure.times(f"{what} among {sizes.few:,} threads", {cls.name: taken["few"]})
                    results += Measure.times(f"{what} among {sizes.many:,} threads", {cls.name: taken["many"]})
    return results


async def _once(calls: Mapping[str, Call], number: int) -> None:
    """Run each call once, to check that it is supported and to warm it up."""
    for call in calls.values():
        await call(number)


def _rounds(seconds: float, most: int) -> int:
    """Return the number of rounds that fit into the time limit, with a minimum."""
    return max(min(3, most), min(most, int(SECONDS / max(seconds, 1e-6))))


async def _fill(run: Run, target: Target, threads: int, checkpoints: int) -> None:
    waiting = iter(range(threads))

    async def write() -> None:
        for thread in waiting:
            if thread % 1000 == 0:
                run.report(f"{target.name}: {thread:,} of {threads:,} threads of {checkpoints} checkpoints")
            said = [_message(target, thread, number) for number in range(checkpoints)]
            for end in range(1, checkpoints + 1):
                await target.save(_name(thread), {"messages": said[:end]}, said[end - 1 : end])

    await asyncio.gather(*[write() for _ in range(min(AT_ONCE, threads))])


def _name(thread: int) -> str:
    return f"thread-{thread:06d}"


def _message(target: Target, thread: int, number: int) -> Any:
    return target.message(
        {
            "id": f"{thread}-{number}",
            "role": "assistant" if number % 2 else "user",
            "content": f"the answer to question {number} about the trip to city {thread}",
            "metadata": {"tokens": number},
        }
    )


def _calls(target: Target) -> dict[str, Callable[[int], Any]]:
    """Return the timed calls. Each round takes another thread."""
    said: dict[int, list[Any]] = {}

    async def save(number: int) -> None:
        new = said.setdefault(number % 10, [])
        new.append(_message(target, number % 10, 100 + number))
        # A few threads repeatedly, because the first write to a page after a
        # checkpoint logs the whole page.
        await target.save(f"new-{number % 10}", {"messages": new}, new[-1:])

    calls: dict[str, Callable[[int], Any]] = {
        "save": save,
        "load": lambda number: target.load(_name(number)),
        "list 10 checkpoints": lambda number: target.list(_name(number), 10),
    }
    if isinstance(target, OwnedClew):
        calls |= {
            "list the newest 50 threads": lambda _: target.newest(50),
            "search a thread's messages": lambda number: target.search(_name(number), "question 7"),
            "search threads by name": lambda number: target.search_threads(_name(number)),
            "clean up one thread": lambda number: target.cleanup(_name(number)),
        }
    return calls

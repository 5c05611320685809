"""W1: a growing conversation, saved every turn with its history.

At each mark the targets save some turns in turn, which is timed. Between marks each target fills its
store alone, and its bytes are counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.conversation import json_bytes, messages
from bench.measure import Call, Measure, in_turn
from bench.places import PACE
from bench.targets import Target
from bench.workloads.common import Opened, Results, Run

THREAD = "t"


@dataclass(frozen=True, slots=True)
class Sizes:
    marks: tuple[int, ...]
    window: int
    loads: int


SIZES = {
    "tiny": Sizes((4, 8), 3, 2),
    "usual": Sizes((20, 50, 200, 800), 100, 40),
    "full": Sizes((20, 50, 200, 800), 200, 100),
}


@dataclass(slots=True)
class Conversation:
    """A target and its position in the conversation."""

    opened: Opened
    said: list[Any]
    turn: int = 0
    written: list[tuple[int, float]] = field(default_factory=list)

    @property
    def target(self) -> Target:
        return self.opened.target

    async def save(self, _: int = 0) -> None:
        self.turn += 1
        end = 2 * self.turn
        await self.target.save(THREAD, {"messages": self.said[:end]}, self.said[end - 2 : end])

    async def fill(self, until: int, pace: float) -> float | None:
        """Save up to turn `until` and return the bytes written per turn."""
        turns = until - self.turn
        if turns <= 0:
            return None
        before = await self.opened.place.written()
        while self.turn < until:
            if pace:
                await asyncio.gather(self.save(), asyncio.sleep(pace))
            else:
                await self.save()
        after = await self.opened.place.written()
        return None if before is None or after is None else (after - before) / turns


async def run(run: Run) -> Results:
    sizes = SIZES[run.size]
    plain = messages(sizes.marks[-1])
    results: Results = []
    async with run.opened(run.targets) as opened:
        lines = [Conversation(each, [each.target.message(one) for one in plain]) for each in opened]
        keeping = [line for line in lines if line.target.name != "encoding"]
        for mark in sizes.marks:
            results += await _up_to(run, lines, keeping, mark, min(sizes.window, max(mark // 2, sizes.marks[0])))
        results.append(Measure.of("JSON", "B", "conversation", [float(json_bytes({"messages": plain}))]))
        results += await _reads(run, keeping, sizes.marks[-1], sizes.loads)
        for line in keeping:
            await _check(line, plain)
            if line.target.name == "clew" and await line.opened.grown() is not None:
                await line.target.compact()
                results.append(_bytes(f"stored after acompact, turn {mark}", line, await line.opened.grown()))
                await _check(line, plain)
    return results


async def _up_to(
    run: Run, lines: Sequence[Conversation], keeping: Sequence[Conversation], mark: int, window: int
) -> Results:
    results: Results = []
    for line in lines:
        run.report(f"{line.target.name}: up to turn {mark}")
        before = line.turn
        paced = run.size != "tiny" and line.target.name.startswith("clew")
        pace = PACE.get(run.storage, 0.0) if paced else 0.0
        written = await line.fill(mark - window, pace)
        if written is not None and line in keeping and line.turn - before >= 100:
            results.append(_bytes(f"written a turn, turns {before + 1} to {line.turn}", line, written))
    run.report(f"in turn: turns {mark - window + 1} to {mark}")
    calls: dict[str, Call] = {line.target.name: line.save for line in lines}
    computed: dict[str, list[float]] = {}
    results += Measure.times(f"save, turn {mark}", await in_turn(calls, rounds=window, computed=computed))
    results += Measure.times(f"processor time of a save, turn {mark}", computed)
    for line in keeping:
        if (stored := await line.opened.grown()) is not None:
            results.append(_bytes(f"stored, turn {mark}", line, stored))
    return results


async def _reads(run: Run, lines: Sequence[Conversation], turn: int, rounds: int) -> Results:
    """Measure loads of the head and listings, with the targets in turn."""
    results: Results = []
    warm: dict[str, Call] = {line.target.name: _call(line.target.load, THREAD) for line in lines}
    if run.storage != "memory":
        run.report("loads on new connections")
        results += Measure.times(f"load on a new connection, turn {turn}", await _cold(lines, max(2, rounds // 2)))
    run.report("loads on warm connections")
    results += Measure.times(f"load, turn {turn}", await in_turn(warm, rounds=rounds, warm_up=2))
    run.report("listings")
    listing: dict[str, Call] = {}
    for line in lines:
        if await run.try_to(line.target, "listing checkpoints", lambda line=line: line.target.list(THREAD, 10)):  # type: ignore[misc]
            listing[line.target.name] = _call(line.target.list, THREAD, 10)
    results += Measure.times(f"list 10 checkpoints, turn {turn}", await in_turn(listing, rounds=rounds, warm_up=2))
    return results


async def _cold(lines: Sequence[Conversation], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of first loads, each over another open connection."""
    taken: dict[str, list[float]] = {line.target.name: [] for line in lines}
    for _ in range(rounds):
        for line in lines:
            async with line.target.again() as fresh:
                begun = time.perf_counter()
                await fresh.load(THREAD)
                taken[line.target.name].append(time.perf_counter() - begun)
    return taken


async def _check(line: Conversation, plain: list[Any]) -> None:
    """Check that the loaded conversation equals the saved one."""
    found = (await line.target.load(THREAD))["messages"]
    assert list(found) == line.said[: 2 * line.turn], f"{line.target.name} did not keep the conversation"
    assert len(found) == len(plain)


def _call(method: Any, *args: Any) -> Call:
    return lambda _: method(*args)


def _bytes(what: str, line: Conversation, value: float | None) -> Measure:
    return Measure.of(what, "B", line.target.name, [float(value or 0)])

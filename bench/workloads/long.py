"""W7: one thread of 10,000 messages: save time relative to the raw write, and memory growth."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.conversation import messages
from bench.measure import Call, Measure, in_turn
from bench.targets import Target
from bench.workloads.common import Results, Run

THREAD = "long"


@dataclass(frozen=True, slots=True)
class Sizes:
    messages: int
    saves: int


SIZES = {"tiny": Sizes(40, 4), "usual": Sizes(10_000, 100), "full": Sizes(10_000, 300)}
PEER_SAVES = 6


async def run(run: Run) -> Results:
    sizes = SIZES[run.size]
    saves = min(PEER_SAVES, sizes.saves) if run.peers else sizes.saves
    plain = messages(sizes.messages // 2)
    begin = sizes.messages - 4 * saves
    results: Results = []
    async with run.opened(run.targets) as opened:
        calls: dict[str, Call] = {}
        for each in opened:
            target = each.target
            run.report(f"{target.name}: a thread of {sizes.messages:,} messages")
            said = [target.message(one) for one in plain]
            await target.save(THREAD, {"messages": said[:begin]}, said[:begin])
            before = _resident()
            # Half of the saves alone, to measure memory; half in turn with
            # the others, to measure time.
            for number in range(saves):
                if number == saves // 2:
                    # The first saves allocate buffers as large as the state.
                    before = _resident()
                await _save(target, said, begin + 2 * number + 2)
            if target.name != "encoding":
                grown = (_resident() - before) / (saves - saves // 2)
                results.append(
                    Measure.of(f"resident memory a save, {sizes.messages:,} messages", "B", target.name, [grown])
                )
            calls[target.name] = _saving(target, said, begin + 2 * saves)
        run.report(f"saves at {sizes.messages:,} messages, in turn")
        results += Measure.times(f"save, {sizes.messages:,} messages", await in_turn(calls, rounds=saves))
        results.append(Measure.of("resident memory of the process at most", "B", "conversation", [_peak()]))
    return results


async def _save(target: Target, said: list[Any], end: int) -> None:
    await target.save(THREAD, {"messages": said[:end]}, said[end - 2 : end])


def _saving(target: Target, said: list[Any], begin: int) -> Call:
    return lambda number: _save(target, said, begin + 2 * number + 2)


def _resident() -> float:
    """Return the resident memory of the process, if the system tells it."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * resource.getpagesize() if status.exists() else _peak()


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

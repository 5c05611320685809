"""W6: states that change other than by growing: bytes written relative to bytes changed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from bench.conversation import messages, prose
from bench.measure import Measure
from bench.targets import Target
from bench.targets.clew import Clew, WeighedClew
from bench.workloads.common import Opened, Results, Run

Step = tuple[dict[str, Any], list[Any]]
"""A state, and its parts that were not in the previous state."""


@dataclass(frozen=True, slots=True)
class Sizes:
    turns: int
    steps: int
    files: int


SIZES = {"tiny": Sizes(10, 3, 6), "usual": Sizes(200, 40, 100), "full": Sizes(800, 100, 100)}


def window(sizes: Sizes, said: list[Any]) -> Iterator[Step]:
    """A sliding window: two messages are added, two dropped."""
    kept = 2 * sizes.turns
    for start in range(0, 2 * sizes.steps + 2, 2):
        yield {"messages": said[start : start + kept]}, said[start + kept - 2 : start + kept]


def edit(sizes: Sizes, said: list[Any]) -> Iterator[Step]:
    """One message in the middle is replaced."""
    state = said[: 2 * sizes.turns]
    yield {"messages": list(state)}, state
    for number in range(sizes.steps):
        state[(number * 37 + sizes.turns) % len(state)] = said[2 * sizes.turns + number]
        yield {"messages": list(state)}, [said[2 * sizes.turns + number]]


def summary(sizes: Sizes, said: list[Any]) -> Iterator[Step]:
    """A summary in front replaces the two messages after it, and two messages are added."""
    kept = 2 * sizes.turns
    yield {"messages": said[:kept]}, said[:kept]
    for number in range(1, sizes.steps + 1):
        # A message that is not in the conversation yet serves as the summary.
        new = [said[-number], *said[kept + 2 * number - 2 : kept + 2 * number]]
        yield {"messages": [new[0], *said[2 * number : kept + 2 * number]]}, new


def files(sizes: Sizes, _: list[Any]) -> Iterator[Step]:
    """A dict of 4 KB files, one of which changes."""
    draw = random.Random(7)
    kept = {f"src/module_{number}.py": prose(draw, 4096) for number in range(sizes.files)}
    yield {"files": dict(kept)}, list(kept.values())
    for number in range(sizes.steps):
        name = f"src/module_{number * 31 % sizes.files}.py"
        kept[name] = prose(draw, 4096)
        yield {"files": dict(kept)}, [kept[name]]


def nested(sizes: Sizes, said: list[Any]) -> Iterator[Step]:
    """Message logs at depth three, one of which grows by a message."""
    logs = [said[start::20][: sizes.turns // 10] for start in range(20)]
    yield _agents(logs), said[: 2 * sizes.turns]
    for number in range(sizes.steps):
        new = said[2 * sizes.turns + number]
        logs[number % len(logs)] = [*logs[number % len(logs)], new]
        yield _agents(logs), [new]


def _agents(logs: list[list[Any]]) -> dict[str, Any]:
    return {
        "agents": [{"tasks": [{"log": log} for log in logs[start : start + 4]]} for start in range(0, len(logs), 4)]
    }


def notes(sizes: Sizes, _: list[Any]) -> Iterator[Step]:
    """Short lists at depth three, one of which grows by a note of 200 bytes, too
    small for a value of its own."""
    draw = random.Random(8)
    plan = [{"days": [{"notes": [prose(draw, 200)]} for _ in range(7)]} for _ in range(sizes.turns // 10)]
    yield {"plan": plan}, [plan]
    for number in range(sizes.steps):
        new = prose(draw, 200)
        plan[number % len(plan)]["days"][number % 7]["notes"].append(new)
        yield {"plan": plan}, [new]


SHAPES: dict[str, Callable[[Sizes, list[Any]], Iterator[Step]]] = {
    "window": window,
    "edit in the middle": edit,
    "summary in front": summary,
    "files": files,
    "nested lists": nested,
    "nested notes": notes,
}


async def run(run: Run) -> Results:
    sizes = SIZES[run.size]
    plain = messages(sizes.turns + 3 * sizes.steps + 2)
    results: Results = []
    classes = [WeighedClew if each is Clew else each for each in run.without("encoding", "clew update")]
    async with run.opened(classes) as opened:
        for each in opened:
            said = [each.target.message(one) for one in plain]
            for name, shape in SHAPES.items():
                run.report(f"{each.target.name}: {name}")
                save = partial(_steps, each, name, shape(sizes, said), results)
                await run.try_to(each.target, name, save)
    return results


async def _steps(opened: Opened, name: str, steps: Iterator[Step], results: Results) -> None:
    target: Target = opened.target
    thread = name.replace(" ", "-")
    state, new = next(steps)
    await target.save(thread, state, new)
    changed = 0
    before = await opened.place.written()
    sent = target.weighing.sent if isinstance(target, WeighedClew) else 0
    for state, new in steps:
        await target.save(thread, state, new)
        changed += sum(len(msgspec.msgpack.encode(one, enc_hook=_plain)) for one in new)
    after = await opened.place.written()
    if isinstance(target, WeighedClew):
        weighed = (target.weighing.sent - sent) / changed
        results.append(Measure.of(f"{name}: committed, of the bytes changed", "x", target.name, [weighed]))
    if before is not None and after is not None:
        results.append(
            Measure.of(f"{name}: written, of the bytes changed", "x", target.name, [(after - before) / changed])
        )


def _plain(message: Any) -> Any:
    """Return the text of a peer's message, without the peer's own overhead."""
    content = message.content
    return {
        "id": getattr(message, "id", None) or message.message_id,
        "role": getattr(message, "role", "user"),
        "content": content if isinstance(content, str) else content[0].text,
        "metadata": {"tokens": 100},
    }

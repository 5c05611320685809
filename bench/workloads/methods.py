"""W10: the other calls of the public API, on a thread of 200 checkpoints among 50 threads of a user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.conversation import messages
from bench.goals import BEFORE
from bench.measure import Call, Measure, in_turn
from bench.targets.clew import Clew, ClewUpdate
from bench.workloads.common import Results, Run

CONFIG = {"thread_id": "t", "user_id": "ana"}


@dataclass(frozen=True, slots=True)
class Sizes:
    checkpoints: int
    threads: int
    rounds: int


SIZES = {"tiny": Sizes(4, 3, 3), "usual": Sizes(200, 50, 100), "full": Sizes(200, 50, 400)}


async def run(run: Run) -> Results:
    sizes = SIZES[run.size]
    classes = [each for each in run.targets if issubclass(each, Clew) and not issubclass(each, ClewUpdate)]
    results: Results = []
    async with run.opened(classes) as opened:
        stores = [each.target for each in opened if isinstance(each.target, Clew)]
        for store in stores:
            run.report(f"{store.name}: filling the store")
            await _fill(store.checkpointer, sizes)
        for what, call in CALLS.items():
            run.report(what)
            calls: dict[str, Call] = {
                store.name: partial(call, store.checkpointer) for store in stores if await _has(store, call)
            }
            computed: dict[str, list[float]] = {}
            taken = await in_turn(calls, rounds=sizes.rounds, warm_up=min(5, sizes.rounds), computed=computed)
            results += Measure.times(what, taken)
            results += Measure.times(f"processor time: {what}", computed)
    return results


async def _has(store: Clew, call: Callable[[Any, int], Awaitable[Any]]) -> bool:
    """Return whether a store has the call: an earlier version may lack the method or one of its parameters."""
    if not store.name.endswith(BEFORE):
        return True
    try:
        await call(store.checkpointer, 0)
    except (AttributeError, TypeError):
        return False
    return True


async def _fill(memory: Any, sizes: Sizes) -> None:
    said = messages(sizes.checkpoints)
    for number in range(sizes.checkpoints):
        await memory.aput_checkpoint(CONFIG, _state(number), messages=[_message(said[number])])
    for number in range(sizes.threads):
        await memory.aput_state({"thread_id": f"other-{number}", "user_id": "ana"}, _state(number))


def _state(number: int) -> dict[str, Any]:
    return {"turn": number, "notes": [f"{each}: a note about a train to Lyon" for each in range(number, number + 10)]}


def _message(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name in ("role", "content")}


async def _save(memory: Any, number: int) -> None:
    message = {"role": "user", "content": f"question {number}: which train goes to Lyon?"}
    await memory.aput_checkpoint(CONFIG, _state(number), messages=[message])


async def _say(memory: Any, number: int) -> None:
    await memory.aput_messages(CONFIG, [{"role": "user", "content": f"question {number}: and to Paris?"}])


async def _take_turn(memory: Any, number: int) -> None:
    async with memory.aturn(CONFIG) as turn:
        turn.state["turn"] = number
        turn.say({"role": "user", "content": f"question {number}: and back?"})


async def _load_oldest(memory: Any, _: int) -> None:
    oldest = (await memory.alist_checkpoints(CONFIG, limit=100))[-1]
    await memory.aget_checkpoint(oldest.config)


CALLS: dict[str, Callable[[Any, int], Awaitable[Any]]] = {
    "save with a message": _save,
    "append a message": _say,
    "a turn": _take_turn,
    "load the head": lambda memory, _: memory.aget_checkpoint(CONFIG),
    "list 100 checkpoints and load the oldest": _load_oldest,
    "list the last 20 messages": lambda memory, _: memory.alist_messages(CONFIG, last=20),
    "search the thread": lambda memory, _: memory.alist_messages(CONFIG, search="lyon", limit=20),
    "search all threads": lambda memory, _: memory.asearch("lyon", user_id="ana", limit=20),
    "list 20 threads": lambda memory, _: memory.alist_threads({"user_id": "ana"}, limit=20),
    "fork": lambda memory, _: memory.afork(CONFIG),
}

"""W4: a LangGraph graph with LangGraph's own saver, with DeltaChannel, with Clew's saver, and
with a saver that does nothing.

The last one shows the time that LangGraph itself takes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.conversation import prose
from bench.measure import Call, Measure, in_turn
from bench.places import PACE, Memory, Place
from bench.workloads.common import Results, Run

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver


@dataclass(frozen=True, slots=True)
class Sizes:
    turns: int
    window: int


SIZES = {"tiny": Sizes(4, 2), "usual": Sizes(400, 20), "full": Sizes(400, 60)}
CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Running:
    """A compiled graph with one node that answers 300 bytes with 700, and its saver."""

    def __init__(self, name: str, saver: BaseCheckpointSaver[Any], place: Place, *, delta: bool) -> None:
        from langchain_core.messages import AIMessage, HumanMessage
        from langgraph.graph import START, StateGraph

        self.name = name
        self.saver = saver
        self.place = place
        draw = random.Random(1)
        self._question: Callable[[], Any] = lambda: HumanMessage(prose(draw, 300))
        builder: Any = StateGraph(_schema(delta))
        builder.add_node("answer", lambda _: {"messages": [AIMessage(prose(draw, 700))]})
        builder.add_edge(START, "answer")
        self.graph = builder.compile(checkpointer=saver)

    async def turn(self, _: int = 0) -> None:
        self.state = await self.graph.ainvoke({"messages": [self._question()]}, CONFIG)


def _schema(delta: bool) -> Any:
    from typing import Annotated, TypedDict

    from langgraph.channels import DeltaChannel
    from langgraph.graph import MessagesState
    from langgraph.graph.message import _messages_delta_reducer

    if not delta:
        return MessagesState
    # Created by a call, because LangGraph could not resolve the string annotations of a local class.
    made: Any = TypedDict
    reducer: Any = _messages_delta_reducer
    return made("DeltaState", {"messages": Annotated[list[Any], DeltaChannel(reducer)]})


async def run(run: Run) -> Results:
    from bench.targets.langgraph import Nowhere, open_saver
    from clew.adapters.langgraph import ClewSaver

    sizes = SIZES[run.size]
    results: Results = []
    async with AsyncExitStack() as stack:
        running = []
        for name in ("clew", "langgraph", "langgraph delta", "no saver"):
            place = await run.ground.place(run.storage) if name != "no saver" else Memory()
            if name == "no saver":
                saver: Any = Nowhere()
            elif name == "clew":
                saver = ClewSaver(place.url)
                await saver.checkpointer.asetup()
                stack.push_async_callback(saver.checkpointer.arelease)
            else:
                saver = await open_saver(place, run.storage, stack)
            run.code[name] = f"{type(saver).__module__}.{type(saver).__qualname__}"
            empty = await place.stored()
            running.append((Running(name, saver, place, delta=name == "langgraph delta"), empty))
        for mark in (sizes.window, sizes.turns):
            for each, _ in running if mark > sizes.window else ():
                # As in W1: the others never rewrite a row.
                pace = PACE.get(run.storage, 0.0) if each.name == "clew" and run.size != "tiny" else 0.0
                for turn in range(2 * sizes.window, mark):
                    run.report(f"{each.name}: the graph's turn {turn}")
                    await each.turn()
                    if pace:
                        await asyncio.sleep(pace)
            run.report(f"the graph's turns up to {mark}, in turn")
            calls: dict[str, Call] = {each.name: each.turn for each, _ in running}
            computed: dict[str, list[float]] = {}
            taken = await in_turn(calls, rounds=sizes.window, computed=computed)
            results += Measure.times(f"a turn of the graph, turn {mark}", taken)
            results += Measure.times(f"processor time of a turn of the graph, turn {mark}", computed)
        for each, empty in running:
            assert len(each.state["messages"]) == 2 * sizes.turns
            stored = await each.place.stored()
            if stored is not None and empty is not None:
                size = stored - (0 if run.storage == "sqlite" else empty)
                results.append(Measure.of(f"stored, turn {sizes.turns} of the graph", "B", each.name, [float(size)]))
    return results

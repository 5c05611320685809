"""Flows that only llmfy 0.11 has: they fan out, and two runs can start from the same checkpoint."""

from __future__ import annotations

import asyncio
from typing import Annotated, TypedDict

from llmfy import END, START, FlowEngine
from llmfy.flow_engine.execution.send import Send

import clew
from clew.adapters.llmfy import ClewCheckpointer
from tests.adapters.llmfy.support import Flow, append, user
from tests.checkpointer.support import run


class State(TypedDict):
    done: Annotated[list[int], append]


async def plan(state):
    return {}


async def work(state):
    return {"done": [state["number"]]}


def test_branches_that_a_run_sends_out_are_one_checkpoint(store):
    async def go():
        engine = FlowEngine(State, checkpointer=ClewCheckpointer(store.open(), on_conflict="reject"))
        engine.add_node("plan", plan)
        engine.add_node("work", work)
        engine.add_edge(START, "plan")
        engine.add_conditional_edges("plan", lambda state: [Send("work", {"number": n}) for n in range(5)], ["work"])
        engine.add_edge("work", END)
        engine.build()
        await engine.invoke({"done": []}, session_id="s")
        latest = await engine.get_checkpoint("s")
        assert latest is not None
        assert sorted(latest.state["done"]) == [0, 1, 2, 3, 4]
        assert latest.metadata.dispatch_id is not None

    run(go())


async def two_at_once(checkpointer, on_conflict):
    """Two runs that start from the same checkpoint and save one after the other."""
    flows = [Flow(ClewCheckpointer(checkpointer, on_conflict=on_conflict)) for _ in range(2)]
    await flows[0].engine.invoke(user("hi"), session_id="s")
    flows[0].meet = flows[1].meet = asyncio.Barrier(2)
    return await asyncio.gather(
        *(flow.engine.invoke(user(f"run {at}"), session_id="s") for at, flow in enumerate(flows)),
        return_exceptions=True,
    )


def test_two_concurrent_runs_are_both_kept(store):
    async def go():
        checkpointer = store.open()
        results = await two_at_once(checkpointer, "branch")
        assert not [each for each in results if isinstance(each, BaseException)]
        states = [each.state for each in await checkpointer.aget_history("s", limit=None)]
        assert all(result["messages"][-1].content == "third says hello" for result in results)
        assert sum(state["visited"] == 2 * ["first", "second", "third"] for state in states) == 2
        assert len(await checkpointer.alist_messages("s", branches="all")) == 4 + 2 * 4

    run(go())


def test_the_later_of_two_concurrent_runs_is_refused_on_request(store):
    async def go():
        results = await two_at_once(store.open(), "reject")
        (refused,) = [each for each in results if isinstance(each, BaseException)]
        assert isinstance(refused, clew.ConflictError) or isinstance(refused.__cause__, clew.ConflictError)

    run(go())


class Talk(TypedDict):
    messages: list[dict[str, str]]


def test_concurrent_runs_with_the_same_text_are_both_recorded(store):
    async def go():
        checkpointer = store.open()
        meet = asyncio.Barrier(3)

        async def answer(state):
            await meet.wait()
            return {"messages": [*state["messages"], {"role": "assistant", "content": "hello"}]}

        engine = FlowEngine(Talk, checkpointer=ClewCheckpointer(checkpointer))
        engine.add_node("answer", answer)
        engine.add_edge(START, "answer")
        engine.add_edge("answer", END)
        engine.build()
        hi = {"messages": [{"role": "user", "content": "hi"}]}
        await asyncio.gather(*(engine.invoke(hi, session_id="s") for _ in range(3)))
        said = [each.text() for each in await checkpointer.alist_messages("s", branches="all")]
        assert sorted(said) == 3 * ["hello"] + 3 * ["hi"]

    run(go())

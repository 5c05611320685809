"""An agent in its own process, to be killed.

`python -m tests.adapters.agentflow.worker <url> <how> <input as JSON>` prints each step. After it
prints that it hangs, it waits forever.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from clew.adapters.agentflow import ClewCheckpointer
from clew.adapters.agentflow.framework import StateGraph
from tests.adapters.agentflow.support import agent, line, said

CONFIG = {"thread_id": "trip", "user_id": "ann"}


class Adapter(ClewCheckpointer[Any]):
    """Makes a tool wait until another's result is recorded."""

    has_recorded = asyncio.Event()

    async def aput_tool_result(self, config: dict[str, Any], tool_call_id: str, result: dict[str, Any]) -> bool:
        done = await super().aput_tool_result(config, tool_call_id, result)
        self.has_recorded.set()
        return done


def tell(text: str) -> None:
    os.write(1, text.encode() + b"\n")


def node(name: str, *, hangs: bool) -> Any:
    async def work(state: Any, config: Any) -> Any:
        tell(name)
        if hangs:
            await asyncio.Event().wait()
        return said(name, "assistant")

    work.__name__ = name
    return work


def tool(name: str, *, hangs: bool) -> Any:
    async def work() -> str:
        if hangs:
            await ADAPTER.has_recorded.wait()
        tell(name)
        if hangs:
            await asyncio.Event().wait()
        return f"{name} done"

    work.__name__ = name
    return work


def graph(hangs: bool) -> Any:
    if "tools" in sys.argv[2]:
        return agent(tool("charge", hangs=False), tool("ship", hangs=hangs), kind=StateGraph)
    return line(node("one", hangs=False), node("two", hangs=hangs), node("three", hangs=False), kind=StateGraph)


async def main() -> None:
    app = graph(hangs="hang" in sys.argv[2]).compile(checkpointer=ADAPTER)
    come_in = {"messages": [said(text) for text in json.loads(sys.argv[3])]}
    if "stream" in sys.argv[2]:
        async for _ in app.astream(come_in, CONFIG):
            pass
    else:
        await app.ainvoke(come_in, CONFIG)
    state = await ADAPTER.aget_state(CONFIG)
    assert state is not None
    tell(f"status {state.execution_meta.status.value}")


if __name__ == "__main__":
    ADAPTER = Adapter(sys.argv[1])
    asyncio.run(main())

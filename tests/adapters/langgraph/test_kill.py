"""A graph whose process is killed goes on where it was."""

from __future__ import annotations

import signal

from langchain_core.messages import AIMessage

from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.support import config
from tests.checkpointer.support import python, start

GRAPH = """
import sys
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from clew.adapters.langgraph import ClewSaver

path, killed = sys.argv[1], sys.argv[2] == "killed"

def step(name, waits=False):
    def node(state):
        print(name + chr(10), end="", flush=True)  # in one piece: another node says its name at the same time
        if waits and killed:
            sys.stdin.read()
        return {"messages": [AIMessage(name, id=name)]}
    return node

builder = StateGraph(MessagesState)
builder.add_node("first", step("first"))
builder.add_node("beside", step("beside"))
builder.add_node("second", step("second", waits=True))
builder.add_node("third", step("third"))
builder.add_edge(START, "first")
builder.add_edge(START, "beside")
builder.add_edge("first", "second")
builder.add_edge("second", "third")
with ClewSaver(f"sqlite:///{path}") as saver:
    graph = builder.compile(checkpointer=saver)
    state = graph.invoke({"messages": []} if killed else None, {"configurable": {"thread_id": "t"}}, durability="sync")
    print([message.content for message in state["messages"]])
"""


def test_a_killed_run_goes_on_with_the_node_that_it_was_killed_in(tmp_path):
    path = tmp_path / "agent.db"
    process = start(GRAPH, path, "killed")
    try:
        ran = {process.stdout.readline().strip() for _ in range(3)}
        assert ran == {"first", "beside", "second"}
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    assert process.returncode == -signal.SIGKILL
    # Nothing that was saved runs again.
    said = python(GRAPH, path, "resumed").splitlines()
    assert said == ["second", "third", "['beside', 'first', 'second', 'third']"]
    with ClewSaver(f"sqlite:///{path}") as saver:
        assert saver.checkpointer.verify().ok
        found = saver.get_tuple(config())
        assert found is not None
        assert found.checkpoint["channel_values"]["messages"][-1] == AIMessage("third", id="third")

"""A graph continues where it was after its process and server are killed."""

from __future__ import annotations

import signal

import pytest
from langchain_core.messages import AIMessage

from clew.adapters.langgraph import ClewSaver
from clew.testing.servers import PostgresServer, RedisServer
from tests.adapters.langgraph.support import config
from tests.checkpointer.support import python, start

GRAPH = """
import sys
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from clew.adapters.langgraph import ClewSaver

url, killed = sys.argv[1], sys.argv[2] == "killed"

def step(name, waits=False):
    def node(state):
        print(name + chr(10), end="", flush=True)  # one write: another node prints at the same time
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
with ClewSaver(url) as saver:
    graph = builder.compile(checkpointer=saver)
    state = graph.invoke({"messages": []} if killed else None, {"configurable": {"thread_id": "t"}}, durability="sync")
    print([message.content for message in state["messages"]])
"""


@pytest.fixture(params=["sqlite", "postgres", pytest.param("redis", marks=pytest.mark.full)])
def place(request, tmp_path):
    """The URL of a store and its server, if there is one."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/agent.db", None
        return
    # Redis acknowledges before it writes to disk unless told otherwise.
    settings = {"appendonly": "yes", "appendfsync": "always"}
    with PostgresServer() if request.param == "postgres" else RedisServer(settings) as server:
        yield server.url, server


def test_a_killed_run_goes_on_with_the_node_that_it_was_killed_in(place):
    url, server = place
    process = start(GRAPH, url, "killed")
    try:
        ran = {process.stdout.readline().strip() for _ in range(3)}
        assert ran == {"first", "beside", "second"}
    finally:
        process.kill()
        if server is not None:
            server.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    assert process.returncode == -signal.SIGKILL
    if server is not None:
        server.start()
    # No saved step runs again.
    said = python(GRAPH, url, "resumed").splitlines()
    assert said == ["second", "third", "['beside', 'first', 'second', 'third']"]
    with ClewSaver(url) as saver:
        assert saver.checkpointer.verify().ok
        found = saver.get_tuple(config())
        assert found is not None
        assert found.checkpoint["channel_values"]["messages"][-1] == AIMessage("third", id="third")

"""A graph continues in a fork as it would have continued in the source."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.types import Command, interrupt

import clew
from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.support import Log, chat, config, say, texts


class Waiting:
    """Graphs that wait for an answer, and a log of what they ran."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.ran: list[str] = []

    def pay(self, state: Log) -> dict[str, Any]:
        self.ran.append("pay")
        return {"log": ["paid"]}

    def ask(self, state: Log) -> dict[str, Any]:
        return {"log": [f"they said {interrupt('really?')}"]}

    def ask_twice(self, state: Log) -> dict[str, Any]:
        return {"log": [interrupt("first?"), interrupt("second?")]}

    def side_by_side(self) -> Any:
        builder: Any = StateGraph(Log)
        builder.add_node("pay", self.pay).add_node("ask", self.ask).add_edge(START, "pay").add_edge(START, "ask")
        return builder.compile(checkpointer=self.saver)

    def asked_twice(self) -> Any:
        builder: Any = StateGraph(Log)
        return builder.add_node("ask", self.ask_twice).add_edge(START, "ask").compile(checkpointer=self.saver)

    def inside(self) -> Any:
        inner: Any = StateGraph(Log)
        inner.add_node("pay", self.pay).add_node("ask", self.ask).add_edge(START, "pay").add_edge("pay", "ask")
        builder: Any = StateGraph(Log)
        return builder.add_node("inner", inner.compile()).add_edge(START, "inner").compile(checkpointer=self.saver)


def wait_and_answer(saver: Any, kind: str, fork: Any) -> dict[str, Any]:
    """Return a waiting graph's state and what it does with the answer, in the thread that `fork`
    returns.
    """
    graphs = Waiting(saver)
    graph = getattr(graphs, kind)()
    graph.invoke({"log": ["begun"]}, config())
    if kind == "asked_twice":
        graph.invoke(Command(resume="one"), config())
    graphs.ran.clear()
    thread = fork()
    state = graph.get_state(thread, subgraphs=True)
    seen: dict[str, Any] = {
        "next": state.next,
        "asked": [each.value for each in state.interrupts],
        "inside": [each.state and each.state.values for each in state.tasks],
    }
    seen["answered"] = graph.invoke(Command(resume="yes"), thread)
    return {**seen, "ran again": graphs.ran}


@pytest.mark.parametrize("kind", ["side_by_side", "asked_twice"])
def test_a_graph_that_waits_waits_in_a_fork_too(saver, kind):
    def fork() -> Any:
        return {"configurable": saver.checkpointer.fork("t", "fork")}

    assert wait_and_answer(saver, kind, fork) == wait_and_answer(InMemorySaver(), kind, config)


@pytest.mark.parametrize("kind", ["side_by_side", "asked_twice", "inside"])
def test_a_fork_by_the_saver_includes_waiting_subgraphs(saver, kind):
    expected = wait_and_answer(InMemorySaver(), kind, config)
    assert wait_and_answer(saver, kind, lambda: saver.fork(config(), "fork")) == expected
    waits = Waiting(saver)
    head = waits.inside().get_state(config()).config
    assert saver.fork(head, "by its id")["configurable"] == {"thread_id": "by its id"}
    assert [each.config["configurable"]["checkpoint_id"] for each in saver.list(config("by its id"))] == [
        each.config["configurable"]["checkpoint_id"] for each in saver.list(config())
    ]


def remembering(saver: Any) -> Any:
    """A graph whose node asks a sub-agent with its own memory how much it remembers."""
    inner: Any = StateGraph(Log)
    agent = inner.add_node("hear", lambda state: {"log": ["heard"]}).add_edge(START, "hear").compile(checkpointer=True)
    builder: Any = StateGraph(Log)
    builder.add_node("ask", lambda state: {"log": [str(len(agent.invoke({"log": ["said"]})["log"]))]})
    return builder.add_edge(START, "ask").compile(checkpointer=saver)


def test_a_sub_agent_remembers_in_the_fork_what_it_knew_there(saver):
    graph = remembering(saver)
    for _ in range(3):
        graph.invoke({"log": []}, config())
    old = [each for each in graph.get_state_history(config()) if not each.next]
    assert [each.values["log"] for each in old] == [["2", "4", "6"], ["2", "4"], ["2"]]
    assert graph.invoke({"log": []}, saver.fork(config(), "now"))["log"] == ["2", "4", "6", "8"]
    assert graph.invoke({"log": []}, saver.fork(old[1].config, "then"))["log"] == ["2", "4", "6"]
    assert graph.invoke({"log": []}, saver.fork(old[2].config, "at first"))["log"] == ["2", "4"]
    assert graph.get_state(config()).values["log"] == ["2", "4", "6"]


def test_a_fork_at_an_old_checkpoint_has_nothing_of_what_came_after_it(saver):
    graph = chat(saver)
    for text in ("one", "two", "three"):
        graph.invoke(say(text), config(user_id="ana"))
    history = list(graph.get_state_history(config(user_id="ana")))
    middle = next(each for each in history if texts(each.values) == ["one", "answer to one"] and not each.next)
    graph.invoke(say("another two"), middle.config)
    fork = saver.fork(middle.config, "fork")
    assert fork["configurable"] == {"thread_id": "fork", "user_id": "ana"}
    assert [each.config["configurable"]["checkpoint_id"] for each in graph.get_state_history(fork)] == [
        each.config["configurable"]["checkpoint_id"] for each in history[history.index(middle) :]
    ]
    thread = {"thread_id": "fork", "user_id": "ana"}
    assert [each.text() for each in saver.checkpointer.list_messages(thread)] == ["one", "answer to one"]
    assert texts(graph.invoke(say("elsewhere"), fork)) == ["one", "answer to one", "elsewhere", "answer to elsewhere"]
    assert saver.checkpointer.verify().ok


def test_a_fork_before_a_node_that_ran_runs_it_again(saver):
    waits = Waiting(saver)
    graph = waits.side_by_side()
    graph.invoke({"log": ["begun"]}, config())
    graph.invoke(Command(resume="yes"), config())
    first = next(each for each in graph.get_state_history(config()) if set(each.next) == {"ask", "pay"})
    waits.ran.clear()
    fork = saver.fork(first.config, "fork")
    assert [each.value for each in graph.invoke(None, fork)["__interrupt__"]] == ["really?"]
    assert waits.ran == ["pay"]
    assert sorted(graph.invoke(Command(resume="no"), fork)["log"]) == ["begun", "paid", "they said no"]


def test_forks_of_missing_threads_and_into_existing_ones_are_refused(saver):
    graph = chat(saver)
    graph.invoke(say("one"), config())
    graph.invoke(say("one"), config("taken"))
    nowhere = config(checkpoint_id="1f000000-0000-6000-8000-000000000000")
    for asked, target in ((config("none"), "fork"), (config(), "taken"), (nowhere, "fork")):
        with pytest.raises(clew.ConflictError):
            saver.fork(asked, target)
    graph.invoke(say("one"), config("of ana", user_id="ana"))
    with pytest.raises(clew.PermissionDeniedError):
        saver.fork(config("of ana", user_id="bob"), "fork")
    with pytest.raises(clew.ConfigError, match="checkpoint_ns"):
        saver.fork(config(checkpoint_ns="inner", checkpoint_id="x"), "fork")
    assert saver.checkpointer.get_thread("fork") is None
    assert asyncio.run(saver.afork(config()))["configurable"]["thread_id"]
    assert len(saver.checkpointer.list_threads({})) == 3, "the third is the last fork"


class Deltas(TypedDict):
    messages: Annotated[list[Any], DeltaChannel(_messages_delta_reducer, snapshot_frequency=100)]
    others: Annotated[list[str], operator.add]


def delta_chat(saver: Any) -> Any:
    def answer(state: Deltas) -> dict[str, Any]:
        said = len(state["messages"])
        return {"messages": [AIMessage(f"answer {said}", id=f"a{said}")]}

    builder: Any = StateGraph(Deltas)
    return builder.add_node("answer", answer).add_edge(START, "answer").compile(checkpointer=saver)


SAID = ["q0", "answer 1", "q1", "answer 3", "q2", "answer 5"]


@pytest.fixture
def delta_graph(saver):
    graph = delta_chat(saver)
    for turn in range(3):
        graph.invoke(say(f"q{turn}"), config())
    return graph


def test_delta_channels_of_a_fork_are_rebuilt_from_its_source(saver, delta_graph):
    saver.checkpointer.fork("t", "fork")
    delta_graph.invoke(say("only there"), config())
    saver.checkpointer.fork("fork", "fork of the fork")
    for name in ("fork", "fork of the fork"):
        assert texts(delta_graph.get_state(config(name)).values) == SAID
        assert texts(delta_graph.invoke(say("here"), config(name))) == [*SAID, "here", "answer 7"]
        again = delta_chat(ClewSaver(saver.checkpointer))
        assert texts(again.invoke(say("more"), config(name))) == [*SAID, "here", "answer 7", "more", "answer 9"]


def test_a_fork_without_its_source_raises_an_error_instead_of_looking_empty(saver, delta_graph):
    saver.checkpointer.fork("t", "fork")
    copied = saver.fork(config(), "copied")
    saver.delete_thread("t")
    with pytest.raises(clew.CorruptRecordError, match=r"messages.*prune.*fork"):
        delta_graph.get_state(config("fork"))
    assert texts(delta_graph.invoke(say("on"), copied)) == [*SAID, "on", "answer 7"]


def test_a_cut_history_raises_an_error_instead_of_looking_empty(saver, delta_graph):
    saver.checkpointer.cleanup(clew.RetentionPolicy(max_history=1))
    with pytest.raises(clew.CorruptRecordError, match="messages"):
        delta_graph.get_state(config())


def test_a_fork_at_an_old_checkpoint_has_its_delta_channels_as_they_were(saver, delta_graph):
    for old in list(delta_graph.get_state_history(config())):
        said = texts(old.values)
        fork = saver.fork(old.config, f"after {len(said)} before {old.next}")
        assert texts(delta_graph.get_state(fork).values) == said
        expected = texts(delta_graph.invoke(say("here"), fork))
        assert expected[: len(said) + 1] == [*said, "here"]
        assert texts(delta_graph.get_state(fork).values) == expected

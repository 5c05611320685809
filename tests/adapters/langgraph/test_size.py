"""A long conversation takes space in proportion to its messages, not to their square."""

from __future__ import annotations

import importlib
import random
import string
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from clew.adapters.langgraph import ClewSaver
from clew.adapters.langgraph.changes import dump
from tests.adapters.langgraph.support import config
from tests.checkpointer.support import SpyStorage, written

LENGTH = 500


class Prose:
    """Sentences with repeated words, as in real prose."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        self._words = [
            "".join(self._random.choices(string.ascii_lowercase, k=length % 8 + 2)) for length in range(3000)
        ]

    def __call__(self) -> str:
        return " ".join(self._random.choices(self._words, k=LENGTH // 4))[:LENGTH]


def conversation(saver: ClewSaver, turns: int, prose: Prose) -> None:
    builder: Any = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {"messages": [AIMessage(prose())]})
    builder.add_edge(START, "answer")
    graph = builder.compile(checkpointer=saver)
    for _ in range(turns):
        graph.invoke({"messages": [HumanMessage(prose())]}, config())


def test_400_turns_of_500_byte_messages_take_under_3_mb_on_disk(tmp_path):
    with ClewSaver(f"sqlite:///{tmp_path}/agent.db") as saver:
        conversation(saver, 400, Prose())
        assert saver.checkpointer.size("t") == 1200
        assert len(saver.checkpointer.get_state("t")["messages"]) == 800
    taken = sum(file.stat().st_size for file in Path(tmp_path).iterdir())
    assert taken < 3_000_000, f"{taken:,} bytes"


def test_a_turn_brings_as_much_late_as_early(store):
    spies: list[SpyStorage] = []

    def spy(storage: Any) -> Any:
        spies.append(SpyStorage(storage))
        return spies[-1]

    saver = ClewSaver(store.open(spy))
    prose = Prose()
    sizes = []
    for _ in range(6):
        before = len(spies[0].commits)
        conversation(saver, 20, prose)
        commits = [commit for commit in spies[0].commits[before:] if not commit.merge]
        sizes.append(
            sum(map(written, commits)) + sum(len(each.data) for commit in commits for each in commit.attachments)
        )
    assert sizes[-1] < 1.15 * sizes[0], sizes


def test_a_message_that_did_not_change_is_not_serialized_again(checkpointer, monkeypatch):
    stored: list[Any] = []
    module: Any = importlib.import_module("clew.adapters.langgraph.writer")
    real = module.stored

    def spying(value: Any, *args: Any) -> Any:
        if type(value) is list and value and isinstance(value[0], HumanMessage | AIMessage):
            stored.extend(value)
        return real(value, *args)

    monkeypatch.setattr(module, "stored", spying)
    conversation(ClewSaver(checkpointer), 10, Prose())
    in_states_and_writes = 2 * 20
    assert len(stored) <= in_states_and_writes


def test_a_dump_tells_apart_what_would_be_stored_differently():
    one = HumanMessage("a", id="1")
    assert dump([one]) == dump([HumanMessage("a", id="1")])
    different: list[list[Any]] = [
        [HumanMessage("b", id="1")],
        [AIMessage("a", id="1")],
        [HumanMessage("a", id="1", additional_kwargs={"x": 1})],
        [HumanMessage("a", id="1", extra_field=1)],
        [("a", "1")],
        [["a", "1"]],
        [one, one],
        [],
    ]
    dumps = [dump(value) for value in different]
    assert len({*dumps, dump([one])}) == len(different) + 1
    assert None not in dumps
    one.additional_kwargs["in place"] = True
    assert dump([one]) != dump([HumanMessage("a", id="1")])
    assert dump([object()]) is None

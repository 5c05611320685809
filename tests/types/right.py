"""A program with the types of states. mypy and pyright accept it, and `assert_type` says what they see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import clew


@dataclass
class Trip:
    city: str
    nights: int = 1


class Chat(TypedDict):
    messages: list[str]


def of_a_class() -> None:
    memory = clew.connect("memory://", state_type=Trip, retry_for=2.0)
    assert_type(memory, clew.Checkpointer[Trip])
    assert_type(memory.put_state("t", Trip("Lisbon")), Trip)
    assert_type(memory.get_state("t"), Trip | None)
    assert_type(memory.get_state_cache("t"), Trip | None)
    saved = memory.put_checkpoint("t", Trip("Porto"), node_name="plan")
    assert_type(saved, clew.Checkpoint[Trip])
    assert_type(saved.state, Trip)
    assert_type(memory.update_state("t", set={"nights": 2}), clew.Checkpoint[Trip])
    assert_type(memory.get_checkpoint("t", known=saved), clew.Checkpoint[Trip] | None)
    assert_type([each.state.city for each in memory.get_history("t")], list[str])
    with memory.turn("t", begin=Trip("Faro")) as turn:
        assert_type(turn, clew.Turn[Trip])
        assert_type(turn.state.city, str)
        assert_type(turn.checkpoint().state, Trip)
    with memory.turn("t", begin=lambda: Trip("Faro")) as turn:
        turn.state = Trip("Evora")
    memory.release()


def of_a_typed_dict() -> None:
    memory = clew.connect("memory://", state_type=Chat)
    assert_type(memory, clew.Checkpointer[Chat])
    memory.put_state("t", {"messages": ["hello"]})
    assert_type(memory.get_state("t"), Chat | None)
    with memory.turn("t", begin={"messages": []}) as turn:
        turn.state["messages"].append("hi")
    for each in memory.get_history("t"):
        assert_type(each.state, Chat)
    memory.release()


def without_a_type() -> None:
    memory = clew.connect()
    assert_type(memory, clew.Checkpointer[Any])
    print(memory.get_state("t")["anything"].goes)
    assert_type(memory.get_state("t"), Any)
    assert_type(memory.get_state_cache("t"), Any)
    memory.put_state("t", {"n": 1})
    memory.put_state("t", [1, 2])
    with memory.turn("t", begin=dict) as turn:
        turn.state["n"] += 1


def named_classes() -> None:
    assert_type(clew.InMemoryCheckpointer(state_type=Trip), clew.InMemoryCheckpointer[Trip])
    assert_type(clew.SQLiteCheckpointer("x.db", state_type=Trip).get_state("t"), Trip | None)
    assert_type(clew.SQLiteCheckpointer("x.db", synchronous="NORMAL", retry_for=1), clew.SQLiteCheckpointer[Any])
    assert_type(clew.PgCheckpointer("postgresql://x", state_type=Chat).get_state("t"), Chat | None)
    assert_type(clew.RedisCheckpointer("redis://x", state_type=Chat, ttl=0).get_state("t"), Chat | None)
    assert_type(clew.DistributedCheckpointer("memory://", state_type=Trip).get_state("t"), Trip | None)


def results_of_sync_methods(memory: clew.InMemoryCheckpointer) -> None:
    assert_type(memory.put_checkpoint("t", {}), clew.Checkpoint[Any])
    assert_type(memory.get_checkpoint("t"), clew.Checkpoint[Any] | None)
    assert_type(memory.list_checkpoints("t", limit=3), list[clew.CheckpointInfo])
    assert_type(memory.exists("t"), bool)
    assert_type(memory.list_messages("t", search="x"), list[clew.Message])
    assert_type(memory.get_thread("t"), clew.ThreadInfo | None)
    assert_type(memory.stats(), clew.Stats)
    assert_type(memory.fork("t"), clew.Config)
    assert_type(memory.copy_thread("t", "u"), clew.Config)
    assert_type(memory.size(), int)
    assert_type(memory.update_state("t", append={"a": [1]}), clew.Checkpoint[Any])
    assert_type(memory.lease("t"), clew.Lease)


def takes_any(memory: clew.Checkpointer) -> Any:
    config: clew.Config = {"thread_id": "t", "user_id": clew.ANY_USER}
    inferred = {"thread_id": "t", "user_id": "ana"}
    memory.put_state(inferred, {"n": 1})
    memory.put_state({**memory.get_history(config)[0].config, "user_id": "ana"}, {"n": 1})
    return memory.get_state(config)["n"]


def load(memory: clew.InMemoryCheckpointer, config: clew.Config) -> Any:
    """A function of an application."""
    return memory.get_state(config)


def takes_returned_configs(memory: clew.InMemoryCheckpointer) -> None:
    saved = memory.put_checkpoint("t", {"n": 1})
    assert_type(saved.config, clew.Config)
    load(memory, saved.config)
    load(memory, saved.metadata.config)
    load(memory, memory.list_checkpoints("t")[0].config)
    load(memory, memory.fork(saved.config))
    load(memory, memory.copy_thread(saved.config, "u"))
    memory.diff(saved.config, memory.rewind(saved.config).config)


class OfAProvider:
    """A message of another library, such as LangChain's BaseMessage."""


def takes_messages_of_providers(memory: clew.InMemoryCheckpointer, messages: list[OfAProvider]) -> None:
    memory.put_messages("t", messages)
    memory.put_checkpoint("t", {"n": 1}, messages=messages)
    memory.update_state("t", set={"n": 2}, messages=messages)
    with memory.turn("t") as turn:
        turn.say(messages[0])
        turn.checkpoint(messages=messages)


async def in_async_code(memory: clew.Checkpointer[Trip], other: clew.BaseCheckpointer) -> None:
    assert_type(await memory.aget_state("t"), Trip | None)
    assert_type(await memory.aput_state("t", Trip("Lisbon")), Trip)
    assert_type(await memory.aget_checkpoint("t"), clew.Checkpoint[Trip] | None)
    assert_type(await memory.aget_history("t"), list[clew.Checkpoint[Trip]])
    async with memory.aturn("t", begin=Trip("Faro")) as turn:
        assert_type(turn.state, Trip)
        assert_type((await turn.acheckpoint()).state, Trip)
    assert_type(await other.aget_state("t"), Any)
    assert_type(await memory.alist_messages("t"), list[clew.Message])
    assert_type(memory.list_messages("t", as_="openai"), clew.Conversation)

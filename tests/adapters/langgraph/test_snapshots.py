"""Snapshots of states: a load from one equals a load from the store, and changes to it don't leak
back.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import clew
from clew.adapters.langgraph import ClewSaver
from clew.adapters.langgraph.changes import Memory, dump
from clew.adapters.langgraph.layout import BOOK
from clew.adapters.langgraph.snapshots import AT_ONCE, MAX_PARTS, Snapshot, appended, part_of
from clew.codec.chunks import CHUNK
from clew.codec.packer import Packer
from clew.codec.registry import DEFAULT_REGISTRY
from tests.adapters.langgraph.support import chat, config, say, texts
from tests.adapters.langgraph.test_values import put
from tests.checkpointer.support import SpyStorage

PACKER = Packer(DEFAULT_REGISTRY)

plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
odd = plain | st.tuples(plain, plain) | st.binary(max_size=3) | st.sets(st.integers(), max_size=3) | st.just(10**30)
mappings = st.dictionaries(st.text(max_size=5), plain, max_size=2)
blocks = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=9)}), max_size=2)
calls = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(max_size=3), "args": mappings, "id": st.text(max_size=3), "type": st.just("tool_call")}
    ),
    max_size=2,
)
usage = st.none() | st.fixed_dictionaries(
    {"input_tokens": st.integers(0, 9), "output_tokens": st.integers(0, 9), "total_tokens": st.integers(0, 18)}
)
common: dict[str, Any] = {
    "content": st.text(max_size=20) | blocks,
    "id": st.none() | st.text(min_size=1, max_size=5),
    "name": st.none() | st.text(max_size=3),
    "additional_kwargs": mappings,
    "response_metadata": mappings,
}


def made(cls: type[BaseMessage], **more: Any) -> st.SearchStrategy[BaseMessage]:
    # Each field is either given or left at its default.
    required = {name: strategy for name, strategy in {**common, **more}.items() if name in ("content", "tool_call_id")}
    required |= {name: more[name] for name in ("role", "name") if name in more}
    optional = {name: strategy for name, strategy in {**common, **more}.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: cls(**fields))


def any_message(artifact: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        made(HumanMessage),
        made(SystemMessage),
        made(AIMessage, tool_calls=calls, usage_metadata=usage),
        made(AIMessageChunk, tool_calls=calls, usage_metadata=usage),
        made(
            ToolMessage,
            tool_call_id=st.text(max_size=3),
            artifact=artifact,
            status=st.sampled_from(["success", "error"]),
        ),
        made(ChatMessage, role=st.text(max_size=3)),
        made(FunctionMessage, name=st.text(max_size=3)),
        st.text(min_size=1, max_size=3).map(lambda name: RemoveMessage(id=name)),
    )


messages = any_message(odd)
strangers = made(HumanMessage, an_extra_field=plain) | odd
lists = st.lists(messages, max_size=5) | st.lists(messages | strangers, max_size=5)


def seen(value: Any) -> Any:
    """Everything observable in `value`: types, contents, order, and pydantic's own attributes."""
    if isinstance(value, BaseMessage):
        noted = value.__pydantic_extra__, value.__pydantic_private__
        return (
            type(value),
            seen(value.__dict__),
            sorted(value.model_fields_set),
            type(value.model_fields_set),
            seen(noted),
        )
    if isinstance(value, dict):
        return type(value), [(seen(key), seen(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [seen(each) for each in value]
    return type(value), repr(value)


def parts(value: Any) -> list[int]:
    """The ids of all mutable objects in `value`."""
    if isinstance(value, BaseMessage):
        inner: list[Any] = [value.__dict__, value.__pydantic_extra__, value.model_fields_set]
    elif isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, list | tuple):
        inner = list(value)
    else:
        inner = []
    own = [id(value)] if isinstance(value, BaseMessage | dict | list | set) else []
    return own + [place for each in inner for place in parts(each)]


@settings(max_examples=100, deadline=None)
@given(lists)
def test_a_snapshot_loads_what_the_store_would_load(value):
    stored = PACKER.unpack(PACKER.pack(value))
    for source in (value, stored):
        kept = part_of(source, PACKER)
        assert seen(kept.fresh(PACKER)) == seen(stored)
        assert seen(kept.fresh(PACKER)) == seen(stored)


@settings(max_examples=60, deadline=None)
@given(lists)
def test_nothing_mutable_is_shared(value):
    kept = part_of(value, PACKER)
    one, other = kept.fresh(PACKER), kept.fresh(PACKER)
    assert not {*parts(one)} & {*parts(other)}
    assert not {*parts(one)} & {*parts(value)}


@settings(max_examples=60, deadline=None)
@given(st.lists(any_message(plain), max_size=5))
def test_a_snapshot_equals_the_result_of_langgraphs_serializer(value):
    serde = JsonPlusSerializer()
    theirs = serde.loads_typed(serde.dumps_typed(value))
    ours = part_of(value, PACKER).fresh(PACKER)
    assert list(map(type, ours)) == list(map(type, theirs))
    assert ours == theirs
    assert [each.model_dump() for each in ours] == [each.model_dump() for each in theirs]


@settings(max_examples=40, deadline=None)
@given(st.lists(lists, min_size=1, max_size=4))
def test_a_list_that_grows_is_kept_as_one(values):
    kept, whole = part_of(values[0], PACKER), list(values[0])
    for added in values[1:]:
        grown = appended(kept, part_of(added, PACKER))
        assert grown is not None
        kept, whole = grown, whole + added
    assert seen(kept.fresh(PACKER)) == seen(PACKER.unpack(PACKER.pack(whole)))


def test_messages_stay_in_few_parts_and_other_lists_are_given_up_after_a_while():
    kept: Any = part_of([], PACKER)
    for number in range(3 * AT_ONCE):
        kept = appended(kept, part_of([HumanMessage(str(number))], PACKER))
    assert len(kept.parts) == 3
    kept = appended(
        kept, part_of([HumanMessage(str(number)) for number in range(3 * AT_ONCE, 5 * AT_ONCE + 1)], PACKER)
    )
    assert [message.content for message in kept.fresh(PACKER)] == [str(number) for number in range(5 * AT_ONCE + 1)]
    other: Any = part_of([{}], PACKER)
    for _ in range(MAX_PARTS - 1):
        other = appended(other, part_of([{}], PACKER))
    assert other.fresh(PACKER) == [{}] * MAX_PARTS
    assert appended(other, part_of([{}], PACKER)) is None


# --- Telling whether a list only grew

CHANGES: list[Any] = [
    lambda message: setattr(message, "content", message.content + "."),
    lambda message: setattr(message, "name", None),  # was left at its default, and is now given
    lambda message: message.additional_kwargs.update(flag=True),
    lambda message: message.additional_kwargs.update(flag=1.0),
    lambda message: message.additional_kwargs.update(seen=[1]),
    lambda message: message.additional_kwargs.update(seen=(1, 2)),
    lambda message: message.response_metadata.setdefault("deep", {}).update(x=1),
    lambda message: setattr(message, "extra_field", None),
    lambda message: delattr(message, "name"),
]


@pytest.mark.parametrize("count", [1, 15, 16, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK + 16, 3 * CHUNK])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_place_is_seen_wherever_it_is(count, change):
    value = [HumanMessage(str(at), additional_kwargs={"flag": 1, "seen": [1, 2]}) for at in range(count)]
    before = dump(value)
    assert before is not None
    for more in ([], [AIMessage("more")], [AIMessage("more")] * CHUNK):
        now = dump([*value, *more], before)
        assert now is not None
        assert now.begins_with(before)
    for at in {0, count // 2, count - 1}:
        changed = copy.deepcopy(value)
        change(changed[at])
        now = dump([*changed, AIMessage("more")], before)
        assert now is not None
        assert not now.begins_with(before)


@pytest.mark.parametrize("count", [1, 16, CHUNK, CHUNK + 1])
def test_other_lists_are_compared_too(count):
    value: list[Any] = [{"at": at} for at in range(count)]
    before = dump(value)
    assert before is not None
    assert (now := dump([*value, "more"], before)) is not None
    assert now.begins_with(before)
    assert not before.begins_with(now)
    value[-1]["at"] = float(count - 1)
    assert (now := dump([*value, "more"], before)) is not None
    assert not now.begins_with(before)
    assert (now := dump([HumanMessage("")] * count)) is not None
    assert not now.begins_with(before)
    assert (nothing := dump([])) is not None
    assert now.begins_with(nothing)
    assert not nothing.begins_with(now)


# --- On every storage


def state(saver: ClewSaver) -> Any:
    found = saver.get_tuple(config())
    assert found is not None
    return found


def test_a_state_loads_alike_with_and_without_a_snapshot(checkpointer):
    saver = ClewSaver(checkpointer)
    graph = chat(saver)
    for text in "abcdefgh":
        graph.invoke(say(text), config())
        hot, cold = state(saver), state(ClewSaver(checkpointer))
        assert seen(hot.checkpoint) == seen(cold.checkpoint)
        assert hot == cold
    assert len(texts(hot.checkpoint["channel_values"])) == 16


def test_a_state_with_a_snapshot_is_not_read_again(store):
    spies: list[Any] = []

    class Rows(SpyStorage):
        async def checkpoints(self, query: Any) -> Any:
            page = await super().checkpoints(query)
            self.rows = len(page.rows)
            return page

    def spy(storage: Any) -> Any:
        spies.append(Rows(storage))
        return spies[-1]

    saver = ClewSaver(store.open(spy))
    for text in "abc":
        chat(saver).invoke(say(text * 400), config())
    assert len(texts(state(saver).checkpoint["channel_values"])) == 6
    assert spies[0].rows == 0
    assert state(ClewSaver(saver.checkpointer)) == state(saver)
    assert spies[0].rows == 0, "what another saver loaded is known by its version, too"


def test_changes_to_a_loaded_state_do_not_affect_the_next_load(saver):
    chat(saver).invoke(say("a"), config())
    spoiled = state(saver).checkpoint
    spoiled["channel_values"]["messages"][0].content = "spoiled"
    spoiled["channel_values"]["messages"][1].additional_kwargs["spoiled"] = True
    spoiled["channel_values"]["messages"].append("spoiled")
    spoiled["channel_versions"].clear()
    again = state(saver).checkpoint
    assert "spoiled" not in repr(again)
    assert again["channel_versions"]
    assert seen(again) == seen(state(ClewSaver(saver.checkpointer)).checkpoint)


def test_writes_of_another_saver_are_seen(checkpointer):
    one, other = ClewSaver(checkpointer), ClewSaver(checkpointer)
    for saver, text in ((one, "a"), (other, "b"), (one, "c"), (one, "d"), (other, "e")):
        chat(saver).invoke(say(text), config())
    assert texts(state(one).checkpoint["channel_values"])[::2] == list("abcde")


def test_a_checkpoint_that_was_replaced_under_its_id_is_loaded_anew(saver):
    put(saver, {"x": "before"})
    found = state(saver)
    name = found.config["configurable"]["checkpoint_id"]
    whole = saver.checkpointer.get_state("t")
    saver.checkpointer.put_checkpoint("t", {**whole, "x": "after"}, new_id=name)
    assert state(saver).checkpoint["channel_values"] == {"x": "after"}


def test_a_thread_that_was_deleted_and_begun_anew_is_loaded_anew(saver):
    put(saver, {"x": "before"})
    state(saver)
    saver.delete_thread("t")
    assert saver.get_tuple(config()) is None
    put(saver, {"x": "after"})
    assert state(saver).checkpoint["channel_values"] == {"x": "after"}


def test_a_snapshot_is_only_for_the_owner_of_the_thread(checkpointer):
    saver = ClewSaver(checkpointer)
    chat(saver).invoke(say("a"), config(user_id="ana"))
    assert saver.get_tuple(config(user_id="ana")) is not None
    for others in (config(user_id="bob"), config()):
        with pytest.raises(clew.PermissionDeniedError):
            saver.get_tuple(others)


def test_messages_that_a_node_changes_in_place_are_saved_as_they_are(checkpointer):
    saver = ClewSaver(checkpointer)
    graph = chat(saver)
    graph.invoke(say("a"), config())
    values = graph.get_state(config()).values
    values["messages"][0].additional_kwargs["seen"] = True
    graph.update_state(config(), values)
    for each in (saver, ClewSaver(checkpointer)):
        found = state(each).checkpoint["channel_values"]["messages"]
        assert [message.additional_kwargs for message in found] == [{"seen": True}, {}]


def test_the_memory_for_snapshots_is_bounded():
    snapshot = Snapshot.of({"messages": [HumanMessage("x" * 1000)] * 10, BOOK: {}}, PACKER)
    assert snapshot is not None
    assert snapshot.weight > 20_000
    saver = ClewSaver(clew.connect("memory://"))
    saver._memory = Memory(max_bytes=30_000)
    saver.serde = saver.serde  # makes the parts that hold the memory
    for thread in "abcd":
        chat(saver).invoke(say("x" * 3000), config(thread))
    assert 1 <= len(saver._memory) <= 3
    for thread in "abcd":
        assert len(texts(state_of(saver, thread))) == 2


def state_of(saver: ClewSaver, thread: str) -> Any:
    found = saver.get_tuple(config(thread))
    assert found is not None
    return found.checkpoint["channel_values"]

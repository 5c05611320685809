"""Values keep their types, and stored data never names code to run."""

from __future__ import annotations

import enum
import operator
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, make_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict, cast
from uuid import UUID

import ormsgpack
import pydantic
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    JsonPlusSerializer,
)
from langgraph.graph import START, StateGraph
from langgraph.types import Interrupt, Send

import clew
from clew.adapters.langgraph import ClewSaver
from clew.adapters.langgraph.serializer import Serialized, Stranger
from clew.ids import new_id
from tests.adapters.langgraph.support import chat, config, delta_graph, say


class Color(enum.Enum):
    RED = "red"


class Model(pydantic.BaseModel):
    name: str
    colors: list[Color] = []


@dataclass
class Point:
    x: int
    y: int


MINE = [Color, Model, Point]
OWN: dict[str, Any] = {
    "text": "text",
    "nothing": None,
    "numbers": [1, 2.5, 10**30, -1],
    "tuple": (1, (2, 3)),
    "set": {1, 2},
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"\x00\xff"),
    "ints": {1: "one", 2: "two"},
    "when": datetime(2026, 1, 31, tzinfo=UTC),
    "id": UUID(int=7),
    "nul": "a\0b",
    "messages": [
        HumanMessage("hello", id="1", name="Ann"),
        AIMessage("", tool_calls=[{"name": "f", "args": {"x": [1]}, "id": "c", "type": "tool_call"}], id="2"),
        ToolMessage("done", tool_call_id="c", artifact={"rows": 3}, id="3"),
    ],
    "path": Path("/tmp/x"),
    "documents": [Document("text", metadata={"source": "x"})],
    "sends": [Send("node", {"x": 1})],
    "interrupt": Interrupt(value="why", id="i"),
}
USERS: dict[str, Any] = {
    "model": Model(name="m", colors=[Color.RED]),
    "models": [Model(name=str(number)) for number in range(3)],
    "point": Point(1, 2),
    "nested": {"deep": [Point(3, 4)]},
    "color": Color.RED,
}


class Reversing:
    """A cipher."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reversing", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "reversing"
        return ciphertext[::-1]


def put(saver: BaseCheckpointSaver[Any], values: dict[str, Any], parent: Any = None, number: int = 1) -> Any:
    versions: Any = dict.fromkeys(values, number)
    checkpoint: Any = {
        "v": 4,
        "id": f"1f0{number:05x}-0000-6000-8000-000000000000",
        "ts": "2026-01-31T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": {},
        "updated_channels": None,
    }
    return saver.put(parent or config(checkpoint_ns=""), checkpoint, {"source": "loop", "step": number}, versions)


def get(saver: ClewSaver) -> dict[str, Any]:
    found = saver.get_tuple(config())
    assert found is not None
    return found.checkpoint["channel_values"]


@pytest.mark.parametrize("name", OWN)
def test_langgraph_s_and_langchain_s_own_types_come_back_as_they_were(saver, name):
    put(saver, {name: OWN[name]})
    found = get(saver)[name]
    assert found == OWN[name]
    assert type(found) is type(OWN[name])


@pytest.mark.parametrize("name", USERS)
def test_allowed_classes_keep_their_types(checkpointer, name):
    saver = ClewSaver(checkpointer, allow=MINE)
    put(saver, {name: USERS[name]})
    assert get(saver)[name] == USERS[name]


@pytest.mark.parametrize("name", USERS)
def test_a_class_that_is_not_named_or_allowed_is_refused_with_the_way_to_allow_it(saver, name):
    with pytest.raises(clew.UnsupportedTypeError, match=r"ClewSaver\(…, allow=\[(Model|Point|Color)\]\)"):
        put(saver, {name: USERS[name]})
    assert saver.checkpointer.get_thread("t") is None


def test_a_class_that_this_saver_does_not_know_comes_back_as_a_record_and_is_saved_as_it_was(checkpointer):
    put(ClewSaver(checkpointer, allow=MINE), USERS)
    stranger = ClewSaver(checkpointer)
    found = stranger.get_tuple(config())
    assert found is not None
    point = found.checkpoint["channel_values"]["point"]
    assert isinstance(point, Stranger)
    assert point.type_name == f"{__name__}:Point"
    assert dict(point) == {"x": 1, "y": 2}
    put(stranger, {**found.checkpoint["channel_values"], "more": 1}, found.config, 2)
    assert get(ClewSaver(checkpointer, allow=MINE)) == {**USERS, "more": 1}


def test_what_older_versions_saved_in_langgraph_s_format_comes_back_as_it_was(checkpointer):
    """Older versions passed everything but plain data to LangGraph's serializer."""
    old = JsonPlusSerializer()
    values = {**USERS, **{name: OWN[name] for name in ("path", "documents", "sends", "interrupt")}}
    put(ClewSaver(checkpointer), {"x": 1})
    checkpointer.update_state("t", set={name: Serialized(*old.dumps_typed(value)) for name, value in values.items()})
    assert {**get(ClewSaver(checkpointer, allow=MINE)), "x": 1} == {**values, "x": 1}
    stranger = ClewSaver(checkpointer)
    found = stranger.get_tuple(config())
    assert found is not None
    model = found.checkpoint["channel_values"]["model"]
    assert isinstance(model, Stranger)
    assert model["name"] == "m"
    put(stranger, {**found.checkpoint["channel_values"], "more": 1}, found.config, 2)
    assert get(ClewSaver(checkpointer, allow=MINE))["model"] == USERS["model"]


def test_a_task_to_send_comes_back_although_langgraph_has_moved_its_class(saver):
    """LangGraph 0.2.19 still had `Send` in another module."""
    written = ormsgpack.packb(("langgraph.constants", "Send", ("node", {"x": 1})))
    stored = ormsgpack.packb(ormsgpack.Ext(EXT_CONSTRUCTOR_POS_ARGS, written))
    put(saver, {"x": 1})
    saver.checkpointer.update_state("t", set={"x": Serialized("msgpack", stored)})
    assert get(saver)["x"] == Send("node", {"x": 1})


def test_a_graph_that_knows_its_types_may_allow_them(checkpointer):
    saver = ClewSaver(checkpointer)
    clone = saver.with_allowlist([(Point.__module__, "Point")])
    assert isinstance(clone, ClewSaver)
    put(clone, {"point": Point(1, 2)})
    assert get(clone)["point"] == Point(1, 2)
    assert isinstance(get(saver)["point"], Stranger)


def test_data_that_names_a_function_does_not_call_it(saver, tmp_path):
    named = ormsgpack.packb(("os", "mkdir", str(tmp_path / "made")))
    evil = ormsgpack.packb(ormsgpack.Ext(EXT_CONSTRUCTOR_SINGLE_ARG, named))
    put(saver, {"x": 1})
    saver.checkpointer.update_state("t", set={"x": Serialized("msgpack", evil)})
    assert get(saver)["x"]["value"] == str(tmp_path / "made")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("kind", ["pickle", "json", "other"])
def test_formats_that_are_never_written_are_not_read(saver, kind):
    put(saver, {"x": 1})
    saver.checkpointer.update_state("t", set={"x": Serialized(kind, b"{}")})
    with pytest.raises(clew.CorruptRecordError, match=kind):
        get(saver)


class Frame:
    """An object that only pickle can save, such as a pandas table."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and other.rows == self.rows

    __hash__ = None  # type: ignore[assignment]


class WithPickle(JsonPlusSerializer):
    """A user's serializer that extends LangGraph's and has its own format."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return "mine", pickle.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return pickle.loads(data[1]) if data[0] == "mine" else super().loads_typed(data)


@pytest.mark.parametrize(
    "serde",
    [
        JsonPlusSerializer(pickle_fallback=True),
        EncryptedSerializer(cast(Any, Reversing()), JsonPlusSerializer(pickle_fallback=True)),
        WithPickle(),
        pickle,
    ],
    ids=["fallback", "encrypted", "subclass", "module"],
)
def test_what_a_serializer_of_the_user_s_wrote_is_read_with_it(checkpointer, serde):
    class State(TypedDict, total=False):
        frame: Any
        turn: int

    def graph() -> Any:
        builder: Any = StateGraph(State)
        builder.add_node("node", lambda state: {"frame": Frame(state["frame"].rows + 1)})
        builder.add_edge(START, "node")
        return builder.compile(checkpointer=ClewSaver(checkpointer, serde=serde, messages=None))

    graph().invoke({"frame": Frame(1)}, config())
    assert graph().invoke({"turn": 2}, config())["frame"] == Frame(3)
    assert len(list(graph().get_state_history(config()))) == 6


def test_what_another_serializer_wrote_is_not_read_and_the_error_says_what_to_pass(checkpointer):
    put(ClewSaver(checkpointer, serde=JsonPlusSerializer(pickle_fallback=True)), {"frame": Frame(1)})
    for serde in (None, JsonPlusSerializer(), WithPickle()):
        saver = ClewSaver(checkpointer, serde=serde)
        with pytest.raises(clew.CorruptRecordError, match="serde="):
            get(saver)


def test_an_invalid_serializer_is_refused_when_the_saver_is_made():
    with pytest.raises(clew.ConfigError, match="dumps_typed"):
        ClewSaver("memory://", serde=cast(Any, 5))


def test_what_can_t_be_saved_is_refused_by_name_before_anything_is_written(saver):
    with pytest.raises(clew.UnsupportedTypeError, match="tools\\[1\\]"):
        put(saver, {"tools": ["fine", lambda: None]})
    assert saver.checkpointer.get_thread("t") is None


def test_unknown_metadata_is_kept(saver):
    checkpoint: Any = {"id": "1f000000-0000-6000-8000-000000000000", "channel_values": {}, "channel_versions": {}}
    told: Any = {"source": "loop", "step": 3, "mine": {"deep": [1, [2]]}, "flag": True}
    saver.put(config(checkpoint_ns="", color="red"), {**checkpoint, "ts": "", "v": 4, "versions_seen": {}}, told, {})
    found = saver.get_tuple(config())
    assert found.metadata == {**told, "color": "red", "parents": {}}
    assert saver.checkpointer.list_checkpoints("t", where={"mine": {"deep": [1, [2]]}, "color": "red"})


def test_tuples_in_metadata_are_lists_as_they_are_in_langgraph_s_own_savers(saver):
    checkpoint: Any = {"v": 4, "id": "1f000000-0000-6000-8000-000000000000", "ts": "", "versions_seen": {}}
    checkpoint |= {"channel_values": {}, "channel_versions": {}}
    told: Any = {"source": "loop", "step": 1, "parents": {}, "counts": {"a": (1, (2, {"b": ()}))}}

    def put_and_found(saver: BaseCheckpointSaver[Any]) -> Any:
        saver.put(config(checkpoint_ns=""), checkpoint, told, {})
        found: Any = saver.get_tuple(config())
        return found.metadata

    assert put_and_found(saver) == put_and_found(InMemorySaver())
    for counts in ({"a": (1, (2, {"b": ()}))}, {"a": [1, [2, {"b": []}]]}):
        assert len(list(saver.list(config(), filter={"counts": counts}))) == 1


def test_tuples_in_metadata_of_older_versions_are_lists_too(saver):
    put(saver, {"x": 1})
    saver.checkpointer.put_checkpoint("t", saver.checkpointer.get_state("t"), metadata={"source": "loop", "at": (1, 2)})
    found = saver.get_tuple(config())
    assert found is not None
    assert found.metadata["at"] == [1, 2]


def test_a_channel_may_be_called_like_clew_s_own_field(saver):
    names = ["__langgraph__", "__langgraph____langgraph__", "__langgraph__x", "plain"]
    put(saver, {name: name for name in names})
    assert get(saver) == {name: name for name in names}


class Backwards:
    """A serializer that hides everything, like one that encrypts."""

    def __init__(self) -> None:
        self._inner = JsonPlusSerializer()
        self.dumped = 0

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        self.dumped += 1
        kind, data = self._inner.dumps_typed(obj)
        return f"backwards+{kind}", data[::-1]

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return self._inner.loads_typed((data[0].removeprefix("backwards+"), data[1][::-1]))


def test_a_serializer_of_the_user_s_gets_everything_and_nothing_twice(checkpointer):
    serde = Backwards()
    assert isinstance(serde, SerializerProtocol)
    saver = ClewSaver(checkpointer, serde=serde, messages=None)
    messages = [HumanMessage(f"secret {number}", id=str(number)) for number in range(20)]
    first = put(saver, {"messages": messages, "plain": "secret"})
    assert all(isinstance(each, Serialized) for each in checkpointer.get_state("t")["messages"])
    assert isinstance(checkpointer.get_state("t")["plain"], Serialized)
    serde.dumped = 0
    put(saver, {"messages": [*messages, HumanMessage("secret too", id="x")], "plain": "secret"}, first, 2)
    assert serde.dumped < 10, "the messages that were there are not serialized again"
    assert [each.content for each in get(saver)["messages"]][-1] == "secret too"


def test_metadata_stays_plain_and_is_filtered_whatever_the_serializer(checkpointer):
    saver = ClewSaver(checkpointer, serde=Backwards(), messages=None)
    graph = chat(saver)
    graph.invoke(say("one"), {**config(), "metadata": {"tenant": "acme"}})
    assert len(list(graph.get_state_history(config(), filter={"source": "loop"}))) == 2
    assert len(list(graph.get_state_history(config(), filter={"tenant": "acme"}))) == 3
    assert len(list(graph.get_state_history(config(), filter={"tenant": "other"}))) == 0
    assert checkpointer.list_checkpoints("t")[0].metadata["source"] == "loop"
    told: Any = {"source": "loop", "step": 1, "mine": Point(1, 2), "said": [HumanMessage("secret")]}
    checkpoint: Any = {"v": 4, "id": "1f000000-0000-6000-8000-000000000000", "ts": "", "versions_seen": {}}
    checkpoint |= {"channel_values": {}, "channel_versions": {}}
    saver.put(config("other", checkpoint_ns=""), checkpoint, told, {})
    stored = checkpointer.list_checkpoints("other")[0].metadata
    assert isinstance(stored["mine"], Serialized)
    assert isinstance(stored["said"][0], Serialized)
    found: Any = saver.get_tuple(config("other"))
    assert found.metadata["said"] == told["said"]


def test_metadata_that_went_through_a_serializer_is_read_and_used_by_prune(checkpointer):
    saver = ClewSaver(checkpointer, serde=Backwards(), messages=None)
    graph = delta_graph(saver)
    for number in range(7):
        graph.invoke({"log": [HumanMessage(f"said {number}", id=f"s{number}")]}, config())
    expected = [each.content for each in graph.get_state(config()).values["log"]]
    # Older versions passed metadata to the serializer, too.
    for each in checkpointer.get_history("t", None):
        metadata = {name: Serialized(*saver.serde.dumps_typed(value)) for name, value in each.metadata.metadata.items()}
        parent = {} if each.metadata.parent_id else {"parent": None}
        named = {"thread_id": "t", "checkpoint_id": each.metadata.parent_id}
        checkpointer.put_checkpoint(
            named, each.state, new_id=each.checkpoint_id, step=each.metadata.step, metadata=metadata, **parent
        )
    fresh = ClewSaver(checkpointer, serde=Backwards(), messages=None)
    found: Any = fresh.get_tuple(config())
    assert found.metadata["source"] == "loop"
    before = checkpointer.size("t")
    fresh.prune(["t"])
    assert checkpointer.size("t") < before
    assert [each.content for each in delta_graph(fresh).get_state(config()).values["log"]] == expected


def test_an_unknown_class_is_logged_once_with_the_way_to_allow_it(checkpointer, caplog):
    name = f"Unheard{new_id()}"
    unheard: Any = make_dataclass(name, ["x"], namespace={"__module__": __name__})
    put(ClewSaver(checkpointer, allow=[unheard]), {"a": unheard(1), "b": unheard(2)})
    with caplog.at_level("WARNING", "clew"):
        get(ClewSaver(checkpointer))
        get(ClewSaver(checkpointer))
    (told,) = [each.getMessage() for each in caplog.records if each.name == "clew"]
    assert f"{unheard.__module__}.{name}" in told
    assert f"ClewSaver(…, allow=[{name}])" in told


def test_in_strict_mode_langgraph_tells_the_saver_what_its_schema_names():
    script = """
import enum, sys
from dataclasses import dataclass
from typing import TypedDict
from langgraph.graph import START, StateGraph
from clew.adapters.langgraph import ClewSaver

@dataclass
class Plan:
    city: str

class State(TypedDict, total=False):
    plan: Plan
    asked: str

graph = StateGraph(State).add_node("go", lambda state: {"asked": state["plan"].city}).add_edge(START, "go")
graph = graph.compile(checkpointer=ClewSaver("memory://"))
config = {"configurable": {"thread_id": "t"}}
graph.invoke({"plan": Plan("Lisbon")}, config)
print(graph.invoke({"asked": "again"}, config))
"""
    environment = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert "Plan(city='Lisbon')" in done.stdout


def test_a_custom_type_in_a_list_is_serialized_once(checkpointer):
    saver = ClewSaver(checkpointer, allow=MINE)
    points = [Point(number, number) for number in range(50)]
    first = put(saver, {"points": points})
    put(saver, {"points": [*points, Point(7, 7)]}, first, 2)
    assert get(saver)["points"] == [*points, Point(7, 7)]
    points[3].x = 99
    found: Any = saver.get_tuple(config())
    put(saver, {"points": points}, found.config, 3)
    assert get(saver)["points"] == points


def test_a_graph_with_a_state_of_its_own_types_works(checkpointer):
    class State(TypedDict):
        models: Annotated[list[Model], operator.add]

    builder: Any = StateGraph(State)
    builder.add_node("add", lambda state: {"models": [Model(name=str(len(state["models"])))]})
    builder.add_edge(START, "add")
    graph = builder.compile(checkpointer=ClewSaver(checkpointer, allow=MINE))
    for _ in range(3):
        graph.invoke({"models": []}, config())
    assert [each.name for each in graph.get_state(config()).values["models"]] == ["0", "1", "2"]

"""A graph's own classes keep their types with default settings, in this process and in the next
one.
"""

from __future__ import annotations

import enum
import gc
import operator
import weakref
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import pydantic
import pytest
from langchain_core.agents import AgentAction, AgentFinish
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import Generation, GenerationChunk, LLMResult
from langchain_core.prompt_values import ChatPromptValue
from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.pregel import Pregel
from langgraph.runtime import Runtime
from langgraph.store.base import Item
from langgraph.types import Command, interrupt
from pydantic import v1 as pydantic_v1

import clew
from clew.adapters.langgraph import ClewSaver
from clew.adapters.langgraph.graphs import classes_of
from clew.adapters.langgraph.serializer import Stranger
from clew.adapters.langgraph.values import strict_serializer
from clew.bounded import BoundedMap
from tests.adapters.langgraph.support import config


class Mood(enum.Enum):
    GOOD = "good"


class Level(enum.IntEnum):
    HIGH = 3


class Spot(NamedTuple):
    x: int
    y: tuple[int, int]


class Inner(pydantic.BaseModel):
    moods: set[Mood] = set()


class Outer(pydantic.BaseModel):
    inner: Inner
    spot: Spot
    anything: Any = None


@dataclass(frozen=True)
class Shape:
    name: str


@dataclass(frozen=True)
class Circle(Shape):
    radius: float = 1.0


@dataclass
class Box:
    shapes: list[Shape] = field(default_factory=list)
    pair: tuple[int, ...] = ()

    class Lid(pydantic.BaseModel):
        closed: bool


class Old(pydantic_v1.BaseModel):
    name: str


class Money(str):
    __slots__ = ()


class Signed(HumanMessage):
    signature: str = ""


Weight = NewType("Weight", Level)
Either = Outer | None


class State(TypedDict, total=False):
    mood: Mood
    weight: Weight
    spot: Annotated[Spot, "where"]
    outer: Either
    box: Box
    lid: Box.Lid
    old: Old
    money: Money
    literal: Literal[Level.HIGH]
    shapes: Annotated[list[Shape], operator.add]
    messages: Annotated[list[BaseMessage], operator.add]
    nested: dict[str, list[tuple[Mood, Outer]]]
    steps: list[tuple[AgentAction | AgentFinish, str]]
    turn: int


OUTER = Outer(inner=Inner(moods={Mood.GOOD}), spot=Spot(1, (2, 3)), anything=(1, {2}))
VALUES: dict[str, Any] = {
    "mood": Mood.GOOD,
    "weight": Level.HIGH,
    "spot": Spot(1, (2, 3)),
    "outer": OUTER,
    "box": Box([Circle("c", 2.0), Shape("s")], (1, 2)),
    "lid": Box.Lid(closed=True),
    "old": Old(name="old"),
    "money": Money("12"),
    "literal": Level.HIGH,
    "shapes": [Circle("c"), Shape("s")],
    "messages": [Signed(content="hello", id="1", signature="x"), AIMessage("hi", id="2")],
    "nested": {"a": [(Mood.GOOD, OUTER)]},
    "steps": [(AgentAction("tool", "input", "log"), "seen"), (AgentFinish({"answer": 1}, "log"), "")],
}


def one_node(schema: Any, saver: Any, node: Any = lambda state: {"turn": 1}, **options: Any) -> Any:
    builder: Any = StateGraph(schema, **options)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=saver)


def same(one: Any, other: Any) -> bool:
    """Whether both are equal and have the same types, at any depth."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, dict):
        return all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return all(map(same, one, other))
    return not hasattr(one, "__dict__") or isinstance(one, enum.Enum) or same(vars(one), vars(other))


@pytest.mark.parametrize("name", VALUES)
def test_classes_that_the_schema_names_come_back_in_the_next_process(checkpointer, name):
    one_node(State, ClewSaver(checkpointer)).invoke({name: VALUES[name]}, config())
    found = one_node(State, ClewSaver(checkpointer)).get_state(config()).values[name]
    assert same(found, VALUES[name]), found


def test_the_saver_itself_knows_what_its_graph_names(checkpointer):
    saver = ClewSaver(checkpointer)
    one_node(State, saver).invoke({"box": VALUES["box"]}, config())
    found = saver.get_tuple(config())
    assert found is not None
    assert found.checkpoint["channel_values"]["box"] == VALUES["box"]


MOMENT = datetime(2026, 1, 31, tzinfo=UTC)
OF_LANGCHAIN: dict[str, Any] = {
    "generation": GenerationChunk(text="x"),
    "result": LLMResult(generations=[[Generation(text="x")]], llm_output={"a": (1,)}),
    "prompt": ChatPromptValue(messages=[HumanMessage("hi")]),
    "command": Command(update={"x": (1, 2)}, goto="node"),
    "deep": {"result": [(AgentAction("t", {"a": 1}, "l"), {1, 2})]},
    "signed": Signed(content="hello", signature="x"),
    "item": Item(value={"a": 1}, key="k", namespace=("a", "b"), created_at=MOMENT, updated_at=MOMENT),
    "secret": pydantic.SecretStr("x"),
}


@pytest.mark.parametrize("name", OF_LANGCHAIN)
def test_data_types_of_langchain_and_langgraph_are_known_without_any_schema(name):
    serde = strict_serializer(())
    found = serde.loads_typed(serde.dumps_typed([(OF_LANGCHAIN[name],)]))
    assert same(found, [(OF_LANGCHAIN[name],)])


class Answer(pydantic.BaseModel):
    city: str


class AnsweringModel(FakeListChatModel):
    """A model that returns the requested structure."""

    def with_structured_output(self, schema: Any, **_: Any) -> Runnable[Any, Any]:
        return RunnableLambda(lambda _: schema(city="Lisbon"))

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


@pytest.mark.filterwarnings("ignore")
def test_the_response_format_of_an_agent_comes_back(checkpointer):
    def agent() -> Any:
        model = AnsweringModel(responses=["Lisbon"])
        return create_react_agent(model, [], response_format=Answer, checkpointer=ClewSaver(checkpointer))

    agent().invoke({"messages": [HumanMessage("where?")]}, config())
    assert agent().get_state(config()).values["structured_response"] == Answer(city="Lisbon")


@dataclass
class Context:
    home: Spot


def test_classes_of_the_context_may_be_saved(checkpointer):
    def node(state: Any, runtime: Runtime[Context]) -> Any:
        return {"kept": runtime.context.home}

    class Anything(TypedDict, total=False):
        kept: Any
        turn: int

    graph = one_node(Anything, ClewSaver(checkpointer), node, context_schema=Context)
    graph.invoke({"turn": 1}, config(), context=Context(Spot(1, (2, 3))))
    fresh = one_node(Anything, ClewSaver(checkpointer), node, context_schema=Context)
    assert fresh.get_state(config()).values["kept"] == Spot(1, (2, 3))


class Untyped(TypedDict, total=False):
    kept: Any


def helper() -> Any:
    return {"deep": [Shape("made in a helper")]}


@task
def measured(size: int) -> Spot:
    return Spot(size, (0, 0))


def test_classes_that_the_code_of_nodes_and_tasks_names_may_be_saved(checkpointer):
    graph = one_node(Untyped, ClewSaver(checkpointer), lambda state: {"kept": helper()})
    graph.invoke({}, config())
    assert graph.get_state(config()).values["kept"] == {"deep": [Shape("made in a helper")]}

    def flow() -> Any:
        @entrypoint(checkpointer=ClewSaver(checkpointer))
        def workflow(size: int) -> Any:
            spot = measured(size).result()
            return [spot, interrupt(Shape("really?"))]

        return workflow

    asked = flow().invoke(3, config("w"))
    assert asked["__interrupt__"][0].value == Shape("really?")
    assert flow().invoke(Command(resume="yes"), config("w")) == [Spot(3, (0, 0)), "yes"]


def test_classes_of_a_function_come_back_as_those_of_the_graph_that_asks(checkpointer):
    def build() -> tuple[Any, type]:
        class Plan(pydantic.BaseModel):
            city: str

        Plans = TypedDict("Plans", {"plan": Plan, "turn": int}, total=False)  # noqa: UP013
        return one_node(Plans, saver), Plan

    saver = ClewSaver(checkpointer)
    one, first = build()
    other, second = build()
    one.invoke({"plan": first(city="Lisbon")}, config("one"))
    other.invoke({"plan": second(city="Porto")}, config("other"))
    assert type(one.get_state(config("one")).values["plan"]) is first
    assert type(other.get_state(config("other")).values["plan"]) is second


class Moody:
    """A node that can't be inspected, such as a proxy for a missing object."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            raise RuntimeError("not now")
        return super().__getattribute__(name)

    def __call__(self, state: Any) -> Any:
        return {"kept": 1}


def test_nodes_that_cant_be_inspected_are_skipped():
    moody = Moody()
    graph = one_node(State, None, lambda state: moody(state) and {"mood": Mood.GOOD})
    assert Mood in classes_of(graph)


def test_nodes_that_are_added_to_a_builder_later_are_looked_at_too(checkpointer):
    builder: Any = StateGraph(Untyped)
    builder.add_node("one", lambda state: {})
    builder.add_edge(START, "one")
    assert Shape not in classes_of(builder.compile())
    builder.add_node("two", lambda state: {"kept": Shape("late")})
    builder.add_edge("one", "two")
    graph = builder.compile(checkpointer=ClewSaver(checkpointer))
    graph.invoke({}, config())
    assert graph.with_config(tags=["x"]).get_state(config()).values["kept"] == Shape("late")


def test_models_and_tools_are_not_data_even_if_code_names_them():
    def node(state: Untyped) -> Any:
        return {"kept": FakeListChatModel(responses=["x"])}

    assert not {each for each in classes_of(one_node(Untyped, None, node)) if issubclass(each, Runnable)}


def test_a_class_that_nobody_named_is_refused_and_the_error_says_what_to_write(checkpointer):
    unheard: Any = make_dataclass("Unheard", ["x"], namespace={"__module__": __name__})

    def node(state: Untyped, runtime: Runtime[Any]) -> Any:
        # A third-party tool returns such an object: no code of the graph names its class.
        return {"kept": {"deep": [runtime.context]}}

    graph = one_node(Untyped, ClewSaver(checkpointer), node)
    with pytest.raises(clew.UnsupportedTypeError, match=r"kept\.deep\[0\].*Unheard.*ClewSaver\(…, allow=\[Unheard\]\)"):
        graph.invoke({}, config(), context=unheard(1))
    allowed = one_node(Untyped, ClewSaver(checkpointer, allow=[unheard]), node)
    allowed.invoke({}, config("allowed"), context=unheard(1))
    assert allowed.get_state(config("allowed")).values["kept"] == {"deep": [unheard(1)]}


def test_subclasses_of_builtins_from_frameworks_are_saved_as_the_builtin():
    serde = strict_serializer(())
    values = {"text": AIMessage("hi").text, "default": defaultdict(list, a=[1]), "ordered": OrderedDict(a=1)}
    found = serde.loads_typed(serde.dumps_typed(values))
    assert found == {"text": "hi", "default": {"a": [1]}, "ordered": OrderedDict(a=1)}
    with pytest.raises(clew.UnsupportedTypeError, match=r"allow=\[Money\]"):
        serde.dumps_typed([Money("1")])


def test_classes_that_are_not_data_cant_be_allowed():
    with pytest.raises(clew.ConfigError, match=r"clew\.register"):
        ClewSaver("memory://", allow=[object])


def test_data_imports_nothing_and_runs_no_constructor(monkeypatch):
    ran: list[str] = []

    @dataclass
    class Careful:
        x: int

        def __post_init__(self) -> None:
            ran.append("ran")

    put_by = strict_serializer([Careful])
    data = put_by.dumps_typed([Careful(1)])
    ran.clear()
    monkeypatch.setattr("importlib.import_module", lambda name: ran.append(name))
    (found,) = put_by.loads_typed(data)
    assert type(found) is Careful
    assert found.x == 1
    assert isinstance(strict_serializer(()).loads_typed(data)[0], Stranger)
    assert not ran


def test_a_saver_does_not_keep_the_classes_of_graphs_that_are_gone():
    classes = strict_serializer(()).classes
    classes._order = BoundedMap(max_entries=10)
    made = [make_dataclass(f"Made{number}", ["x"], namespace={"__module__": __name__}) for number in range(30)]
    classes.learn(made)
    gone = weakref.ref(made[0])
    assert classes.by_class(made[0]) is None
    assert classes.by_class(made[29]) is not None
    del made
    gc.collect()
    assert gone() is None


def test_other_savers_and_graphs_without_one_are_left_alone():
    ClewSaver("memory://").checkpointer.release()
    saver = InMemorySaver()
    graph: Pregel[Any, Any, Any, Any] = one_node(State, saver)
    graph.invoke({"mood": Mood.GOOD}, config())
    assert graph._resolve_checkpointer(config()) is saver
    assert one_node(State, None).invoke({"mood": Mood.GOOD})["mood"] is Mood.GOOD

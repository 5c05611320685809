"""Fidelity: states are loaded equal to what was saved, with the same types."""

from __future__ import annotations

import dataclasses
import enum
import math
import sys
from collections import OrderedDict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from tests.checkpointer.support import python, text


def same(one: Any, other: Any) -> bool:
    """Whether both are equal in value and type, recursively. NaN equals NaN; the order of a dict counts."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, Decimal):
        return str(one) == str(other)
    if isinstance(one, datetime):
        return (one.replace(tzinfo=None), one.fold, one.utcoffset()) == (
            other.replace(tzinfo=None),
            other.fold,
            other.utcoffset(),
        ) and (not isinstance(one.tzinfo, ZoneInfo) or one.tzinfo is other.tzinfo)
    if isinstance(one, time):
        return (one.replace(tzinfo=None), one.fold, one.utcoffset()) == (
            other.replace(tzinfo=None),
            other.fold,
            other.utcoffset(),
        ) and (not isinstance(one.tzinfo, ZoneInfo) or one.tzinfo is other.tzinfo)
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            same(a, b) for pair in zip(one.items(), other.items(), strict=True) for a, b in zip(*pair, strict=True)
        )
    if isinstance(one, (set, frozenset)):
        unmatched = list(other)
        for item in one:
            at = next((n for n, each in enumerate(unmatched) if same(item, each)), None)
            if at is None:
                return False
            del unmatched[at]
        return not unmatched
    if isinstance(one, deque) and one.maxlen != other.maxlen:
        return False
    if isinstance(one, (list, tuple, deque)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


ZONES = [
    None,
    UTC,
    ZoneInfo("Europe/Berlin"),
    ZoneInfo("America/St_Johns"),
    ZoneInfo("UTC"),
    timezone(timedelta(hours=5.5)),
]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
numbers = st.one_of(
    st.integers(),
    st.integers(min_value=-(2**200), max_value=2**200),
    st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1]),
    st.floats(),
    st.complex_numbers(allow_nan=False),
    st.decimals(allow_nan=False),
    st.booleans(),
)
times = st.one_of(
    st.datetimes(timezones=st.sampled_from(ZONES)),
    st.builds(
        lambda fold: datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold), st.sampled_from([0, 1])
    ),
    st.datetimes().map(lambda value: value.replace(fold=1)),
    st.dates(),
    st.times(timezones=st.sampled_from(ZONES)),
    st.timedeltas(),
)
hashables = st.recursive(
    st.one_of(st.none(), texts, numbers, times, st.uuids(), st.binary(max_size=20)),
    lambda inner: st.one_of(st.tuples(inner), st.tuples(inner, inner), st.frozensets(inner, max_size=3)),
    max_leaves=4,
)
plain = st.recursive(
    st.one_of(hashables, st.text("ab\0é🧵", min_size=200, max_size=400), st.binary(min_size=300, max_size=600)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(texts, inner, max_size=5),
        st.dictionaries(hashables, inner, max_size=4),
        st.dictionaries(texts, inner, max_size=4).map(OrderedDict),
        st.builds(deque, st.lists(inner, max_size=4), st.sampled_from([None, 3, 9])),
        st.sets(hashables, max_size=5),
    ),
    max_leaves=25,
)
CHECKPOINTERS = [clew.InMemoryCheckpointer()]


@settings(max_examples=120)
@given(plain, plain)
def test_whatever_plain_data_goes_in_comes_back_the_same(first, second):
    (checkpointer,) = CHECKPOINTERS
    checkpointer.delete_thread("t")
    checkpointer.put_state("t", first)
    assert same(checkpointer.get_state("t"), first)
    # The second save is encoded against the first.
    checkpointer.put_state("t", {"first": first, "second": second})
    assert same(checkpointer.get_state("t"), {"first": first, "second": second})
    checkpointer.update_state("t", set={"second": first}, append={"list": [second]})
    assert same(checkpointer.get_state("t"), {"first": first, "second": first, "list": [second]})


EVERYTHING: dict[str, Any] = {
    "tuple": (1, (2, [3])),
    "sets": [{1, "a", None}, frozenset({(1, 2)}), set(), frozenset()],
    "bytes": b"\x00\xff" * 300,
    "times": [
        datetime(2026, 1, 1, 12, tzinfo=UTC),
        datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        datetime(2026, 1, 1, 12),  # noqa: DTZ001
        date(2026, 1, 1),
        time(1, 2, 3, 4),
        time(1, 2, tzinfo=ZoneInfo("Europe/Berlin")),
        timedelta(days=-1, microseconds=1),
    ],
    "uuid": UUID(int=7),
    "decimal": [Decimal("1.10"), Decimal("NaN"), Decimal("-Infinity"), Decimal("1E+500")],
    "ints": [2**64, -(2**63) - 1, 2**4000, 0],
    "floats": [math.nan, math.inf, -math.inf, -0.0, 1e-320],
    "nul": "a\0b",
    "keys": {1: "int", 1.5: "float", None: "none", (1, "x"): "tuple", UUID(int=1): "uuid", b"b": 0, "1": "text"},
    "ordered": OrderedDict(b=1, a=2),
    "deque": deque([1, 2], maxlen=5),
    "complex": 1 - 2j,
    "looks like an envelope": {"__type__": "os.system", "type": "Ext", "\0unset": ["a"], "": {"": {}}},
    "empty": [{}, [], (), "", b"", None],
    "long": [text(n) for n in range(60)],
}


def test_everything_at_once_comes_back_also_in_another_checkpointer(store):
    store.open().put_state("t", EVERYTHING)
    assert same(store.open().get_state("t"), EVERYTHING)
    store.open().compact()
    assert same(store.open().get_state("t"), EVERYTHING)


@pytest.mark.parametrize("state", [None, 0, "text", b"", [1], (1,), {1, 2}, {1: 2}, text(1, 100_000), [None] * 5000])
def test_a_state_may_be_any_value_not_only_a_dict(checkpointer, state):
    checkpointer.put_state("t", state)
    assert same(checkpointer.get_state("t"), state)
    assert checkpointer.exists("t")


def test_the_order_of_a_dict_is_kept_over_changes(checkpointer):
    state: dict[str, Any] = {"b": text(1), "a": text(2), "c": text(3)}
    checkpointer.put_state("t", state)
    state = {"c": state["c"], "b": state["b"], "new": 1, "a": state["a"]}
    checkpointer.put_state("t", state)
    assert list(checkpointer.get_state("t")) == ["c", "b", "new", "a"]


# Classes


class Colour(enum.Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796  (an alias)
    BLUE = ("b", 2)


class Level(enum.IntEnum):
    LOW = 1


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Kind(enum.StrEnum):
    A = "a"


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    done: bool = False


@dataclasses.dataclass(slots=True)
class Plan:
    steps: list[Step]
    colour: Colour = Colour.RED
    made: int = dataclasses.field(default=0, init=False)


class Tool(msgspec.Struct, frozen=True):
    name: str
    where: Point


@attrs.define
class Note:
    text: str
    _secret: int = 1


class Model(pydantic.BaseModel):
    name: str
    point: Point | None = None
    items: list[Step] = []


class Typed(TypedDict):
    messages: list[str]
    count: int


@dataclasses.dataclass
class Everything:
    plan: Plan
    tool: Tool
    note: Note
    model: Model
    typed: Typed
    rights: Right
    level: Level
    kind: Kind


def everything() -> Everything:
    plan = Plan([Step("a"), Step("b", done=True)], Colour.BLUE)
    plan.made = 5
    return Everything(
        plan=plan,
        tool=Tool("search", Point(1, 2)),
        note=Note("n", 9),
        model=Model(name="m", point=Point(3)),
        typed={"messages": [text(1)], "count": 1},
        rights=Right.READ | Right.WRITE,
        level=Level.LOW,
        kind=Kind.A,
    )


def test_a_state_type_brings_the_classes_that_it_mentions(store):
    state = everything()
    store.open(state_type=Everything).put_state("t", state)
    loaded = store.open(state_type=Everything).get_state("t")
    assert loaded == state
    assert type(loaded) is Everything
    assert type(loaded.plan.steps[0]) is Step
    assert loaded.plan.colour is Colour.BLUE
    assert loaded.plan.made == 5
    assert type(loaded.tool) is Tool
    assert type(loaded.tool.where) is Point
    assert type(loaded.note) is Note
    assert loaded.note._secret == 9
    assert type(loaded.model) is Model
    assert loaded.model.model_fields_set == {"name", "point"}
    assert loaded.rights is Right.READ | Right.WRITE
    assert loaded.level is Level.LOW
    assert loaded.kind is Kind.A
    loaded.model.items.append(Step("mine"))
    assert store.open(state_type=Everything).get_state("t") == state


def test_a_state_type_is_for_one_checkpointer_only(store):
    @dataclasses.dataclass
    class Private:
        n: int

    store.open(state_type=Private).put_state("t", Private(1))
    loaded = store.open().get_state("t")
    assert type(loaded) is clew.Record
    assert (loaded.type_name, dict(loaded)) == ("Private", {"n": 1})


@pytest.mark.parametrize("kind", [Step, Tool, Note, Model, Point, Colour, Level, Right, Kind])
def test_every_kind_of_class_may_be_registered(store, kind):
    samples: dict[Any, Any] = {
        Step: Step("x"),
        Tool: Tool("t", Point(1)),
        Note: Note("n"),
        Model: Model(name="m", point=None),
        Point: Point(1),
        Colour: Colour.CRIMSON,
        Level: Level.LOW,
        Right: Right(0),
        Kind: Kind.A,
    }
    checkpointer = store.open()
    checkpointer.registry.register(kind)
    state = {"deep": [(samples[kind],)], "at the top": samples[kind]}
    checkpointer.put_state("t", state)
    assert same(checkpointer.get_state("t"), state)
    checkpointer.put_state("u", samples[kind])
    assert same(checkpointer.get_state("u"), samples[kind])


def test_a_typed_dict_is_a_dict_and_needs_no_registration(store):
    assert clew.register(Typed) is Typed
    state: Typed = {"messages": ["a"], "count": 1}
    checkpointer = store.open(state_type=Typed)
    checkpointer.put_state("t", state)
    assert same(checkpointer.get_state("t"), state)


class Odd:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd) and other.n == self.n

    __hash__ = None  # type: ignore[assignment]


def test_any_other_class_is_registered_with_a_way_there_and_back(checkpointer):
    with pytest.raises(clew.ConfigError, match="encode="):
        clew.register(Odd)
    with pytest.raises(clew.ConfigError, match="both"):
        clew.register(Odd, encode=lambda odd: odd.n)
    clew.register(Odd, encode=lambda odd: odd.n, decode=Odd)
    checkpointer.put_state("t", {"odd": [Odd(3)]})
    assert checkpointer.get_state("t") == {"odd": [Odd(3)]}


def test_two_classes_may_not_have_one_name():
    first, second = (dataclasses.make_dataclass("Twice", [name]) for name in "ab")
    first.__module__, second.__module__ = "one", "two"
    clew.register(first)
    with pytest.raises(clew.ConfigError, match="already registered"):
        clew.register(second)
    assert clew.register(first) is first


class Unknown:
    pass


@dataclasses.dataclass
class Unregistered:
    n: int = 1


def test_what_cant_be_saved_is_named_by_its_path_before_anything_is_written(checkpointer):
    states: list[tuple[Any, str]] = [
        ({"plan": [0, 1, 2, {"owner": Unknown()}]}, "state.plan[3].owner"),
        ({"a b": {1: (Unknown(),)}}, "state['a b'][1][0]"),
        ([Unregistered()], "state[0]"),
        ({"f": {frozenset({Unknown()})}}, "state.f"),
        ({"f": lambda: 1}, "state.f"),
        ({Unknown(): 1}, "state"),
        (Unregistered(), "state"),
        ({"d": OrderedDict(x=[deque([Unknown()])])}, "state.d.x[0][0]"),
        ({"e": Unknown}, "state.e"),
        ({"e": [Exception("x")]}, "state.e[0]"),
        ({"g": (n for n in "ab")}, "state.g"),
        ({"s": Tool("x", Unknown())}, "state.s"),  # type: ignore[arg-type]
    ]
    for state, path in states:
        with pytest.raises(clew.UnsupportedTypeError) as caught:
            checkpointer.put_checkpoint("t", state, messages=[clew.Message(role="user")])
        assert str(caught.value.path).startswith(path)
        assert path in str(caught.value)
        assert "register" in str(caught.value) or "plain data" in str(caught.value)
        assert checkpointer.get_thread("t") is None
        checkpointer.put_state("t", {"ok": 1})
        with pytest.raises(clew.UnsupportedTypeError):
            checkpointer.put_state("t", state)
        assert checkpointer.get_state("t") == {"ok": 1}
        assert len(checkpointer.list_checkpoints("t")) == 1
        checkpointer.delete_thread("t")


# Processes that don't know the classes

_REGISTERED = """
import clew, dataclasses, enum, sys
class Colour(enum.Enum):
    RED = 1
@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    inner: object = None
clew.register(Colour); clew.register(Step)
state = {"plan": [Step("a", Step("b")), Colour.RED], "long": [Step(str(n) * 100) for n in range(50)]}
with clew.SQLiteCheckpointer(sys.argv[1]) as checkpointer:
    if sys.argv[2] == "write":
        checkpointer.put_state("t", state)
    else:
        assert checkpointer.get_state("t") == state, checkpointer.get_state("t")
        assert checkpointer.get_state("copy") == {**state, "seen": True}
"""
_STRANGER = """
import clew, sys
with clew.SQLiteCheckpointer(sys.argv[1]) as checkpointer:
    state = checkpointer.get_state("t")
    first, colour = state["plan"]
    assert type(first) is clew.Record and first.type_name == "Step", first
    assert first["name"] == "a" and dict(first["inner"])["name"] == "b" and list(first) == ["name", "inner"]
    assert type(colour) is clew.Record and colour.type_name == "Colour"
    checkpointer.put_state("copy", {**state, "seen": True})
    checkpointer.put_state("t", state)
"""


def test_a_process_without_the_classes_reads_records_and_saving_them_again_loses_nothing(tmp_path):
    path = tmp_path / "clew.db"
    python(_REGISTERED, path, "write")
    python(_STRANGER, path)
    python(_REGISTERED, path, "check")


@pytest.mark.parametrize("state", [{"s": {Colour.RED}}, {"d": {Step("a"): 1}}, {"f": frozenset({Point(1)})}])
def test_records_may_be_members_of_sets_and_keys_of_dicts(store, state):
    writer = store.open()
    writer.registry.register(Everything)
    writer.put_state("t", state)
    loaded = store.open().get_state("t")
    store.open().put_state("copy", loaded)
    assert writer.get_state("copy") == state


def test_saved_data_names_no_code_to_run(store, monkeypatch):
    """A record may name any class; nothing is imported or called for it."""
    hostile = clew.Record("os.system", {"command": "exit 1"})
    imported = set(sys.modules)
    checkpointer = store.open()
    for name in ("os.system", "subprocess.Popen", "builtins.eval", "antigravity", "__import__", ""):
        checkpointer.put_state(f"t{name}", {"x": clew.Record(name, {"args": ["antigravity"]})})
        loaded = store.open().get_state(f"t{name}")
        assert type(loaded["x"]) is clew.Record
        assert loaded["x"].type_name == name
    checkpointer.put_state("t", hostile)
    assert store.open().get_state("t") == hostile
    assert "antigravity" not in set(sys.modules) - imported


def test_a_class_that_has_changed_too_much_is_named_with_its_thread_and_is_no_damage(store):
    class Old(enum.Enum):
        PLAN = 1

    class New(enum.Enum):
        PLANNING = 1

    old, new = store.open(), store.open()
    old.registry.register(Old, name="Phase")
    new.registry.register(New, name="Phase")
    old.put_checkpoint("t", {"phase": Old.PLAN}, metadata={"phase": Old.PLAN}, messages=[clew.Message(role="user")])
    with pytest.raises(clew.ConfigError, match=r"thread 't'.*New can't be built.*KeyError: 'PLAN'.*decode=") as caught:
        new.get_state("t")
    assert (caught.value.thread_id, caught.value.type_name) == ("t", "Phase")
    # Lists still work, and the stored data is intact.
    assert len(new.list_checkpoints("t")) == 1
    assert len(new.list_messages("t")) == 1
    old.put_state("u", {"phase": Old.PLAN})
    new.delete_thread("t")
    assert new.verify().ok


def test_a_class_that_gained_and_lost_fields_still_loads(store):
    @dataclasses.dataclass
    class Old:
        kept: int
        lost: int = 0

    @dataclasses.dataclass
    class New:
        kept: int
        gained: list[int] = dataclasses.field(default_factory=list)

    old, new = store.open(), store.open()
    old.registry.register(Old, name="Grown")
    new.registry.register(New, name="Grown")
    old.put_state("t", Old(7, 8))
    assert new.get_state("t") == New(7, [])

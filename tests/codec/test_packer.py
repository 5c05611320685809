"""Packing: round trips of types and classes, errors with their paths, and detection of damage."""

from __future__ import annotations

import enum
import random
import zlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.codec.frame import seal, unseal
from clew.codec.packer import MAX_DEPTH, Packer
from clew.codec.registry import Record, Registry
from clew.errors import ConfigError, CorruptRecordError, SchemaVersionError, UnsupportedTypeError


class Colour(enum.Enum):
    RED = 1


class Weekday(enum.StrEnum):
    MONDAY = "mon"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    colour: Colour


@dataclass
class Plan:
    steps: list[Step]
    notes: dict[str, Any] = field(default_factory=dict)


class Person(pydantic.BaseModel):
    name: str
    age: int = 3


class Order(msgspec.Struct, frozen=True):
    lines: list[int]


@attrs.define
class Car:
    wheels: int = 4


class Point(NamedTuple):
    x: int
    y: int


class Typed(TypedDict):
    a: int


def packer(*classes: type) -> Packer:
    registry = Registry()
    for cls in classes:
        registry.register(cls)
    return Packer(registry)


@pytest.mark.parametrize(
    "value",
    [
        Plan([Step("a", Colour.RED)], {"k": (1,)}),
        Person(name="x"),
        Person(name="x", age=3),
        Order([1, 2]),
        Car(3),
        Point(1, 2),
        Colour.RED,
        Weekday.MONDAY,
        Rights.READ | Rights.WRITE,
    ],
    ids=repr,
)
def test_an_object_of_a_registered_class_comes_back_as_it_was(value: Any) -> None:
    back = packer(type(value)).unpack(packer(type(value)).pack({"deep": [value]}))["deep"][0]
    assert back == value
    assert type(back) is type(value)


def test_registering_a_class_registers_the_classes_of_its_fields() -> None:
    registry = Registry()
    registry.register(Plan)
    assert registry.by_class(Step) is not None
    assert registry.by_class(Colour) is not None


def test_a_pydantic_model_keeps_which_fields_were_set() -> None:
    back = packer(Person).unpack(packer(Person).pack(Person(name="x")))
    assert back.model_dump(exclude_unset=True) == {"name": "x"}


def test_a_field_that_a_class_has_gained_since_gets_its_default() -> None:
    old = packer().unpack(packer(Car).pack(Car()))
    assert old == Record("Car", {"wheels": 4})
    assert packer(Car).unpack(packer().pack(Record("Car", {}))) == Car(4)


def test_a_class_that_is_not_registered_comes_back_as_a_record_that_saves_the_same() -> None:
    packed = packer(Plan).pack(Plan([Step("a", Colour.RED)]))
    record = packer().unpack(packed)
    assert isinstance(record, Record)
    assert record["steps"][0]["name"] == "a"
    assert packer().pack(record) == packed


def test_a_custom_class_is_saved_through_its_own_functions() -> None:
    registry = Registry()
    registry.register(range, encode=lambda r: [r.start, r.stop], decode=lambda pair: range(*pair))
    both = Packer(registry)
    assert both.unpack(both.pack({"r": range(2, 9)})) == {"r": range(2, 9)}


def test_two_classes_of_one_name_need_different_names() -> None:
    registry = Registry()
    registry.register(Plan)
    other: type = dataclass(type("Plan", (), {"__module__": "elsewhere"}))
    with pytest.raises(ConfigError, match="name="):
        registry.register(other)
    registry.register(other, name="OtherPlan")


def test_a_class_without_fields_can_only_be_registered_with_functions() -> None:
    with pytest.raises(ConfigError, match="encode="):
        Registry().register(object)
    with pytest.raises(ConfigError, match="both"):
        Registry().register(range, encode=list)


def test_a_typed_dict_is_a_plain_dict() -> None:
    assert Registry().register(Typed) is Typed


@pytest.mark.parametrize(
    ("state", "path"),
    [
        ({"plan": [1, 2, 3, {"owner": object()}]}, "state.plan[3].owner"),
        ({"a b": (1, {2: print})}, "state['a b'][1][2]"),
        ({"x": "\ud800"}, "state.x"),
        ({"plan": Plan([], {"n": {1, frozenset({object})}})}, "state.plan"),
        ({"c": Point(1, 2)}, "state.c"),
    ],
)
def test_what_cannot_be_saved_is_named_by_its_path(state: Any, path: str) -> None:
    with pytest.raises(UnsupportedTypeError) as caught:
        packer(Plan).pack(state)
    assert caught.value.path.startswith(path)
    assert path in str(caught.value)


def test_circles_are_refused_wherever_they_close() -> None:
    looped: dict[str, Any] = {"a": []}
    looped["a"].append((looped,))
    with pytest.raises(UnsupportedTypeError, match="contains itself"):
        packer().pack(looped)


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: (x,), lambda x: {"k": x}, lambda x: {1: x}])
def test_over_deep_nesting_is_refused_and_deep_nesting_is_not(wrap: Any) -> None:
    deep: Any = None
    for _ in range(MAX_DEPTH - 60):
        deep = wrap(deep)
    assert packer().unpack(packer().pack(deep)) == deep
    for _ in range(5000):
        deep = wrap(deep)
    with pytest.raises(UnsupportedTypeError, match="deeper than"):
        packer().pack(deep)


def test_data_that_names_a_class_does_not_import_or_call_it() -> None:
    hostile = {"__class__": "os.system", "py/object": "subprocess.Popen", "type": ["id", "builtins", "exec"], "lc": 2}
    assert packer().unpack(packer().pack(hostile)) == hostile
    assert packer().unpack(packer().pack(Record("os.system", {"command": "x"}))) == Record(
        "os.system", {"command": "x"}
    )


def test_an_ordered_dict_keeps_its_type_and_its_order() -> None:
    back = packer().unpack(packer().pack({"o": OrderedDict(b=1, a=2)}))["o"]
    assert type(back) is OrderedDict
    assert list(back) == ["b", "a"]


def test_equal_sets_become_equal_bytes() -> None:
    words = [f"word {n}" for n in range(100)]
    shuffled = words[:]
    random.Random(1).shuffle(shuffled)
    assert packer().pack(set(words)) == packer().pack(set(shuffled))


@given(st.binary(max_size=3000), st.data())
def test_any_flipped_bit_of_a_frame_is_noticed(content: bytes, data: st.DataObject) -> None:
    sealed = seal(content)
    assert unseal(sealed) == content
    at = data.draw(st.integers(0, len(sealed) - 1))
    broken = bytearray(sealed)
    broken[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises((CorruptRecordError, SchemaVersionError)):
        unseal(bytes(broken))


@given(st.binary(max_size=200))
def test_rubbish_is_never_decoded_into_a_crash(rubbish: bytes) -> None:
    try:
        packer().unpack(rubbish)
    except CorruptRecordError:
        pass


def test_a_frame_of_a_newer_format_says_so() -> None:
    with pytest.raises(SchemaVersionError, match="upgrade clew"):
        unseal(b"\xc1\xf0" + zlib.crc32(b"\xf0newer").to_bytes(4, "little") + b"newer")


def test_a_record_shows_the_fields_and_not_what_was_noted_about_them() -> None:
    class Trip(pydantic.BaseModel):
        city: str
        mood: str = "calm"

    registry = Registry()
    registry.register(Trip)
    packed = Packer(registry).pack(Trip(city="Lisbon"))
    loaded = Packer(Registry()).unpack(packed)
    assert dict(loaded) == {"city": "Lisbon", "mood": "calm"}
    assert len(loaded) == 2
    assert repr(loaded) == "Record(type_name='Trip', fields={'city': 'Lisbon', 'mood': 'calm'})"
    assert Packer(registry).unpack(Packer(Registry()).pack(loaded)).model_fields_set == {"city"}

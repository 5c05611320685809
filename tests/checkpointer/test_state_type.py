"""States as the class that `state_type=` names: what is loaded is of that type."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest

import clew


@dataclass
class Leg:
    to: str
    at: datetime | None = None


@dataclass
class Trip:
    city: str
    legs: list[Leg] = field(default_factory=list)


class Model(pydantic.BaseModel):
    city: str
    legs: list[Leg] = []


class Struct(msgspec.Struct):
    city: str
    legs: list[Leg] = []


@attrs.define
class Attrs:
    city: str
    legs: list[Leg] = attrs.field(factory=list)


class Named(NamedTuple):
    city: str
    legs: list[Leg]


class Chat(TypedDict):
    city: str


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
PLAIN: dict[str, Any] = {"city": "Lisbon", "legs": [{"to": "Porto", "at": NOON}]}


@pytest.mark.parametrize("cls", [Trip, Model, Struct, Attrs, Named])
def test_a_dict_is_loaded_as_the_class_of_the_states(store, cls: Any):
    store.open().put_state("t", PLAIN)  # before the program had a class
    memory = store.open(state_type=cls)
    wanted = cls(city="Lisbon", legs=[Leg("Porto", NOON)])
    config = {"thread_id": "t"}
    loaded = memory.get_state(config)
    assert loaded == wanted
    assert type(loaded) is cls
    assert memory.get_state(config) == wanted  # from memory
    assert memory.get_checkpoint(config).state == wanted
    assert memory.get_history(config)[0].state == wanted
    assert memory.get_state_cache(config) == wanted
    with memory.turn(config) as turn:
        assert turn.state == wanted
    memory.put_state_cache(config, PLAIN)
    assert memory.get_state_cache(config) == wanted
    assert store.open(state_type=cls).get_state(config) == wanted


def test_an_object_of_the_class_stays_what_it_is(checkpointer, store):
    memory = store.open(state_type=Trip)
    trip = Trip("Lisbon", [Leg("Porto", NOON)])
    memory.put_state("t", trip)
    assert memory.get_state("t") == trip
    with memory.turn("new", begin={"city": "Faro"}) as turn:
        assert turn.state == Trip("Faro")
        turn.state.legs.append(Leg("Olhao"))
    assert memory.get_state("new") == Trip("Faro", [Leg("Olhao")])
    assert memory.get_state("nothing") is None


def test_a_typed_dict_stays_a_dict(store):
    memory = store.open(state_type=Chat)
    memory.put_state("t", {"city": "Lisbon"})
    assert memory.get_state("t") == {"city": "Lisbon"}
    assert type(memory.get_state("t")) is dict
    with memory.turn("t") as turn:
        assert turn.state == {"city": "Lisbon"}


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"city": "Lisbon", "budget": 900}, "with the field 'budget', which Trip, .* does not have"),
        ({"city": 5}, "does not fit Trip"),
        ({}, "does not fit Trip"),
        ([1, 2], "of type list, not Trip"),
        ("Lisbon", "of type str, not Trip"),
        ({1: 2}, "with the field 1"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_nothing_is_lost(store, state: Any, said: str):
    store.open().put_state("t", state)
    memory = store.open(state_type=Trip)
    for load in (
        lambda: memory.get_state("t"),
        lambda: memory.get_history("t"),
        lambda: memory.turn("t").__enter__(),
    ):
        with pytest.raises(clew.ConfigError, match=said):
            load()
    assert store.open().get_state("t") == state
    assert memory.verify().ok
    with memory.lease("t"):
        pass  # a turn that failed holds nothing


@pytest.mark.parametrize("cls", [dict, list])
def test_a_built_in_type_is_checked(store, cls: Any):
    memory = store.open(state_type=cls)
    memory.put_state("t", cls())
    assert memory.get_state("t") == cls()
    store.open().put_state("t", "text")
    with pytest.raises(clew.ConfigError, match=f"of type str, not {cls.__name__}"):
        memory.get_state("t")


@pytest.mark.parametrize("durability", ["sync", "background"])
@pytest.mark.parametrize("cls", [Trip, Model, Struct, Attrs, Named])
def test_a_state_that_could_not_be_loaded_is_not_saved(store, cls: Any, durability: str):
    memory = store.open(state_type=cls, durability=durability)
    memory.put_state("t", PLAIN)
    for wrong, why in (({"ctiy": "Porto"}, "field 'ctiy'"), ("text", "of type str"), ([PLAIN], "of type list")):
        with pytest.raises(clew.ConfigError, match=why):
            memory.put_state("t", wrong)
        with pytest.raises(clew.ConfigError, match=why):
            memory.put_checkpoint("t", wrong, messages=[{"role": "user", "content": "hi"}])
        with pytest.raises(clew.ConfigError, match=why):
            memory.put_state_cache("t", wrong)
        with pytest.raises(clew.ConfigError, match=why), memory.turn("t") as turn:
            turn.state = wrong
    assert memory.get_state("t") == cls(city="Lisbon", legs=[Leg("Porto", NOON)])
    assert len(memory.list_checkpoints("t")) == 1
    assert memory.list_messages("t") == []


def test_a_mapping_that_is_no_dict_is_saved_if_it_fits(store):
    memory = store.open(state_type=Trip)
    memory.put_state("t", OrderedDict(city="Lisbon"))
    assert memory.get_state("t") == Trip("Lisbon")


def test_a_pydantic_model_that_takes_everything_keeps_everything():
    class Open(pydantic.BaseModel, extra="allow"):
        city: str

    memory = clew.InMemoryCheckpointer(state_type=Open)
    memory.put_state("t", {"city": "Lisbon", "budget": 900})  # type: ignore[arg-type]
    loaded = memory.get_state("t")
    assert loaded is not None
    assert loaded.model_dump() == {"city": "Lisbon", "budget": 900}


class Opaque:
    def __init__(self, n: int) -> None:
        self.n = n


@dataclass
class Holder:
    opaque: Opaque


def test_values_of_the_programs_own_classes_are_taken_as_they_are():
    memory = clew.InMemoryCheckpointer(state_type=Holder)
    memory.registry.register(Opaque, encode=lambda each: each.n, decode=Opaque)
    memory.put_state("t", {"opaque": Opaque(5)})  # type: ignore[arg-type]
    loaded = memory.get_state("t")
    assert loaded is not None
    assert loaded.opaque.n == 5


def test_annotations_that_can_t_be_resolved_are_named():
    class Inner:
        pass

    @dataclass
    class Outer:
        inner: Inner

    memory = clew.InMemoryCheckpointer(state_type=Outer)
    with pytest.raises(clew.ConfigError, match="Inner"):
        memory.put_state("t", {"inner": None})  # type: ignore[arg-type]

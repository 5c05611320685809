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
import typing_extensions

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


class Extended(typing_extensions.TypedDict):
    city: typing_extensions.Required[str]
    nights: typing_extensions.NotRequired[int]


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
PLAIN: dict[str, Any] = {"city": "Lisbon", "legs": [{"to": "Porto", "at": NOON}]}


@pytest.mark.parametrize("cls", [Chat, Extended])
def test_a_typed_dict_refuses_states_that_are_no_dict_or_have_other_keys(store, cls: Any):
    memory = store.open(state_type=cls)
    for wrong in (["Lisbon"], "Lisbon", {"town": "Lisbon"}, Trip(city="Lisbon", legs=[])):
        with pytest.raises(clew.ConfigError, match="state_type"):
            memory.put_state("t", wrong)
    with pytest.raises(clew.ConfigError, match="town"):
        memory.update_state("t", set={"town": "Lisbon"})
    assert memory.get_state("t") is None
    memory.put_state("t", {"city": "Lisbon"})
    memory.put_state("u", {})  # a state that is built key by key
    assert memory.get_state("t") == {"city": "Lisbon"}


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


def test_an_object_of_another_class_is_neither_loaded_nor_saved_although_its_fields_fit(store):
    record = clew.Record("Hotel", {"city": "Lisbon"})
    store.open().put_state("t", record)
    memory = store.open(state_type=Trip)
    with pytest.raises(clew.ConfigError, match="an object of the class Hotel, not Trip"):
        memory.get_state("t")
    with pytest.raises(clew.ConfigError, match="an object of the class Hotel, not Trip"):
        memory.put_state("t", record)
    assert store.open().get_state("t") == record


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


@dataclass
class Kept:
    city: str
    nights: int = 1
    tags: list[str] = field(default_factory=list)
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = 100 * self.nights


class KeptModel(pydantic.BaseModel):
    city: str
    nights: int = 1
    tags: list[str] = []


class KeptStruct(msgspec.Struct):
    city: str
    nights: int = 1
    tags: list[str] = []


class HookedStruct(msgspec.Struct):
    city: str
    nights: int = 1
    tags: list[str] = []

    def __post_init__(self) -> None:
        pass


@attrs.define
class KeptAttrs:
    city: str
    nights: int = 1
    tags: list[str] = attrs.field(factory=list)
    shown: str = attrs.field()

    @shown.default
    def _shown(self) -> str:
        return self.city.upper()


class KeptNamed(NamedTuple):
    city: str
    nights: int = 1
    tags: Any = ()


@attrs.define
class SimpleAttrs:
    city: str
    nights: int = 1


@dataclass
class SimpleData:
    city: str
    nights: int = 1


KEPT = [Kept, KeptModel, KeptStruct, HookedStruct, KeptAttrs, KeptNamed]


@pytest.mark.parametrize("cls", KEPT)
@pytest.mark.parametrize("known", ["state_type", "registered"])
def test_a_field_that_the_class_needs_can_t_be_removed(store, cls: Any, known: str):
    memory = store.open(state_type=cls) if known == "state_type" else store.open()
    memory.registry.register(cls)
    memory.put_state("t", cls(city="Faro", nights=3))
    with pytest.raises(clew.ConfigError, match=r"needs its field 'city'.*set another value"):
        memory.update_state("t", set={"nights": 2}, remove=["city"])
    assert memory.get_state("t") == cls(city="Faro", nights=3)
    memory.update_state("t", set={"city": "Olhao"}, remove=["city", "unknown"])
    assert memory.get_state("t").city == "Olhao"


@pytest.mark.parametrize("cls", KEPT)
@pytest.mark.parametrize("stranger", [False, True])
def test_a_removed_field_comes_back_as_its_default(store, cls: Any, stranger: bool):
    memory = store.open(state_type=cls)
    memory.put_state("t", cls(city="Faro", nights=3, tags=["a"]))
    (store.open() if stranger else memory).update_state("t", remove=["nights", "tags"])
    for reader in (memory, store.open(state_type=cls)):
        loaded = reader.get_state("t")
        assert (loaded.city, loaded.nights, list(loaded.tags)) == ("Faro", 1, [])
        assert "Faro" in repr(loaded)


def test_a_default_that_is_made_from_the_object_comes_back_too(store):
    memory = store.open(state_type=KeptAttrs)
    memory.put_state("t", KeptAttrs("Faro", shown="far"))
    memory.update_state("t", remove=["shown"])
    assert memory.get_state("t") == KeptAttrs("Faro")


def test_a_field_that_only_the_class_itself_sets_can_t_be_removed(store):
    memory = store.open(state_type=Kept)
    memory.put_state("t", Kept("Faro", 3))
    with pytest.raises(clew.ConfigError, match="needs its field 'total'"):
        memory.update_state("t", remove=["total"])
    assert memory.get_state("t").total == 300


@pytest.mark.parametrize("cls", KEPT)
def test_an_object_without_a_field_that_its_class_needs_is_not_loaded(store, cls: Any):
    memory = store.open(state_type=cls)
    memory.put_state("t", cls(city="Faro"))
    stranger = store.open()
    stranger.update_state("t", remove=["city"])  # It does not know the class.
    for reader in (memory, store.open(state_type=cls)):
        with pytest.raises(clew.ConfigError, match="'city'"):
            reader.get_state("t")
    assert "city" not in stranger.get_state("t")
    memory.update_state("t", set={"city": "Olhao"})
    assert memory.get_state("t").city == "Olhao"


@pytest.mark.parametrize("cls", [KeptModel, KeptStruct, HookedStruct, KeptNamed, SimpleAttrs, SimpleData])
def test_an_update_of_a_dict_leaves_one_that_can_be_loaded(store, cls: Any):
    store.open().put_state("t", {"city": "Faro", "nights": 3})
    memory = store.open(state_type=cls)
    with pytest.raises(clew.ConfigError, match=r"without the field 'city'.*set it, too"):
        memory.update_state("t", remove=["city"])
    with pytest.raises(clew.ConfigError, match="field 'zzz'"):
        memory.update_state("t", set={"zzz": 1})
    with pytest.raises(clew.ConfigError, match="without the field 'city'"):
        memory.update_state("new", set={"nights": 2})
    assert memory.get_state("new") is None
    memory.update_state("t", remove=["nights"])
    memory.update_state("new", set={"city": "Faro"})
    for thread in ("t", "new"):
        loaded = memory.get_state(thread)
        assert (type(loaded), loaded.city, loaded.nights) == (cls, "Faro", 1)


@pytest.mark.parametrize(("cls", "own"), [(Kept, "total"), (KeptAttrs, "shown")])
def test_a_dict_is_refused_for_a_class_whose_own_fields_it_lacks(store, cls: Any, own: str):
    store.open().put_state("t", {"city": "Faro"})
    memory = store.open(state_type=cls)
    with pytest.raises(clew.ConfigError, match="does not fit"):
        memory.get_state("t")
    with pytest.raises(clew.ConfigError, match=f"without the field '{own}'"):
        memory.update_state("t", set={"nights": 2})


def test_an_update_of_a_dict_knows_the_aliases_of_a_model(store):
    class Aliased(pydantic.BaseModel):
        city: str = pydantic.Field(alias="cityName")
        code: str = pydantic.Field(validation_alias=pydantic.AliasChoices("code", "zip"))

    memory = store.open(state_type=Aliased)
    memory.update_state("t", set={"cityName": "Faro", "code": "8000"})
    assert memory.get_state("t").city == "Faro"
    with pytest.raises(clew.ConfigError, match="'city'"):
        memory.update_state("t", remove=["cityName"])


def test_an_object_that_was_saved_without_a_field_is_loaded_without_it(store):
    partial = KeptModel.model_construct(nights=2)
    memory = store.open(state_type=KeptModel)
    memory.put_state("t", partial)
    for reader in (memory, store.open(state_type=KeptModel)):
        assert reader.get_state("t") == partial
        assert not hasattr(reader.get_state("t"), "city")
    kept = Kept("Faro")
    del kept.city
    other = store.open(state_type=Kept)
    other.put_state("u", kept)
    loaded = store.open(state_type=Kept).get_state("u")
    assert vars(loaded) == vars(kept)
    other.update_state("u", set={"city": "Olhao"})
    assert store.open(state_type=Kept).get_state("u") == Kept("Olhao")
    assert set(store.open().get_state("u")) == {"city", "nights", "tags", "total"}


def test_a_typed_dict_and_a_dict_may_lose_any_field(store):
    for cls, more in ((Chat, {}), (dict, {"more": 1})):
        memory = store.open(state_type=cls)
        memory.put_state("t", {"city": "Lisbon"})
        memory.update_state("t", remove=["city"], set=more)
        assert memory.get_state("t") == more

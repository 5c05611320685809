"""Objects of registered classes load unchanged; unsupported classes are refused at registration."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
import threading
from datetime import UTC, time, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import msgspec
import ormsgpack
import pydantic
import pytest

from clew.codec.packer import Packer
from clew.codec.registry import Record, Registry
from clew.errors import ConfigError, CorruptRecordError, UnsupportedTypeError


def packer(*classes: type, **named: Any) -> Packer:
    registry = Registry()
    for cls in classes:
        registry.register(cls)
    for name, cls in named.items():
        registry.register(cls, name=name)
    return Packer(registry)


def back(obj: Any) -> Any:
    """Return `obj` as another process loads it."""
    return packer(type(obj)).unpack(packer(type(obj)).pack({"it": [obj]}))["it"][0]


# Exceptions and other built-in types


@dataclasses.dataclass
class ToolError(Exception):
    tool: str
    code: int


@attrs.define
class Refused(ValueError):
    msg: str


@pytest.mark.parametrize("error", [ToolError("search", 3), Refused("no")], ids=repr)
def test_an_exception_with_fields_comes_back_with_its_arguments_and_notes(error: Exception) -> None:
    error.add_note("seen")
    loaded = back(error)
    assert type(loaded) is type(error)
    assert (str(loaded), loaded.args, loaded.__notes__) == (str(error), error.args, ["seen"])
    assert [getattr(loaded, name) for name in ("tool", "code") if hasattr(error, name)] == list(
        error.args if isinstance(error, ToolError) else ()
    )


@pytest.mark.parametrize("base", [dict, list, str, int, tuple, set, OSError], ids=lambda base: base.__name__)
def test_a_class_whose_objects_hold_more_than_their_fields_is_refused_when_it_is_registered(base: type) -> None:
    for make in (dataclasses.dataclass, attrs.define(slots=False)):
        cls = make(type("Box", (base,), {"__annotations__": {"x": int}, "x": 1}))
        with pytest.raises(ConfigError, match="encode="):
            Registry().register(cls)
        holder = dataclasses.make_dataclass("Holder", [("box", cls)])
        registry = Registry()
        registry.register(holder)
        assert registry.by_class(cls) is None


def test_such_a_class_can_be_saved_with_encode_and_decode() -> None:
    @dataclasses.dataclass
    class Box(dict):  # type: ignore[type-arg]
        x: int = 1

    registry = Registry()
    registry.register(Box, encode=lambda box: [box.x, dict(box)], decode=lambda saved: Box(saved[0]))
    both = Packer(registry)
    assert both.unpack(both.pack(Box(7))).x == 7


# Classes that have changed


class Phase(enum.Enum):
    PLAN = "plan"


class Renamed(enum.Enum):
    PLANNING = "plan"


def test_a_class_that_cant_be_built_from_stored_fields_is_named_and_not_reported_as_damage() -> None:
    packed = packer(Phase=Phase).pack([Phase.PLAN])
    with pytest.raises(ConfigError, match=r"Renamed can't be built .*'Phase' \(KeyError: 'PLAN'\).*decode=") as caught:
        packer(Phase=Renamed).unpack(packed)
    assert caught.value.type is Renamed


def test_a_struct_that_lacks_a_field_that_it_needs_is_named() -> None:
    class Old(msgspec.Struct):
        n: int

    class New(msgspec.Struct):
        n: int
        needed: int

    with pytest.raises(ConfigError, match="needed"):
        packer(It=New).unpack(packer(It=Old).pack(Old(1)))


def test_whatever_a_decode_function_raises_names_the_class() -> None:
    class Odd:
        pass

    def failing(saved: Any) -> Odd:
        raise OSError("no such thing")

    registry = Registry()
    registry.register(Odd, encode=lambda odd: 1, decode=failing)
    with pytest.raises(ConfigError, match=r"Odd can't be built.*no such thing") as caught:
        Packer(registry).unpack(Packer(registry).pack(Odd()))
    assert isinstance(caught.value.__cause__, OSError)


def test_a_class_that_is_given_a_decode_function_reads_the_fields_that_were_stored_before() -> None:
    registry = Registry()
    registry.register(
        Renamed,
        name="Phase",
        encode=lambda member: member.value,
        decode=lambda saved: Renamed.PLANNING if saved == {"name": "PLAN"} else Renamed(saved),
    )
    both = Packer(registry)
    assert both.unpack(packer(Phase=Phase).pack(Phase.PLAN)) is Renamed.PLANNING
    assert both.unpack(both.pack(Renamed.PLANNING)) is Renamed.PLANNING


def test_a_record_without_fields_is_damage() -> None:
    packed = ormsgpack.packb(ormsgpack.Ext(13, ormsgpack.packb("ToolError") + ormsgpack.packb([1])))
    with pytest.raises(CorruptRecordError):
        packer(ToolError).unpack(packed)


# Hooks, and attributes that are not fields


@dataclasses.dataclass
class Indexed:
    items: list[int]

    def __post_init__(self) -> None:
        self._by_id = {item: -item for item in self.items}

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile("a")


@attrs.define(slots=False)
class Counted:
    n: int

    def __attrs_post_init__(self) -> None:
        self.n += 1
        self.seen = [self.n]


def test_attributes_beyond_the_fields_come_back_and_cached_properties_are_computed_again() -> None:
    indexed = Indexed([1, 2])
    assert indexed.pattern.pattern == "a"
    indexed._by_id[3] = 3
    loaded = back(indexed)
    assert vars(loaded) == {"items": [1, 2], "_by_id": {1: -1, 2: -2, 3: 3}}
    assert vars(back(Counted(1))) == {"n": 2, "seen": [2]}


def test_a_lock_or_a_client_beyond_the_fields_is_left_out_and_what_holds_one_is_named_by_its_path() -> None:
    indexed = Indexed([1])
    indexed.__dict__["_lock"] = threading.Lock()
    assert vars(back(indexed)) == {"items": [1], "_by_id": {1: -1}}
    indexed.__dict__["_locks"] = [threading.Lock()]
    with pytest.raises(UnsupportedTypeError) as caught:
        packer(Indexed).pack({"a": indexed})
    assert caught.value.path == "state.a._locks[0]"


class Bumped(msgspec.Struct, frozen=True):
    n: int
    tags: list[str] = []
    more: int = 5

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "n", self.n + 1)
        self.tags.append("made")


def test_the_hook_of_a_struct_changes_nothing_of_what_is_loaded() -> None:
    one, other = Bumped(1), Bumped(5, ["x"])
    both = packer(Bumped)
    assert both.unpack(both.pack([one, other])) == [one, other]
    assert (one.n, one.tags, other.tags) == (2, ["made"], ["x", "made"])
    assert both.unpack(packer().pack(Record("Bumped", {"n": 3, "gone": 1}))).more == 5


class Private(pydantic.BaseModel):
    x: int = 1
    y: int = 2
    _secret: str = pydantic.PrivateAttr(default="default")
    _never: int = pydantic.PrivateAttr()
    _cache: dict[str, int] = pydantic.PrivateAttr(default_factory=dict)
    _lock: Any = pydantic.PrivateAttr(default_factory=threading.Lock)

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile("a")


def test_a_pydantic_model_keeps_its_private_attributes_but_locks_which_are_made_anew() -> None:
    model = Private(y=3)
    model._secret, model._cache["k"] = "changed", 1
    loaded = back(model)
    assert (loaded._secret, loaded._cache) == ("changed", {"k": 1})
    assert type(loaded._lock) is type(model._lock)
    assert not hasattr(loaded, "_never")
    assert loaded.model_dump(exclude_unset=True) == {"y": 3}
    assert packer(Private).unpack(packer().pack(Record("Private", {"x": 5})))._secret == "default"


def test_the_used_cached_property_of_a_pydantic_model_is_not_saved() -> None:
    model = Private()
    assert model.pattern.pattern == "a"
    assert vars(back(model)) == {"x": 1, "y": 2}


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: int = 1

    @functools.cached_property
    def double(self) -> int:
        return self.x * 2


def test_what_a_pydantic_model_has_extra_comes_back_as_extra() -> None:
    model = Open.model_validate({"z": 1})
    assert model.double == 2
    loaded = back(model)
    assert (loaded.model_extra, loaded.model_fields_set, vars(loaded)) == ({"z": 1}, {"z"}, {"x": 1})


class Crossed(pydantic.BaseModel):
    a: int = pydantic.Field(alias="b")
    b: int = pydantic.Field(alias="a")
    _p: int = pydantic.PrivateAttr(default=0)


class Hooked(pydantic.BaseModel):
    a: int = pydantic.Field(default=0, validation_alias="A")
    made: list[int] = pydantic.Field(default_factory=lambda data: [data["a"]])

    def model_post_init(self, context: object) -> None:
        self.a += 1


class Numbers(pydantic.RootModel[list[int]]):
    pass


def test_pydantic_models_are_loaded_without_their_aliases_and_hooks() -> None:
    assert vars(back(Crossed.model_validate({"a": 1, "b": 2}))) == {"a": 2, "b": 1}
    assert back(Hooked.model_validate({"A": 1})).a == 2
    assert packer(Hooked).unpack(packer().pack(Record("Hooked", {"a": 7}))).made == [7]
    assert back(Numbers([1, 2])) == Numbers([1, 2])
    assert vars(back(Numbers([1]))) == {"root": [1]}


# Times


class Nowhere(tzinfo):
    def utcoffset(self, moment: object) -> None:
        return None

    def dst(self, moment: object) -> None:
        return None

    def tzname(self, moment: object) -> None:
        return None


@pytest.mark.parametrize(
    "zone", [None, UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("UTC"), timezone(timedelta(hours=-3.5))], ids=repr
)
def test_a_time_keeps_its_zone(zone: tzinfo | None) -> None:
    loaded = packer().unpack(packer().pack(time(12, 1, 2, 3, tzinfo=zone, fold=1)))
    assert (repr(loaded.tzinfo), repr(loaded)) == (repr(zone), repr(time(12, 1, 2, 3, tzinfo=zone, fold=1)))


def test_a_time_whose_zone_would_be_lost_is_refused() -> None:
    with pytest.raises(UnsupportedTypeError, match="ZoneInfo") as caught:
        packer().pack({"at": [time(1, tzinfo=Nowhere())]})
    assert caught.value.path == "state.at[0]"


def test_a_time_in_an_unknown_zone_raises_a_config_error() -> None:
    packed = packer().pack(time(1, tzinfo=ZoneInfo("Europe/Berlin"))).replace(b"Berlin", b"Nirgnd")
    with pytest.raises(ConfigError, match="Europe/Nirgnd"):
        packer().unpack(packed)


# Old data stays readable


def test_the_stored_form_of_a_time_in_a_zone_is_read() -> None:
    stored = b"\xc7\x19\x10\x93\xa801:02:00\x01\xadEurope/Berlin"
    assert repr(packer().unpack(stored)) == repr(time(1, 2, fold=1, tzinfo=ZoneInfo("Europe/Berlin")))


def test_the_stored_form_of_attributes_beyond_the_fields_is_read() -> None:
    stored = (
        b"\xc77\r\xa9ToolError\x83\xa4tool\xa6search\xa4code\x03\xa7\x00beyond\x81\xa4args\xc7\t\x01\x92\xa6search\x03"
    )
    loaded = packer(ToolError).unpack(stored)
    assert (loaded.tool, loaded.code, loaded.args) == ("search", 3, ("search", 3))


def test_the_stored_form_of_fields_that_were_set_since_is_read() -> None:
    stored = (
        b"\xc76\r\xa7Private\x85\xa1x\x05\xa1y\x02\xa6\x00unset\x92\xa1x\xa1y"
        b"\xa6\x00set x\xc0\xa7\x00beyond\x81\xa7_secret\xa1s"
    )
    loaded = packer(Private).unpack(stored)
    assert (loaded.model_dump(exclude_unset=True), loaded._secret) == ({"x": 5}, "s")


def test_the_stored_form_of_fields_that_an_object_lacked_is_read() -> None:
    class Part(pydantic.BaseModel):
        x: int
        y: int = 2

    stored = b"\xc7\x13\r\xa4Part\x82\xa1y\x03\xa6\x00lacks\x91\xa1x"
    loaded = packer(Part=Part).unpack(stored)
    assert (loaded.__dict__, loaded.model_fields_set) == ({"y": 3}, {"y"})
    with pytest.raises(ConfigError, match="the field 'x' is missing"):
        packer(Part=Part).unpack(stored.replace(b"\xa1x", b"\xa1z"))


def _model(name: str, fields: list[str]) -> Any:
    return pydantic.create_model(name, **dict.fromkeys(fields, (int, ...)))  # type: ignore[call-overload]


@pytest.mark.parametrize("make", [dataclasses.make_dataclass, attrs.make_class, _model])
def test_a_new_field_without_a_default_is_named_by_loading(make: Any) -> None:
    old, new = make("Old", ["n"]), make("New", ["n", "needed"])
    with pytest.raises(ConfigError, match="the field 'needed' is missing and has no default"):
        packer(It=new).unpack(packer(It=old).pack(old(n=1)))

"""The closed type registry: the only classes that saved data can turn into.

Data holds names, never code: a name is looked up here, and one that was not registered comes back as a `Record`.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import ormsgpack

from clew.errors import ConfigError

T = TypeVar("T")
Fields = dict[str, Any]

_UNSET_FIELDS = "\0unset"
"""Where a pydantic model's record keeps the names of the fields that were left at their defaults."""


@dataclass(frozen=True, slots=True, eq=False)
class Record(Mapping[str, Any]):
    """An object of a class that is not registered in this process: its class's name and its fields.

    It reads like a mapping, and saving it again stores exactly what was there.
    """

    type_name: str
    fields: Mapping[str, Any]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return self.type_name == other.type_name and self.fields == other.fields

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __hash__(self) -> int:
        # Fields may hold what has no hash; names are enough to be a key.
        return hash((self.type_name, *sorted(self.fields)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How objects of one class are taken apart and put together."""

    name: str
    cls: type
    take_apart: Callable[[Any], Fields]
    put_together: Callable[[Fields], Any]
    has_fields: bool
    """Whether what it is taken apart into are fields that an edit may set."""
    only_fields: frozenset[str] | None = None
    """The only ones that an object can have, if that is known."""


class Registry:
    """Classes by name. A registry with a `parent` adds to it without changing it."""

    def __init__(self, parent: Registry | None = None) -> None:
        self._parent = parent
        self._by_class: dict[type, Entry] = {}
        self._by_name: dict[str, Entry] = {}
        self._by_packed_name: dict[bytes, Entry] = {}

    def register(
        self,
        cls: type[T],
        *,
        name: str | None = None,
        aliases: tuple[str, ...] = (),
        encode: Callable[[T], Any] | None = None,
        decode: Callable[[Any], T] | None = None,
    ) -> type[T]:
        """Let objects of `cls` be saved and come back as `cls`; returns `cls`, so it also works as a decorator.

        Dataclasses, pydantic models, msgspec structs, attrs classes, named tuples and enums need nothing more, and the
        classes that their fields are annotated with are registered too. Any other class needs `encode` (to plain
        data) and `decode` (back). `name` is what the data says (the class's own name if left out); `aliases` are
        earlier names that are still read.
        """
        if typing.is_typeddict(cls):
            return cls
        if (encode is None) is not (decode is None):
            raise ConfigError(f"register({cls.__name__}) needs both encode and decode, or neither")
        label = name or cls.__qualname__.rpartition("<locals>.")[2]
        if encode is not None and decode is not None:
            entry = _custom_entry(label, cls, encode, decode)
        else:
            entry = _entry(label, cls)
        for each in (label, *aliases):
            known = self.by_name(each)
            if known is not None and not _same_class(known.cls, cls):
                raise ConfigError(
                    f"the name {each!r} is taken by {known.cls.__module__}.{known.cls.__qualname__}; "
                    f"register {cls.__module__}.{cls.__qualname__} with another name="
                )
            self._by_name[each] = self._by_packed_name[ormsgpack.packb(each)] = entry
        self._by_class[cls] = entry
        if encode is None:
            for mentioned in _mentioned_classes(cls):
                if self.by_class(mentioned) is None:
                    self.register(mentioned)
        return cls

    def by_class(self, cls: type) -> Entry | None:
        entry = self._by_class.get(cls)
        return entry if entry is not None or self._parent is None else self._parent.by_class(cls)

    def by_name(self, name: str) -> Entry | None:
        entry = self._by_name.get(name)
        return entry if entry is not None or self._parent is None else self._parent.by_name(name)

    def by_packed_name(self, name: bytes) -> Entry | None:
        """The same for a name as msgpack: a list of a thousand objects names its class a thousand times."""
        entry = self._by_packed_name.get(name)
        return entry if entry is not None or self._parent is None else self._parent.by_packed_name(name)


DEFAULT_REGISTRY = Registry()
register = DEFAULT_REGISTRY.register


def is_saveable_class(cls: type) -> bool:
    """Whether `cls` is of a kind that `register` takes apart by itself."""
    return fields_of(cls) is not None or issubclass(cls, enum.Enum)


def _same_class(one: type, other: type) -> bool:
    # The same class again, after a module was reloaded or a notebook cell was run twice.
    return one is other or (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def _entry(name: str, cls: type) -> Entry:
    if issubclass(cls, enum.Enum):
        return _enum_entry(name, cls)
    fields = fields_of(cls)
    if fields is None:
        raise ConfigError(
            f"{cls.__qualname__} is not a dataclass, pydantic model, msgspec struct, attrs class, named tuple or enum: "
            f"register it with encode= (to plain data) and decode= (back)"
        )
    if hasattr(cls, "model_construct"):
        return _pydantic_entry(name, cls)
    names = tuple(fields)

    def take_apart(obj: Any) -> Fields:
        return {field: getattr(obj, field) for field in names if hasattr(obj, field)}

    if hasattr(cls, "__struct_fields__") or issubclass(cls, tuple):

        def put_together(values: Fields) -> Any:
            return cls(**{field: value for field, value in values.items() if field in fields})

    else:

        def put_together(values: Fields) -> Any:
            # Not through __init__: what comes back is what went in, not what a constructor makes of it.
            obj = object.__new__(cls)
            for field, default in fields.items():
                if field in values:
                    object.__setattr__(obj, field, values[field])
                elif default is not None:
                    object.__setattr__(obj, field, default())
            return obj

    return Entry(
        name=name,
        cls=cls,
        take_apart=take_apart,
        put_together=put_together,
        has_fields=True,
        only_fields=frozenset(names),
    )


def _pydantic_entry(name: str, cls: Any) -> Entry:
    def take_apart(obj: Any) -> Fields:
        values = {**obj.__dict__, **(obj.__pydantic_extra__ or {})}
        unset = sorted(set(values) - obj.__pydantic_fields_set__ - set(obj.__pydantic_extra__ or {}))
        return {**values, _UNSET_FIELDS: unset} if unset else values

    fields = frozenset(cls.model_fields)
    keeps_extra = cls.model_config.get("extra") == "allow"
    # What a model does beyond having fields is done by model_construct, which takes three times as long.
    plain = not cls.__private_attributes__ and not cls.__pydantic_post_init__ and not cls.__pydantic_root_model__

    def put_together(values: Fields) -> Any:
        unset = values.pop(_UNSET_FIELDS, ())
        if not plain or not fields <= values.keys():
            return cls.model_construct(_fields_set=values.keys() - unset, **values)
        given, extra = values.keys() - unset, {}
        if len(values) > len(fields):
            extra = {field: value for field, value in values.items() if field not in fields}
            values = {field: value for field, value in values.items() if field in fields}
        obj = cls.__new__(cls)
        object.__setattr__(obj, "__dict__", values)
        object.__setattr__(obj, "__pydantic_fields_set__", given)
        object.__setattr__(obj, "__pydantic_extra__", extra if keeps_extra else None)
        object.__setattr__(obj, "__pydantic_private__", None)
        return obj

    return Entry(name=name, cls=cls, take_apart=take_apart, put_together=put_together, has_fields=True)


def _enum_entry(name: str, cls: type[enum.Enum]) -> Entry:
    def take_apart(member: enum.Enum) -> Fields:
        # Only a combination of flags has no name of its own, or one that can't be looked up.
        return {"name": member.name} if member.name in cls.__members__ else {"value": member.value}

    def put_together(values: Fields) -> Any:
        return cls[values["name"]] if "name" in values else cls(values["value"])

    return Entry(name=name, cls=cls, take_apart=take_apart, put_together=put_together, has_fields=False)


def _custom_entry(name: str, cls: type[T], encode: Callable[[T], Any], decode: Callable[[Any], T]) -> Entry:
    return Entry(
        name=name,
        cls=cls,
        take_apart=lambda obj: {"value": encode(obj)},
        put_together=lambda values: decode(values["value"]),
        has_fields=False,
    )


def fields_of(cls: type) -> dict[str, Callable[[], Any] | None] | None:
    """The fields of `cls` with what makes their default, if it is a class with declared fields."""
    if dataclasses.is_dataclass(cls):
        return {field.name: _dataclass_default(field) for field in dataclasses.fields(cls)}
    if isinstance(fields := getattr(cls, "model_fields", None), dict):
        return dict.fromkeys(fields)
    if isinstance(names := getattr(cls, "__struct_fields__", None), tuple):
        return dict.fromkeys(names)
    if (attributes := getattr(cls, "__attrs_attrs__", None)) is not None:
        return {attribute.name: _attrs_default(attribute) for attribute in attributes}
    if issubclass(cls, tuple) and isinstance(names := getattr(cls, "_fields", None), tuple):
        return dict.fromkeys(names)
    return None


def _dataclass_default(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return None if field.default is dataclasses.MISSING else lambda: field.default


def _attrs_default(attribute: Any) -> Callable[[], Any] | None:
    default = attribute.default
    if type(default).__name__ == "Factory":
        return None if default.takes_self else typing.cast(Callable[[], Any], default.factory)
    return None if repr(default) == "NOTHING" else lambda: default


def _mentioned_classes(cls: type) -> Iterator[type]:
    """The saveable classes in the annotations of `cls`, however deep inside `list[…]` and the like."""
    if issubclass(cls, enum.Enum):
        return
    try:
        hints = typing.get_type_hints(cls, vars(sys.modules.get(cls.__module__, typing)))
    except (NameError, TypeError, AttributeError):
        # An annotation that can't be resolved here: those classes are registered by hand.
        return
    pending = list(hints.values())
    while pending:
        hint = pending.pop()
        pending.extend(typing.get_args(hint))
        if isinstance(hint, type) and hint is not cls and typing.get_origin(hint) is None and is_saveable_class(hint):
            yield hint

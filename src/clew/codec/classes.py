"""Class support: takes objects apart into fields and rebuilds them, for each kind of class."""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from clew.errors import ConfigError

T = TypeVar("T")
Fields = dict[str, Any]

UNSET: Final = "\0unset"
"""The key in a pydantic model's record for the names of fields that were left at defaults."""
SET_SINCE: Final = "\0set "
"""Prefix of the name of a field in `UNSET` that an edit has set since. An edit does not read
`UNSET`, which may be a value."""
BEYOND: Final = "\0beyond"
"""The key in a record for attributes that are not fields. Locks, clients and other objects that
can't be saved are left out there; in a field they are refused."""
LACKS: Final = "\0lacks"
"""The key in a record for the names of required fields that the object lacked when it was saved (pydantic's
`model_construct` makes such objects). The object is loaded without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Takes apart and builds objects of one class."""

    name: str
    cls: type
    take_apart: Callable[[Any], Fields]
    put_together: Callable[[Fields], Any]
    has_fields: bool = True
    """Whether an edit may set the fields."""
    only_fields: frozenset[str] | None = None
    """All fields that an object can have, if known."""
    required: frozenset[str] = frozenset()
    """Fields without a default: an edit may not remove them."""


def entry_of(name: str, cls: type, saves: Callable[[type], bool]) -> Entry:
    """Return the entry of a class without `encode`. Raises ConfigError if it is unsupported."""
    if issubclass(cls, enum.Enum):
        return _enum_entry(name, cls)
    fields = fields_of(cls)
    if fields is None:
        raise ConfigError(
            f"{cls.__qualname__} is not a dataclass, pydantic model, msgspec struct, attrs class, named tuple or enum: "
            f"register it with encode= (to plain data) and decode= (back)"
        )
    if hasattr(cls, "model_construct"):
        return _pydantic_entry(name, cls, saves)
    if hasattr(cls, "__struct_fields__") or _is_named_tuple(cls):
        return _constructed_entry(name, cls, tuple(fields))
    return _attributes_entry(name, cls, fields, saves)


def _constructed_entry(name: str, cls: Any, names: tuple[str, ...]) -> Entry:
    """Return the entry of a named tuple or msgspec struct, which only its constructor can build."""
    fields = frozenset(names)

    def take_apart(obj: Any) -> Fields:
        return {field: getattr(obj, field) for field in names if hasattr(obj, field)}

    def construct(values: Fields) -> Any:
        return cls(**{field: value for field, value in values.items() if field in fields})

    blank: list[Any] = []

    def fill_in(values: Fields) -> Any:
        # The constructor runs a hook, so it builds one blank object. Loaded objects
        # are copies, which run no hook.
        if not blank:
            made = construct(copy.deepcopy(values))
            for field in names:
                msgspec.structs.force_setattr(made, field, None)
            blank.append(made)
        obj = copy.copy(blank[0])
        given = values if fields <= values.keys() else {**_struct_defaults(cls), **values}
        for field in names:
            msgspec.structs.force_setattr(obj, field, _given(given, field))
        return obj

    return Entry(
        name=name,
        cls=cls,
        take_apart=take_apart,
        put_together=fill_in if hasattr(cls, "__post_init__") and not issubclass(cls, tuple) else construct,
        only_fields=fields,
        required=needed_of(cls),
    )


def _struct_defaults(cls: type[msgspec.Struct]) -> Fields:
    """Return the default values of the fields of `cls` that have one."""
    found: Fields = {}
    for field in msgspec.structs.fields(cls):
        if field.default_factory is not msgspec.NODEFAULT:
            found[field.name] = field.default_factory()
        elif field.default is not msgspec.NODEFAULT:
            found[field.name] = field.default
    return found


def _attributes_entry(
    name: str, cls: type, fields: dict[str, Callable[[], Any] | None], saves: Callable[[type], bool]
) -> Entry:
    """Return the entry of a dataclass or attrs class, whose objects consist of their attributes."""
    make = _maker(cls)
    if make is None:
        raise ConfigError(
            f"{cls.__qualname__} has fields but also extends a built-in type (dict, str, …), whose content would be lost: "
            f"register it with encode= (to plain data) and decode= (back), or move that content into a field"
        )
    names, needed = tuple(fields), needed_of(cls)
    by_object = _defaults_by_object(cls)
    has_dict, is_exception = cls.__dictoffset__ != 0, issubclass(cls, BaseException)
    in_dict = has_dict and not is_exception and not any(_is_managed(cls, field) for field in names)
    # Cached properties are computed from the fields.
    left_out = {*fields, *_cached_properties(cls)}

    def take_apart(obj: Any) -> Fields:
        if in_dict and len(held := obj.__dict__) == len(names):
            try:
                return {field: held[field] for field in names}
            except KeyError:
                # A field was deleted, and another attribute was added.
                pass
        values = {field: getattr(obj, field) for field in names if hasattr(obj, field)}
        if lacking := needed - values.keys():
            values[LACKS] = sorted(lacking)
        if has_dict:
            held = obj.__dict__.items()
            beyond = {each: value for each, value in held if each not in left_out and saves(type(value))}
            if is_exception and "args" not in fields:
                beyond["args"] = obj.args
            if beyond:
                values[BEYOND] = beyond
        return values

    def put_together(values: Fields) -> Any:
        # Without __init__: the loaded object equals the saved one,
        # whatever a constructor would change.
        obj = make(cls)
        for field, default in fields.items():
            if field in values:
                object.__setattr__(obj, field, values[field])
            elif default is not None:
                object.__setattr__(obj, field, default())
            elif field in by_object:
                object.__setattr__(obj, field, by_object[field](obj))
            elif field in needed and field not in values.get(LACKS, ()):
                raise _missing(field)
        if has_dict and BEYOND in values:
            for each, value in values[BEYOND].items():
                object.__setattr__(obj, each, value)
        return obj

    return Entry(
        name=name,
        cls=cls,
        take_apart=take_apart,
        put_together=put_together,
        only_fields=frozenset(names),
        required=frozenset(each for each in names if fields[each] is None and each not in by_object),
    )


def _maker(cls: type) -> Callable[[type], Any] | None:
    """Return a maker of empty objects of `cls`; `None` if they hold more than attributes."""
    for base in cls.__mro__:
        new = vars(base).get("__new__")
        # A __new__ written in Python is skipped, like __init__.
        if isinstance(new, types.BuiltinMethodType):
            is_exception = issubclass(base, BaseException) and base.__basicsize__ == BaseException.__basicsize__
            return new if base is object or is_exception else None
    return None


def _is_managed(cls: type, field: str) -> bool:
    """Return whether `field` is a slot or property, and not in the object's `__dict__`."""
    return inspect.isdatadescriptor(inspect.getattr_static(cls, field, None))


def _cached_properties(cls: type) -> set[str]:
    found = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    return {name for name, value in found.items() if isinstance(value, functools.cached_property)}


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and not dataclasses.is_dataclass(cls) and not hasattr(cls, "__attrs_attrs__")


def _pydantic_entry(name: str, cls: Any, saves: Callable[[type], bool]) -> Entry:
    model_fields, privates = cls.model_fields, cls.__private_attributes__
    fields, needed = frozenset(model_fields), needed_of(cls)
    keeps_extra, is_root = cls.model_config.get("extra") == "allow", cls.__pydantic_root_model__

    def take_apart(obj: Any) -> Fields:
        held, extra = obj.__dict__, obj.__pydantic_extra__
        # A model's __dict__ also has the values of cached properties.
        values = {**held} if held.keys() <= fields else {each: held[each] for each in held if each in fields}
        unset = values.keys() - obj.__pydantic_fields_set__
        lacking = needed - values.keys() if len(values) < len(fields) else None
        if extra:
            values.update(extra)
        if lacking:
            values[LACKS] = sorted(lacking)
        if unset:
            values[UNSET] = sorted(unset)
        if privates and obj.__pydantic_private__:
            beyond = obj.__pydantic_private__.items()
            values[BEYOND] = {each: value for each, value in beyond if saves(type(value))}
        return values

    def put_together(values: Fields) -> Any:
        # Without model_construct, which takes three times as long, runs hooks,
        # and treats names as aliases.
        unset = values.pop(UNSET, ())
        extra, beyond = {}, {}
        given = values.keys() - unset
        if values.keys() != fields:
            beyond, lacking = values.pop(BEYOND, {}), values.pop(LACKS, ())
            given = {each for each in values if each not in unset or SET_SINCE + each in values}
            if keeps_extra:
                extra = {each: values[each] for each in values if each not in fields and not each.startswith(SET_SINCE)}
            given &= fields | extra.keys()
            values = _with_defaults(model_fields, values, lacking)
        obj = cls.__new__(cls)
        object.__setattr__(obj, "__dict__", values)
        object.__setattr__(obj, "__pydantic_fields_set__", given)
        if not is_root:
            object.__setattr__(obj, "__pydantic_extra__", extra if keeps_extra else None)
            object.__setattr__(obj, "__pydantic_private__", _privates(privates, beyond, values) if privates else None)
        return obj

    return Entry(
        name=name,
        cls=cls,
        take_apart=take_apart,
        put_together=put_together,
        only_fields=None if keeps_extra else fields,
        required=needed,
    )


def _with_defaults(model_fields: dict[str, Any], values: Fields, lacking: Sequence[str]) -> Fields:
    """Return the fields of a pydantic model: `values`, completed with defaults. Only the `lacking` may be missing."""
    found: Fields = {}
    for name, field in model_fields.items():
        if name in values:
            found[name] = values[name]
        elif not field.is_required():
            found[name] = field.get_default(call_default_factory=True, validated_data=found)
        elif name not in lacking:
            raise _missing(name)
    return found


def _missing(field: str) -> TypeError:
    return TypeError(f"the field {field!r} is missing and has no default")


def _given(values: Fields, field: str) -> Any:
    if field not in values:
        raise _missing(field)
    return values[field]


def _privates(privates: dict[str, Any], kept: Fields, values: Fields) -> Fields:
    """Return the private attributes of a pydantic model: `kept`, completed with defaults."""
    found: Fields = {}
    for name, attribute in privates.items():
        make = attribute.default_factory
        if name in kept:
            found[name] = kept[name]
        elif make is not None:
            # Only newer versions of pydantic have factories that take the validated data.
            takes_values = getattr(attribute, "default_factory_takes_validated_data", False)
            found[name] = make({**values, **found}) if takes_values else make()
        elif type(attribute.default).__name__ != "PydanticUndefinedType":
            found[name] = attribute.get_default()
    return found


def _enum_entry(name: str, cls: type[enum.Enum]) -> Entry:
    def take_apart(member: enum.Enum) -> Fields:
        # A combination of flags has no name, or one that can't be looked up.
        return {"name": member.name} if member.name in cls.__members__ else {"value": member.value}

    def put_together(values: Fields) -> Any:
        return cls[values["name"]] if "name" in values else cls(values["value"])

    return Entry(name=name, cls=cls, take_apart=take_apart, put_together=put_together, has_fields=False)


def custom_entry(name: str, cls: type[T], encode: Callable[[T], Any], decode: Callable[[Any], T]) -> Entry:
    def put_together(values: Fields) -> Any:
        # If it was stored before the class had an `encode`, decode gets the fields.
        return decode(values["value"] if values.keys() == {"value"} else values)

    return Entry(
        name=name,
        cls=cls,
        take_apart=lambda obj: {"value": encode(obj)},
        put_together=put_together,
        has_fields=False,
    )


def fields_of(cls: type) -> dict[str, Callable[[], Any] | None] | None:
    """Return the declared fields of `cls` with their default factories; `None` without any."""
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


def needed_of(cls: Any) -> frozenset[str]:
    """Return the fields that are required to make an object of `cls`."""
    if dataclasses.is_dataclass(cls):
        # With a constructor of its own (`init=False`), the class itself decides which fields it needs.
        made = typing.cast(Any, cls).__dataclass_params__.init
        return frozenset(
            each.name for each in dataclasses.fields(cls) if made and each.init and _dataclass_default(each) is None
        )
    if isinstance(fields := getattr(cls, "model_fields", None), dict):
        return frozenset(name for name, field in fields.items() if field.is_required())
    if hasattr(cls, "__struct_fields__"):
        return frozenset(each.name for each in msgspec.structs.fields(cls) if each.required)
    if (attributes := getattr(cls, "__attrs_attrs__", None)) is not None:
        return frozenset(each.name for each in attributes if each.init and repr(each.default) == "NOTHING")
    return frozenset(getattr(cls, "_fields", ())) - frozenset(getattr(cls, "_field_defaults", ()))


def _defaults_by_object(cls: Any) -> dict[str, Callable[[Any], Any]]:
    """Return the defaults of an attrs class that are made from the object's other fields."""
    found = {each.name: each.default for each in getattr(cls, "__attrs_attrs__", ())}
    return {name: each.factory for name, each in found.items() if getattr(each, "takes_self", False)}


def _dataclass_default(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return None if field.default is dataclasses.MISSING else lambda: field.default


def _attrs_default(attribute: Any) -> Callable[[], Any] | None:
    default = attribute.default
    if type(default).__name__ == "Factory":
        return None if default.takes_self else typing.cast(Callable[[], Any], default.factory)
    return None if repr(default) == "NOTHING" else lambda: default


def is_typed_dict(cls: Any) -> bool:
    """Return whether `cls` is a TypedDict, of `typing` or of `typing_extensions` (which pydantic wants before 3.12)."""
    return isinstance(cls, type) and issubclass(cls, dict) and hasattr(cls, "__required_keys__")


def is_saveable_class(cls: type) -> bool:
    """Return whether `register` supports `cls` without `encode` and `decode`."""
    if fields_of(cls) is None:
        return issubclass(cls, enum.Enum)
    constructed = hasattr(cls, "model_construct") or hasattr(cls, "__struct_fields__") or _is_named_tuple(cls)
    return constructed or _maker(cls) is not None

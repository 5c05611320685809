"""Schemas of answers, derived from the types that routes return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import timedelta
from inspect import cleandoc
from types import UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin

from litestar.openapi.spec import Schema
from litestar.plugins import OpenAPISchemaPlugin
from litestar.typing import FieldDefinition

import clew


class Value:
    """Any value. Types that JSON lacks are objects with `$type`: `{"$type": "tuple", "value": [1, 2]}`."""


class AnswerSchemas(OpenAPISchemaPlugin):
    """Describes records of the public API as `to_dict` writes them, and dicts of the types in `answers`."""

    def is_plugin_supported_field(self, field_definition: FieldDefinition) -> bool:
        kind = field_definition.type_
        return kind is Value or field_definition.is_typeddict_type or (is_dataclass(kind) and hasattr(kind, "to_dict"))

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: Any) -> Any:
        kind = field_definition.type_
        registry = schema_creator.schema_registry
        if kind is Value:
            schema: Schema = registry.get_schema_for_field_definition(field_definition)
            schema.title = kind.__name__
        else:
            hints = field_definition.get_type_hints(include_extras=True)
            names = [each.name for each in fields(kind)] if is_dataclass(kind) else list(hints)
            schema = schema_creator.create_component_schema(
                field_definition,
                # Every answer has all fields, whatever their defaults.
                required=names,
                property_fields={name: FieldDefinition.from_kwarg(written(hints[name]), name) for name in names},
            )
        schema.description = cleandoc(kind.__doc__ or "").replace("`None`", "`null`")
        return registry.get_reference_for_field_definition(field_definition)


_WRITTEN: Final[dict[Any, Any]] = {Any: Value, timedelta: float, type(clew.ANY_USER): None}
"""Types that answers write as others. `ANY_USER` is a right of the caller, and never an owner."""
_HOLDERS: Final = (list, tuple, dict, Mapping, Sequence)


def written(kind: Any) -> Any:
    """Return the type that values of `kind` have in answers."""
    if isinstance(kind, TypeVar):
        return Value
    if kind in _WRITTEN:
        return _WRITTEN[kind]
    origin, parts = get_origin(kind), tuple(map(written, get_args(kind)))
    if origin in (Union, UnionType):
        return Union[parts]  # noqa: UP007 (made at run time)
    return origin[parts] if origin in _HOLDERS else kind

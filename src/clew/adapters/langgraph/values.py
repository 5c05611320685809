"""Conversion of LangGraph's values to their stored form and back.

Plain data is stored directly, and LangChain's messages as records with their fields, so that the
command line, differences and searches can read them without LangChain. Everything else (control
types, user classes) goes through the saver's serializer; lists are converted element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from clew.adapters.langgraph.classes import MAX_LEARNED, MESSAGES, OWN, Allowed, Classes
from clew.adapters.langgraph.serializer import KIND, GraphPacker, GraphSerializer, Serialized, Stranger, unwritten
from clew.codec.packer import Packer
from clew.codec.registry import DEFAULT_REGISTRY
from clew.errors import UnsupportedTypeError

__all__ = [
    "MESSAGES",
    "Allowed",
    "Serialized",
    "Stranger",
    "listed",
    "loaded",
    "stored",
    "stored_metadata",
    "strict_serializer",
]

_KINDS: Final = frozenset({"msgpack", "bytes", "bytearray", "null"})
"""The formats that JsonPlusSerializer writes. It would also read others, which may name code."""
_packer: Final = Packer(DEFAULT_REGISTRY)
_own_packer: Final = GraphPacker(OWN)


def strict_serializer(allow: Allowed, *, tell: Callable[[str], None] | None = None) -> GraphSerializer:
    """Return a serializer for the known types, those in `allow`, and those that it learns."""
    return GraphSerializer(Classes(Classes(OWN, tuple(allow)), bound=MAX_LEARNED), tell=tell)


def stored(value: Any, serde: SerializerProtocol, name: str) -> Any:
    """Return the stored form of `value`.

    Raises UnsupportedTypeError if the serializer refuses it.
    """
    if type(value) is list:
        return [_stored(item, serde, f"{name}[{at}]") for at, item in enumerate(value)]
    return _stored(value, serde, name)


def stored_metadata(given: Mapping[str, Any], serde: SerializerProtocol) -> dict[str, Any]:
    """Return the stored form of metadata.

    Plain data bypasses the serializer, because filters compare it. Tuples become lists, like in the
    JSON of LangGraph's own savers.
    """
    return {
        name: listed(value) if _is_plain(value) and _is_native(value) else stored(value, serde, f"metadata[{name!r}]")
        for name, value in given.items()
    }


def listed(value: Any) -> Any:
    """Convert tuples in plain data to lists, at any depth."""
    if type(value) is dict:
        return {key: listed(each) for key, each in value.items()}
    return [*map(listed, value)] if type(value) in (list, tuple) else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def _stored(value: Any, serde: SerializerProtocol, name: str) -> Any:
    # A user's serializer may encrypt, so nothing bypasses it.
    if type(serde) in (GraphSerializer, JsonPlusSerializer) and _is_native(value):
        return value
    try:
        kind, data = serde.dumps(value, name) if isinstance(serde, GraphSerializer) else serde.dumps_typed(value)
    except UnsupportedTypeError:
        raise
    except TypeError as error:
        raise UnsupportedTypeError(f"{name} can't be saved: {error}", path=name, type=type(value)) from error
    return Serialized(kind, bytes(data))


def _is_native(value: Any) -> bool:
    if value is None or type(value) in (bool, int, float):
        return True
    if type(value) is bytearray:
        # The codec would load it as bytes.
        return False
    try:
        _packer.pack(value)
    except UnsupportedTypeError:
        return False
    return True


def loaded(value: Any, serde: SerializerProtocol) -> Any:
    """Return the value that `stored` converted."""
    if type(value) is list:
        return [_loaded(item, serde) if type(item) is Serialized else item for item in value]
    return _loaded(value, serde) if type(value) is Serialized else value


def _loaded(value: Serialized, serde: SerializerProtocol) -> Any:
    if isinstance(serde, GraphSerializer):
        return serde.loads_typed((value.kind, value.data))
    if value.kind == KIND:
        # Saved before the user passed a serializer.
        return _own_packer.read(KIND, value.data)
    if type(serde) is JsonPlusSerializer and value.kind not in _KINDS and value.kind != _fallback(serde):
        raise unwritten(value.kind)
    try:
        return serde.loads_typed((value.kind, value.data))
    except NotImplementedError as error:
        raise unwritten(value.kind) from error


def _fallback(serde: JsonPlusSerializer) -> str | None:
    """Return the format of a serializer's fallback, which the user has chosen by passing it."""
    return "pickle" if serde.pickle_fallback else None

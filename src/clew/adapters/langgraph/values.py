"""LangGraph's values as Clew keeps them, and back.

What Clew can keep as it is, it keeps as it is: plain data, and LangChain's messages as records with their fields, so that the
command line, differences and searches can read them without LangChain. Everything else (control types, the user's own
classes) goes through the saver's serializer, a list element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from clew.adapters.langgraph.classes import MAX_LEARNED, MESSAGES, OWN, Allowed, Classes
from clew.adapters.langgraph.serializing import KIND, GraphPacker, GraphSerializer, Serialized, Stranger, unwritten
from clew.codec.packing import Packer
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
"""The formats that JsonPlusSerializer writes. It would read others too, and those may name code."""
_packer: Final = Packer(DEFAULT_REGISTRY)
_own_packer: Final = GraphPacker(OWN)


def strict_serializer(allow: Allowed, *, tell: Callable[[str], None] | None = None) -> GraphSerializer:
    """A serializer for LangGraph's and LangChain's own types, those in `allow`, and those that it learns of; never pickle."""
    return GraphSerializer(Classes(Classes(OWN, tuple(allow)), bound=MAX_LEARNED), tell=tell)


def stored(value: Any, serde: SerializerProtocol, name: str) -> Any:
    """`value` as Clew keeps it. Raises UnsupportedTypeError if neither Clew nor the serializer can take it."""
    if type(value) is list:
        return [_stored(item, serde, f"{name}[{at}]") for at, item in enumerate(value)]
    return _stored(value, serde, name)


def stored_metadata(told: Mapping[str, Any], serde: SerializerProtocol) -> dict[str, Any]:
    """Metadata as Clew keeps it. Plain data stays plain whatever the serializer, as in LangGraph's own savers: it is what
    filters compare. There it is JSON, so tuples are lists."""
    return {
        name: listed(value) if _is_plain(value) and _is_native(value) else stored(value, serde, f"metadata[{name!r}]")
        for name, value in told.items()
    }


def listed(value: Any) -> Any:
    """Plain data with lists in the place of tuples, at any depth."""
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
    # A serializer of the user's may encrypt: then nothing goes around it.
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
        # Clew would give bytes back.
        return False
    try:
        _packer.pack(value)
    except UnsupportedTypeError:
        return False
    return True


def loaded(value: Any, serde: SerializerProtocol) -> Any:
    """What `stored` was given."""
    if type(value) is list:
        return [_loaded(item, serde) if type(item) is Serialized else item for item in value]
    return _loaded(value, serde) if type(value) is Serialized else value


def _loaded(value: Serialized, serde: SerializerProtocol) -> Any:
    if isinstance(serde, GraphSerializer):
        return serde.loads_typed((value.kind, value.data))
    if value.kind == KIND:
        # Saved before the user had a serializer of his own.
        return _own_packer.read(KIND, value.data)
    if type(serde) is JsonPlusSerializer and value.kind not in _KINDS and value.kind != _fallback(serde):
        raise unwritten(value.kind)
    try:
        return serde.loads_typed((value.kind, value.data))
    except NotImplementedError as error:
        raise unwritten(value.kind) from error


def _fallback(serde: JsonPlusSerializer) -> str | None:
    """What LangGraph's serializer writes of objects that it has no form for: whoever passes one with a fallback wants that."""
    return "pickle" if serde.pickle_fallback else None

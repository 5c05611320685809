"""LangGraph's values as Clew keeps them, and back.

What Clew can keep as it is, it keeps as it is: plain data, and LangChain's messages as records with their fields, so that the
command line, differences and searches can read them without LangChain. Everything else (control types, the user's own
classes) goes through LangGraph's serializer, a list element by element.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from langchain_core import messages as langchain
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from clew.codec.packing import Packer
from clew.codec.registry import DEFAULT_REGISTRY, register
from clew.errors import CorruptRecordError, UnsupportedTypeError

Allowed = Iterable[type | tuple[str, str]]
"""Classes, or their modules and names."""


@dataclass(frozen=True, slots=True)
class Serialized:
    """What LangGraph's serializer made of a value: the name of its format, and the bytes."""

    kind: str
    data: bytes


register(Serialized, name="langgraph.Serialized")
register(_DeltaSnapshot, name="langgraph.DeltaSnapshot")
MESSAGES: Final[frozenset[Any]] = frozenset(
    getattr(langchain, name)
    for name in (
        "HumanMessage",
        "AIMessage",
        "SystemMessage",
        "ToolMessage",
        "ChatMessage",
        "FunctionMessage",
        "RemoveMessage",
        "HumanMessageChunk",
        "AIMessageChunk",
        "SystemMessageChunk",
        "ToolMessageChunk",
        "ChatMessageChunk",
        "FunctionMessageChunk",
    )
)
for _class in MESSAGES:
    register(_class, name=f"langchain.{_class.__name__}")

_KINDS: Final = frozenset({"msgpack", "bytes", "bytearray", "null"})
"""The formats that JsonPlusSerializer writes. It would read others too, and those may name code."""
_packer: Final = Packer(DEFAULT_REGISTRY)
_MAX_TOLD: Final = 1000
"""Of how many classes it is told that they are not allowed."""
_log = logging.getLogger("clew")


def strict_serializer(allow: Allowed) -> JsonPlusSerializer:
    """LangGraph's serializer for LangGraph's and LangChain's own types and those in `allow`; never pickle."""
    return JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=tuple(allow) or None)


def stored(value: Any, serde: SerializerProtocol, name: str) -> Any:
    """`value` as Clew keeps it. Raises UnsupportedTypeError if neither Clew nor the serializer can take it."""
    if type(value) is list:
        return [_stored(item, serde, f"{name}[{at}]") for at, item in enumerate(value)]
    return _stored(value, serde, name)


def stored_metadata(told: Mapping[str, Any], serde: SerializerProtocol) -> dict[str, Any]:
    """Metadata as Clew keeps it. Plain data stays plain whatever the serializer, as in LangGraph's own savers: it is what
    filters compare."""
    return {
        name: value if _is_plain(value) and _is_native(value) else stored(value, serde, f"metadata[{name!r}]")
        for name, value in told.items()
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def _stored(value: Any, serde: SerializerProtocol, name: str) -> Any:
    # A serializer of the user's may encrypt: then nothing goes around it.
    if type(serde) is JsonPlusSerializer and _is_native(value):
        return value
    try:
        kind, data = serde.dumps_typed(value)
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
    if isinstance(serde, JsonPlusSerializer) and value.kind not in _KINDS:
        raise CorruptRecordError(f"a stored value has the format {value.kind!r:.40}, which is never written")
    _loading.here = True
    try:
        return serde.loads_typed((value.kind, value.data))
    finally:
        _loading.here = False


_loading: Final = threading.local()
_told_of: Final[set[tuple[str, str]]] = set()


def _tell_what_to_allow(event: SerdeEvent) -> None:
    """Say once of each class how to get it back: LangGraph's own advice is about a serializer that nobody made by hand."""
    name = event["module"], event["name"]
    if event["kind"] != "msgpack_blocked" or name in _told_of or not getattr(_loading, "here", False):
        return
    if len(_told_of) < _MAX_TOLD:
        _told_of.add(name)
        _log.warning(
            "%s.%s came back from a checkpoint as plain data, because nobody allowed it: ClewSaver(…, allow=[%s])",
            *name,
            event["name"],
        )


register_serde_event_listener(_tell_what_to_allow)

"""Serializer for everything in a graph's state that is not plain data.

Clew's codec packs values with the classes of `classes.py`, so objects, and the tuples and sets in
them, keep their types. Saving an object of an unknown class is refused. An unknown class in stored
data is loaded as a `Stranger`, a record of its fields; saving it again changes nothing.

LangGraph's own format, which older versions wrote, is still read.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import ormsgpack
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send

from clew.adapters.langgraph.classes import BUILTINS, OWN_BY_PLACE, Classes, is_framework, is_knowable
from clew.adapters.texts import clean
from clew.codec.packer import Packer
from clew.codec.registry import Record, register
from clew.codec.tags import PLAIN_TYPES
from clew.errors import CorruptRecordError, UnsupportedTypeError

KIND: Final = "clew"
"""The name of the format that Clew's codec writes."""
_PLAIN_KINDS: Final = frozenset({"bytes", "bytearray", "null"})
_MOVED: Final = {"langgraph.constants": "langgraph.types"}
"""Modules whose types LangGraph has moved since they were stored."""
_MAX_LOGGED: Final = 1000
"""How many classes are logged at most."""
_logged: Final[set[str]] = set()
_log = logging.getLogger("clew")


@dataclass(frozen=True, slots=True)
class Serialized:
    """A value that a serializer wrote: the name of its format, and the bytes."""

    kind: str
    data: bytes


register(Serialized, name="langgraph.Serialized")
register(_DeltaSnapshot, name="langgraph.DeltaSnapshot")


@dataclass(frozen=True, slots=True, eq=False)
class Stranger(Record):
    """An object of an unknown class.

    It reads like a mapping of its fields; saving it changes nothing.
    """

    written: bytes | None = None
    """The whole object in LangGraph's format, if it was stored in that format."""


class GraphPacker(Packer):
    """Packs objects of known classes, and those that LangGraph treats specially."""

    def __init__(self, classes: Classes, *, tell: Callable[[str], None] | None = None) -> None:
        super().__init__(classes)
        self._classes = classes
        self._tell = tell or log_once
        self._reader = JsonPlusSerializer(pickle_fallback=False, __unpack_ext_hook__=self._revive_written)

    def build(self, packed_name: bytes, fields: dict[str, Any]) -> Any:
        made = super().build(packed_name, fields)
        if type(made) is Serialized:
            return self.read(made.kind, made.data)
        if type(made) is Record and ":" in made.type_name:
            self._tell(made.type_name)
            return Stranger(made.type_name, made.fields)
        return made

    def read(self, kind: str, data: bytes) -> Any:
        """Return the value.

        Raises CorruptRecordError if the format was never written, or the data is damaged.
        """
        if kind == KIND:
            return self.unpack(data)
        if kind != "msgpack" and kind not in _PLAIN_KINDS:
            raise unwritten(kind)
        try:
            return self._reader.loads_typed((kind, data))
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise CorruptRecordError(f"a stored value can't be decoded: {error}") from error

    # --- Saving

    def _extend(self, obj: Any) -> Any:
        return super()._extend(obj) if self._is_known(type(obj)) else self._instead(obj)

    def _lower(self, obj: Any, path: tuple[str, ...], above: set[int]) -> Any:
        cls = type(obj)
        if cls is str:
            return clean(obj)
        if cls is dict:
            obj = {clean(key) if type(key) is str else key: value for key, value in obj.items()}
        elif cls is not ormsgpack.Ext and not self._is_known(cls):
            try:
                obj = self._instead(obj)
            except UnsupportedTypeError as error:
                where = "".join(path)
                raise UnsupportedTypeError(f"{where} can't be saved: {error}", path=where, type=cls) from error
        return super()._lower(obj, path, above)

    def _is_known(self, cls: type) -> bool:
        return cls in PLAIN_TYPES or cls is Record or self._classes.by_class(cls) is not None

    def _instead(self, obj: Any) -> Any:
        """Return what to pack for an object of an unknown class. Raises UnsupportedTypeError."""
        if isinstance(obj, Stranger):
            if obj.written is not None:
                return Serialized("msgpack", obj.written)
            return Record(obj.type_name, obj.fields)
        if isinstance(obj, BaseException):
            # LangGraph stores the text of an error, not the error.
            return repr(obj)
        cls = type(obj)
        if (numpy := sys.modules.get("numpy")) is not None and isinstance(obj, numpy.ndarray):
            return Serialized("msgpack", _written(obj))
        if is_framework(cls.__module__) or cls.__module__.partition(".")[0] == "numpy":
            base: Any
            for base in BUILTINS:
                if isinstance(obj, base):
                    # LangChain's texts, defaultdicts and numpy's numbers are stored as their
                    # built-in type.
                    return base(obj)
        raise UnsupportedTypeError(_why_not(cls), type=cls)

    # --- Reading LangGraph's format

    def _revive_written(self, code: int, data: bytes) -> Any:
        if code == jsonplus.EXT_NUMPY_ARRAY:
            return jsonplus._msgpack_ext_hook(code, data)
        content = ormsgpack.unpackb(data, ext_hook=self._revive_written, option=ormsgpack.OPT_NON_STR_KEYS)
        if code == jsonplus.EXT_DELTA_SNAPSHOT:
            return _DeltaSnapshot(content)
        module, name, value, *method = content
        if code == jsonplus.EXT_METHOD_SINGLE_ARG:
            if (module, name, *method) in SAFE_MSGPACK_METHODS:
                return getattr(getattr(importlib.import_module(module), name), method[0])(value)
            return value
        make = self._maker(module, name)
        if make is None:
            return self._stranger(module, name, value, code, data)
        return _made(make, code, value)

    def _maker(self, module: str, name: str) -> Any:
        found = OWN_BY_PLACE.get((_MOVED.get(module, module), name)) or self._classes.found(f"{module}:{name}")
        if found is None and (module, name) in SAFE_MSGPACK_TYPES:
            # Importing is safe: LangGraph has a fixed list of Python's own types.
            found = getattr(importlib.import_module(module), name)
        return found

    def _stranger(self, module: str, name: str, value: Any, code: int, data: bytes) -> Stranger:
        self._tell(f"{module}:{name}")
        fields = value if isinstance(value, dict) else {"value": value}
        return Stranger(f"{module}:{name}", fields, ormsgpack.packb(ormsgpack.Ext(code, data)))


def unwritten(kind: str) -> CorruptRecordError:
    """Return the error for a value in a format that the saver's serializer does not write."""
    return CorruptRecordError(
        f"a stored value has the format {kind!r:.40}, which is never written by this saver's serializer; if another one "
        "wrote it, pass that: ClewSaver(…, serde=…)",
        kind=kind,
    )


def _made(make: Any, code: int, value: Any) -> Any:
    """Build an object as LangGraph's serializer does."""
    if code == jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG:
        return make(value)
    if code == jsonplus.EXT_CONSTRUCTOR_POS_ARGS:
        return Send(value[0], value[1], timeout=value[2]) if make is Send and len(value) > 2 else make(*value)
    if code == jsonplus.EXT_CONSTRUCTOR_KW_ARGS:
        return make(**value)
    try:
        return make(**value)
    except Exception:  # Validators of user classes may raise anything.
        construct = make.construct if code == jsonplus.EXT_PYDANTIC_V1 else make.model_construct
        return construct(**value)


def _written(obj: Any) -> bytes:
    """Return the object in LangGraph's format."""
    try:
        return bytes(JsonPlusSerializer(pickle_fallback=False).dumps_typed(obj)[1])
    except TypeError as error:
        raise UnsupportedTypeError(str(error), type=type(obj)) from error


def _why_not(cls: type) -> str:
    label = f"{cls.__module__}.{cls.__qualname__}"
    if is_knowable(cls):
        return (
            f"{label} is named neither by the graph's schema nor by its nodes, so it would be loaded as another type; "
            f"allow it: ClewSaver(…, allow=[{cls.__name__}])"
        )
    return f"{label} is not data; convert it to plain data, or call clew.register({cls.__name__}, encode=…, decode=…)"


def log_once(name: str) -> None:
    """Log a warning about an unknown class, once for each class."""
    if name in _logged or len(_logged) >= _MAX_LOGGED:
        return
    _logged.add(name)
    _log.warning(
        "unknown class: %s was loaded from a checkpoint as a record of its fields; allow it: ClewSaver(…, allow=[%s])",
        name.replace(":", "."),
        name.rpartition(":")[2],
    )


class GraphSerializer(JsonPlusSerializer):
    """The serializer of a ClewSaver. `tell` is called with the name of each unknown class."""

    def __init__(self, classes: Classes, *, tell: Callable[[str], None] | None = None) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=None)
        self.classes = classes
        self.packer = GraphPacker(classes, tell=tell)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return self.dumps(obj, "value")

    def dumps(self, obj: Any, name: str) -> tuple[str, bytes]:
        """Return the format and the bytes.

        Raises UnsupportedTypeError with the path of the value, starting with `name`.
        """
        if obj is None or isinstance(obj, (bytes, bytearray)):
            return super().dumps_typed(obj)
        return KIND, self.packer.pack(obj, name=name)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return self.packer.read(*data)

    def with_msgpack_allowlist(self, extra_allowlist: Iterable[Any]) -> GraphSerializer:
        """Return a serializer that also allows these classes.

        LangGraph calls this in strict mode.
        """
        return GraphSerializer(Classes(self.classes, extra_allowlist))

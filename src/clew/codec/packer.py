"""Typed msgpack: packs any supported object to bytes, and unpacks it to an equal object.

One call into a C encoder packs a whole state. Objects that msgpack can't represent exactly are
passed to `_extend`, which wraps them in an extension type. Plain data can't produce an extension,
so nothing that a user or a tool puts into a state can be mistaken for one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from datetime import time
from typing import Any, Final, ParamSpec, TypeVar

import msgspec
import ormsgpack

from clew.answers import Answer
from clew.codec.chunks import CHUNK, Chunks, packed_list
from clew.codec.classes import BEYOND, Entry, is_saveable_class
from clew.codec.nodes import ARRAY, DICT, MAP, Container, header
from clew.codec.registry import Record, Registry
from clew.codec.tags import SCALAR_BYTES, SCALARS, Tag, time_extension
from clew.errors import ClewError, ConfigError, CorruptRecordError, UnsupportedTypeError, shown
from clew.os_threads import start

P = ParamSpec("P")
T = TypeVar("T")
MAX_DEPTH = 200
"""Nesting depth that is always supported; the C encoder goes a little deeper."""
_TEXT: Final = frozenset({str})
_RECORD: Final = Tag.RECORD.value
"""A plain int, because comparing enum members is slow: a list has thousands of records."""
_OPTIONS: Final = (
    ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_PASSTHROUGH_BIG_INT
)
_nesting: Final = threading.local()
"""Depth of nested extensions, each of which is a separate call into the C encoder."""
_Path = tuple[str, ...]


class Packer:
    """Packs and unpacks with the classes of one registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._decoder = msgspec.msgpack.Decoder(ext_hook=self.revive)

    def pack(self, obj: Any, *, name: str = "state") -> bytes:
        """Return `obj` as msgpack. Raises UnsupportedTypeError with the path to the
        offending part, starting at `name`."""
        try:
            return ormsgpack.packb(obj, self._extend, _OPTIONS)
        except (TypeError, RecursionError):
            if getattr(_nesting, "depth", 0):
                # Inside an extension. The outermost call walks the state, because
                # only it knows the whole path.
                raise
            # Either a key is not a string, or something can't be saved. The walk in Python handles
            # the former and locates the latter.
            try:
                return with_room(lambda: self._packed(self._lower(obj, (name,), set())))
            except RecursionError:
                raise _too_deep((name,)) from None

    def pack_fields(
        self, obj: Any, before: Callable[[bytes], Sequence[bytes]]
    ) -> tuple[Container, dict[bytes, bytes | Chunks]] | None:
        """Pack each field of a dict, or of an object of a registered class,
        separately; `None` for anything else.

        A long list is packed in chunks. `before(packed_key)` returns the list's previous chunks,
        which are reused where they are equal.
        """
        if type(obj) is dict:
            container, fields = DICT, obj
            if not _TEXT.issuperset(map(type, fields)):
                return None
        else:
            entry = self._registry.by_class(type(obj))
            if entry is None or not entry.has_fields:
                return None
            container = Container(MAP, Tag.RECORD, ormsgpack.packb(entry.name))
            fields = entry.take_apart(obj)
        packed: dict[bytes, bytes | Chunks] = {}
        for key, value in fields.items():
            try:
                name = ormsgpack.packb(key)
                if type(value) is list and len(value) > CHUNK:
                    packed[name] = packed_list(value, self._packed, before(name))
                else:
                    packed[name] = ormsgpack.packb(value, self._extend, _OPTIONS)
            except (TypeError, RecursionError):
                packed[self.pack(key)] = self.pack(value, name=f"state{_step(key)}")
        return container, packed

    def unpack(self, data: bytes) -> Any:
        """Return the object that `pack` packed. Raises CorruptRecordError if `data` is damaged."""
        return read_stored(lambda: self._decoder.decode(data))

    def revive(self, tag: int, data: memoryview) -> Any:
        """Return the object that an extension stands for."""
        return self.revive_with(self._decoder, tag, data)

    def revive_with(self, decoder: msgspec.msgpack.Decoder[Any], tag: int, data: memoryview) -> Any:
        if tag == _RECORD:
            length = name_length(data)
            return self.build(bytes(data[:length]), decoder.decode(data[length:]))
        container = _CONTAINERS.get(tag)
        if container is not None:
            return container(decoder.decode(data))
        scalar = SCALARS.get(tag)
        if scalar is None:
            raise CorruptRecordError(f"a stored value has the unknown type {tag}; was it written by a newer Clew?")
        return scalar(bytes(data))

    def build(self, packed_name: bytes, fields: dict[str, Any]) -> Any:
        """Return an object of the class with this packed name, or a Record
        if the name is not registered.

        Raises ConfigError if the class can't be built from these fields: it may have changed since.
        """
        if type(fields) is not dict:
            raise CorruptRecordError("a stored record has no fields")
        entry = self._registry.by_packed_name(packed_name)
        if entry is None:
            return Record(msgspec.msgpack.decode(packed_name, type=str), fields)
        try:
            return entry.put_together(fields)
        except (RecursionError, MemoryError):
            raise
        except Exception as error:  # User classes may raise anything.
            raise _unbuildable(entry, error) from error

    def entry(self, packed_name: bytes) -> Entry | None:
        """Return the registry entry of the class with this packed name, if it is registered."""
        return self._registry.by_packed_name(packed_name)

    def _extend(self, obj: Any) -> ormsgpack.Ext:
        cls = type(obj)
        scalar = SCALAR_BYTES.get(cls)
        if scalar is not None:
            tag, to_bytes = scalar
            return ormsgpack.Ext(tag, to_bytes(obj))
        depth = getattr(_nesting, "depth", 0)
        if depth >= MAX_DEPTH:
            raise UnsupportedTypeError(f"nests deeper than {MAX_DEPTH} levels")
        _nesting.depth = depth + 1
        try:
            return ormsgpack.Ext(*self._content(obj))
        finally:
            _nesting.depth = depth

    def _content(self, obj: Any) -> tuple[Tag, bytes]:
        """Return the extension for a container or an object."""
        cls = type(obj)
        items = _ITEMS.get(cls)
        if items is not None:
            tag, listed = items
            if tag in (Tag.SET, Tag.FROZENSET):
                return tag, _packed_set(map(self.pack, obj))
            return tag, self.pack(listed(obj))
        if cls is Record:
            return Tag.RECORD, ormsgpack.packb(obj.type_name) + self.pack(dict(obj.fields))
        entry = self._registry.by_class(cls)
        if entry is None:
            if cls is time:
                return time_extension(obj)
            raise UnsupportedTypeError(_why_not(obj))
        return Tag.RECORD, ormsgpack.packb(entry.name) + self.pack(entry.take_apart(obj))

    def _lower(self, obj: Any, path: _Path, above: set[int]) -> Any:
        """Return `obj` with everything wrapped that the C encoder refuses. Raises
        UnsupportedTypeError with the path."""
        cls = type(obj)
        if cls in _PLAIN or cls in SCALAR_BYTES:
            return obj
        if cls is str:
            return _checked_text(obj, path)
        if cls is time:
            return _lowered_time(obj, path)
        if cls is bytearray or cls is memoryview:
            return bytes(obj)
        if id(obj) in above:
            raise UnsupportedTypeError(
                f"{_spelled(path)} contains itself; a state can't be circular", path=_spelled(path)
            )
        if len(above) >= MAX_DEPTH:
            raise _too_deep(path)
        above.add(id(obj))
        try:
            return self._lower_container(obj, path, above)
        finally:
            above.discard(id(obj))

    def _lower_container(self, obj: Any, path: _Path, above: set[int]) -> Any:
        cls = type(obj)
        if cls is list:
            return [self._lower(item, (*path, f"[{n}]"), above) for n, item in enumerate(obj)]
        if cls is dict or cls is OrderedDict:
            return self._lower_mapping(obj, path, above)
        if cls in _ITEMS:
            tag, listed = _ITEMS[cls]
            items = listed(obj)
            if tag is Tag.DEQUE:
                items = items[1]
            lowered = [self._lower(item, (*path, f"[{n}]"), above) for n, item in enumerate(items)]
            if tag in (Tag.SET, Tag.FROZENSET):
                return ormsgpack.Ext(tag, _packed_set(map(self._packed, lowered)))
            return ormsgpack.Ext(tag, self._packed([obj.maxlen, lowered] if tag is Tag.DEQUE else lowered))
        name, fields = self._taken_apart(obj, path)
        lowered_fields = {field: self._lower(value, (*path, _step(field)), above) for field, value in fields.items()}
        return ormsgpack.Ext(Tag.RECORD, ormsgpack.packb(name) + self._packed(lowered_fields))

    def _lower_mapping(self, obj: Mapping[Any, Any], path: _Path, above: set[int]) -> Any:
        ordered = type(obj) is OrderedDict
        if not ordered and all(type(key) is str for key in obj):
            return {
                _checked_text(key, path): self._lower(value, (*path, _step(key)), above) for key, value in obj.items()
            }
        pairs: list[Any] = []
        for key, value in obj.items():
            pairs.append(self._lower(key, (*path, f" key {shown(key)}"), above))
            pairs.append(self._lower(value, (*path, _step(key)), above))
        return ormsgpack.Ext(Tag.ORDERED_DICT if ordered else Tag.PAIRS, self._packed(pairs))

    def _packed(self, lowered: Any) -> bytes:
        return ormsgpack.packb(lowered, self._extend, _OPTIONS)

    def _taken_apart(self, obj: Any, path: _Path) -> tuple[str, Mapping[str, Any]]:
        if type(obj) is Record:
            return obj.type_name, obj.fields
        entry = self._registry.by_class(type(obj))
        if entry is None:
            raise UnsupportedTypeError(f"{_spelled(path)}: {_why_not(obj)}", path=_spelled(path), type=type(obj))
        return entry.name, entry.take_apart(obj)


def _packed_set(members: Iterable[bytes]) -> bytes:
    # Sets have no stable order, but equal sets must have equal bytes.
    ordered = sorted(members)
    return header(ARRAY, len(ordered)) + b"".join(ordered)


def _why_not(obj: Any) -> str:
    cls = type(obj)
    label = f"{cls.__module__}.{cls.__qualname__}" if cls.__module__ != "builtins" else cls.__qualname__
    if is_saveable_class(cls):
        return f"{label} is not registered; call clew.register({cls.__name__}), or pass the class of all states as state_type="
    return f"{label} can't be saved; make it plain data, or call clew.register({cls.__name__}, encode=…, decode=…)"


def _unbuildable(entry: Entry, error: Exception) -> ConfigError:
    cls = entry.cls
    return ConfigError(
        f"{cls.__module__}.{cls.__qualname__} can't be built from the fields stored as {entry.name!r} "
        f"({type(error).__name__}: {error}); if the class has changed, restore the missing fields, or register it with "
        f"encode= and decode= (decode gets the stored fields); if it is a different class, register it under another "
        f"name=, and the stored class with aliases=",
        type=cls,
        type_name=entry.name,
    )


def with_room(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of `work`. If the stack is too deep, run it again in a thread with a fresh one."""
    try:
        return work(*args, **kwargs)
    except RecursionError:
        pass
    outcome: Answer[T] = Answer()
    context = copy_context()

    def again() -> None:
        try:
            outcome.give(context.run(work, *args, **kwargs))
        except BaseException as error:
            outcome.fail(error)

    start(again, "clew-deep")
    return outcome.wait()


def read_stored(work: Callable[[], T]) -> T:
    """Return `work()`, which decodes stored bytes. Raises CorruptRecordError if they are damaged."""
    try:
        return with_room(work)
    except ClewError:
        # Some are ValueErrors or TypeErrors as well, so they must not reach the clause below.
        raise
    except RecursionError:
        raise CorruptRecordError(
            "a stored value nests too deeply to be read; if it was saved like that, raise sys.setrecursionlimit"
        ) from None
    except (msgspec.DecodeError, ValueError, LookupError, TypeError, ArithmeticError) as error:
        raise CorruptRecordError(f"a stored value can't be decoded: {error}") from error


def _too_deep(path: _Path) -> UnsupportedTypeError:
    return UnsupportedTypeError(
        f"{_spelled(path[:8])}… nests deeper than {MAX_DEPTH} levels; flatten it", path=_spelled(path)
    )


def _checked_text(text: str, path: _Path) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UnsupportedTypeError(
            f"{_spelled(path)} has a lone surrogate at position {error.start}, which is not valid Unicode; "
            f"clean it with text.encode('utf-8', 'replace').decode()",
            path=_spelled(path),
        ) from error
    return text


def _lowered_time(value: time, path: _Path) -> ormsgpack.Ext:
    try:
        return ormsgpack.Ext(*time_extension(value))
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(f"{_spelled(path)}: {error}", path=_spelled(path)) from error


def _step(key: Any) -> str:
    if key == BEYOND:
        return ""
    return f".{key}" if type(key) is str and key.isidentifier() else f"[{shown(key)}]"


def _spelled(path: Iterable[str]) -> str:
    return "".join(path)


def name_length(record: bytes | memoryview, at: int = 0) -> int:
    """Return the size in bytes of the packed class name that begins at `at` in `record`."""
    head = record[at]
    if head >> 5 == 0b101:
        return 1 + (head & 31)
    if head == 0xD9:
        return 2 + record[at + 1]
    if head == 0xDA:
        return 3 + int.from_bytes(record[at + 1 : at + 3], "big")
    raise CorruptRecordError("a stored record has no class name")


_PLAIN: Final = frozenset({type(None), bool, float, bytes, ormsgpack.Ext})


def _flat(mapping: Mapping[Any, Any]) -> list[Any]:
    return [part for pair in mapping.items() for part in pair]


def _paired(parts: list[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(parts[::2], parts[1::2], strict=True)


_ITEMS: Final[dict[type, tuple[Tag, Callable[[Any], list[Any]]]]] = {
    tuple: (Tag.TUPLE, list),
    set: (Tag.SET, list),
    frozenset: (Tag.FROZENSET, list),
    OrderedDict: (Tag.ORDERED_DICT, _flat),
    deque: (Tag.DEQUE, lambda value: [value.maxlen, list(value)]),
}
_CONTAINERS: Final[dict[int, Callable[[list[Any]], Any]]] = {
    Tag.TUPLE: tuple,
    Tag.SET: set,
    Tag.FROZENSET: frozenset,
    Tag.PAIRS: lambda parts: dict(_paired(parts)),
    Tag.ORDERED_DICT: lambda parts: OrderedDict(_paired(parts)),
    Tag.DEQUE: lambda parts: deque(parts[1], maxlen=parts[0]),
}

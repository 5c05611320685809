"""Classes that a graph names: in its schemas, its context, and the code of its nodes and tasks.

LangGraph tells savers about its schemas only in strict mode, by name, and never about a response
format. So a saver inspects the graph once, at its first use. It finds classes that the program has
imported, independently of stored data.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import sys
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from langchain_core.runnables import Runnable
from langgraph.channels.base import BaseChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.func import _TaskFunction
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from clew.adapters.langgraph.classes import is_framework, is_knowable

MAX_VISITS: Final = 20_000
"""How many objects of a graph are inspected."""
MAX_ITEMS: Final = 200
"""How many elements of a collection are inspected."""
MAX_DEPTH: Final = 30

_known: Final[weakref.WeakKeyDictionary[Any, tuple[frozenset[str], tuple[type, ...]]]] = weakref.WeakKeyDictionary()


def classes_of(graph: Pregel[Any, Any, Any, Any]) -> tuple[type, ...]:
    """Return the classes that `graph` names. Copies with another config share the result."""
    origin, nodes = getattr(graph, "builder", None) or graph, frozenset(graph.nodes)
    known, found = _known.get(origin, (None, ()))
    if known != nodes:
        search = _Search()
        search.visit(graph, 0)
        found = tuple(search.found)
        _known[origin] = nodes, found
    return found


class _Search:
    """A depth-first search through the objects of a graph."""

    def __init__(self) -> None:
        self.found: dict[type, None] = {}
        self._seen: dict[int, Any] = {}

    def visit(self, each: Any, depth: int, *, in_schema: bool = False) -> None:
        """Look for classes in `each`. Classes of frameworks count only `in_schema`."""
        if each is None or (isinstance(each, (str, bytes, int, float)) and not isinstance(each, type)):
            return
        if id(each) in self._seen or len(self._seen) > MAX_VISITS or depth > MAX_DEPTH:
            return
        # Keep the object, so that its id is not reused.
        self._seen[id(each)] = each
        try:
            if isinstance(each, type):
                inside = [*self._of_class(each, in_schema=in_schema)]
            elif _is_hint(each):
                inside = [*_of_hint(each)]
            else:
                inside = [*self._inside(each)]
                in_schema = isinstance(each, (BaseChannel, StateGraph))
        except Exception:  # User objects, such as proxies and lazy attributes, may raise anything.
            return
        for following in inside:
            self.visit(following, depth + 1, in_schema=in_schema)

    def _inside(self, each: Any) -> Iterable[Any]:
        if isinstance(each, types.FunctionType):
            return _of_function(each)
        if isinstance(each, types.MethodType):
            return (each.__func__, *_attributes(each.__self__))
        if isinstance(each, functools.partial):
            return (each.func, *each.args, *each.keywords.values())
        if isinstance(each, Mapping):
            return itertools.islice(each.values(), MAX_ITEMS) if type(each) is dict else ()
        if type(each) in (list, tuple, set, frozenset):
            return itertools.islice(each, MAX_ITEMS)
        if isinstance(each, BaseChannel):
            return (_type_of(each, "ValueType"), _type_of(each, "UpdateType"))
        if isinstance(each, StateGraph):
            return (*each.schemas, *_attributes(each))
        if isinstance(each, BaseCheckpointSaver):
            return ()
        if is_framework(type(each).__module__) or dataclasses.is_dataclass(each):
            return _attributes(each)
        if callable(each):
            # A node may be a callable object.
            return (inspect.getattr_static(type(each), "__call__"), *_attributes(each))
        return ()

    def _of_class(self, cls: type, *, in_schema: bool) -> Iterable[Any]:
        if issubclass(cls, Runnable):
            # Models and tools are not data.
            return ()
        if typing.is_typeddict(cls):
            return _hints(cls).values()
        own = is_framework(cls.__module__)
        if not is_knowable(cls) or (own and not (in_schema and cls.__module__.startswith("lang"))):
            return ()
        self.found[cls] = None
        hints = _hints(cls).values() or [field.annotation for field in getattr(cls, "model_fields", {}).values()]
        # A generic model contains its type arguments.
        return (*hints, *typing.get_args(cls))


def _is_hint(each: Any) -> bool:
    return typing.get_origin(each) is not None or isinstance(each, (typing.TypeVar, typing.NewType))


def _of_hint(hint: Any) -> Iterable[Any]:
    if isinstance(hint, typing.TypeVar):
        return (hint.__bound__, *hint.__constraints__)
    if isinstance(hint, typing.NewType):
        return (hint.__supertype__,)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return map(type, arguments)
    if origin is typing.Annotated:
        return arguments[:1]
    return (origin, *arguments)


def _of_function(function: types.FunctionType) -> Iterable[Any]:
    """Return the objects that a function names: in its signature, closure and own code."""
    named: list[Any] = [
        *_hints(function).values(),
        *(function.__defaults__ or ()),
        getattr(function, "__wrapped__", None),
    ]
    for cell in function.__closure__ or ():
        try:
            named.append(cell.cell_contents)
        except ValueError:
            # The cell is still empty.
            continue
    if not is_framework(function.__module__ or ""):
        held = function.__globals__
        in_code = [held[name] for name in _names(function.__code__) if name in held]
        named += [each for each in in_code if isinstance(each, (type, types.FunctionType, _TaskFunction, Pregel))]
    return named


def _names(code: types.CodeType) -> set[str]:
    nested = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return {*code.co_names, *(name for each in nested for name in _names(each))}


def _hints(named: Any) -> dict[str, Any]:
    inner = inspect.unwrap(named) if isinstance(named, types.FunctionType) else named
    module = sys.modules.get(getattr(inner, "__module__", None) or "")
    known = getattr(inner, "__globals__", None) or (vars(module) if module is not None else {})
    try:
        return typing.get_type_hints(inner, known, include_extras=True)
    except Exception:  # User annotations may raise anything.
        given = getattr(inner, "__annotations__", {})
        return {name: hint for name, hint in given.items() if not isinstance(hint, str)}


def _type_of(channel: Any, name: str) -> Any:
    try:
        return getattr(channel, name)
    except (AttributeError, NotImplementedError):
        return None


def _attributes(each: Any) -> list[Any]:
    held = getattr(each, "__dict__", None)
    values = [*itertools.islice(held.values(), MAX_ITEMS)] if type(held) is dict else []
    slots = [name for base in type(each).__mro__ for name in _slots(base)]
    return values + [getattr(each, name, None) for name in slots]


def _slots(cls: type) -> Iterable[str]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else [name for name in slots if not name.startswith("__")]


def tell_savers_of_graphs(tell: Callable[[Any, Any], Any]) -> None:
    """Call `tell(saver, graph)` whenever a graph starts to use its saver.

    This wraps the method in which LangGraph passes its schemas to savers in strict mode. With a
    version of LangGraph that lacks the method, savers know only the classes in `allow`.
    """
    inner: Any = getattr(Pregel, "_apply_checkpointer_allowlist", None)
    if inner is None or getattr(inner, "__clew__", False):
        return

    @functools.wraps(inner)
    def wrapped(self: Any, checkpointer: Any) -> Any:
        tell(checkpointer, self)
        return inner(self, checkpointer)

    wrapped.__clew__ = True  # type: ignore[attr-defined]
    Pregel._apply_checkpointer_allowlist = wrapped  # type: ignore[method-assign]

"""Registry of the classes that a graph's values may have.

Stored data contains class names. A name is looked up only among classes that this process already
knows: LangChain's and LangGraph's data types, those that the user allows, and those that the graph
names (`graphs.py`). Data never causes an import, and no constructor runs: objects are built from
their fields.
"""

from __future__ import annotations

import importlib
import ipaddress
import math
import pathlib
import re
import sys
import threading
from collections.abc import Callable, Iterable
from datetime import timezone
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

import msgspec
import pydantic
from langchain_core import agents, documents, outputs, prompt_values
from langchain_core import messages as langchain
from langchain_core.messages import BaseMessage
from langgraph import types as langgraph
from langgraph.store import base as store

from clew.bounded import BoundedMap
from clew.codec.classes import Entry, is_saveable_class
from clew.codec.registry import DEFAULT_REGISTRY, Registry, register
from clew.errors import ConfigError

T = TypeVar("T")
Allowed = Iterable[type | tuple[str, str]]
"""Classes, or pairs of module and name."""
MAX_LEARNED: Final = 2000
"""The maximum number of classes of graphs that a saver remembers. The oldest are forgotten first."""
BUILTINS: Final = (str, bytes, int, float, list, dict, tuple, set, frozenset)
"""Built-in types that a class without fields may extend."""

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


def spelled(cls: type) -> str:
    """Return the name of a class in stored data."""
    return f"{cls.__module__}:{cls.__qualname__}"


class Classes(Registry):
    """A bounded registry with qualified names.

    `allow` may name classes, which are imported when needed.

    Subclasses of a known class are known as well: a schema that says `Shape` includes circles.
    Among the classes of frameworks, this holds for messages only.
    """

    def __init__(self, parent: Registry, allow: Allowed = (), *, bound: int | None = None) -> None:
        super().__init__(parent)
        self._lock = threading.RLock()
        self._order: BoundedMap[type, type] = BoundedMap(max_entries=math.inf if bound is None else bound)
        self._allowed = {tuple(each) for each in allow if not isinstance(each, type)}
        for each in allow:
            if isinstance(each, type):
                self.know(each)

    def know(self, cls: type) -> None:
        """Allow values of `cls`. Raises ConfigError if its objects can't be saved."""
        known = self.by_name(spelled(cls))
        if known is not None and known.cls is cls:
            return
        if is_saveable_class(cls):
            self.register(cls)
        elif _is_old_pydantic(cls):
            self.register(cls, encode=_fields_of_old_pydantic, decode=_old_pydantic_maker(cls))
        elif (base := next((each for each in BUILTINS if issubclass(cls, each)), None)) is not None:
            self.register(cls, encode=base, decode=cls)
        else:
            raise ConfigError(
                f"{cls.__module__}.{cls.__qualname__} can't be allowed: it is not a dataclass, pydantic model, msgspec "
                "struct, attrs class, named tuple or enum; call clew.register(…, encode=…, decode=…) for it",
                type=cls,
            )

    def learn(self, classes: Iterable[type]) -> None:
        """Allow values of these classes. Classes that can't be saved are skipped."""
        for cls in classes:
            try:
                self.know(cls)
            except ConfigError:
                continue

    def register(
        self,
        cls: type[T],
        *,
        name: str | None = None,
        aliases: tuple[str, ...] = (),
        encode: Callable[[T], Any] | None = None,
        decode: Callable[[Any], T] | None = None,
    ) -> type[T]:
        with self._lock:
            made = super().register(cls, name=name or spelled(cls), aliases=aliases, encode=encode, decode=decode)
            for forgotten, _ in self._order.put(cls, cls):
                self.forget(forgotten)
        return made

    def by_class(self, cls: type) -> Entry | None:
        entry = super().by_class(cls)
        if entry is None and ((cls.__module__, cls.__qualname__) in self._allowed or self._is_extension(cls)):
            self.learn([cls])
            entry = super().by_class(cls)
        return entry

    def _is_extension(self, cls: type) -> bool:
        return any(base in self.own and is_extended(base) for base in cls.__mro__[1:])

    def by_packed_name(self, name: bytes) -> Entry | None:
        entry = super().by_packed_name(name)
        if entry is None and (found := self.found(msgspec.msgpack.decode(name, type=str))) is not None:
            entry = super().by_class(found)
        return entry

    def found(self, name: str) -> type | None:
        """Return the class called `name`, if it is known, allowed, or extends a known one."""
        known = self.by_name(name)
        if known is not None:
            return known.cls
        pending: list[Any] = [cls for cls in self._order if is_extended(cls)]
        while pending:
            for cls in pending.pop().__subclasses__():
                if spelled(cls) == name:
                    self.learn([cls])
                    return cls if super().by_class(cls) is not None else None
                pending.append(cls)
        module, _, own = name.partition(":")
        if (module, own) in self._allowed:
            # Importing is safe: the user named the class.
            named: Any = importlib.import_module(module)
            for part in own.split("."):
                named = getattr(named, part, None)
            if isinstance(named, type):
                self.know(named)
                return named
        return self.parent.found(name) if isinstance(self.parent, Classes) else None


_FRAMEWORKS: Final = ("pydantic", "langchain", "langgraph", "typing_extensions", "annotated_types", "clew")


def is_framework(module: str) -> bool:
    """Return whether `module` belongs to a framework or to Python itself."""
    root = module.partition(".")[0]
    return (
        root in _FRAMEWORKS
        or root.startswith(("langchain_", "langgraph_", "pydantic_"))
        or root in sys.stdlib_module_names
    )


def is_extended(cls: type) -> bool:
    """Return whether subclasses of `cls` are known with it."""
    return issubclass(cls, BaseMessage) or not is_framework(cls.__module__)


def is_knowable(cls: type) -> bool:
    """Return whether objects of `cls` can be saved and loaded."""
    return is_saveable_class(cls) or _is_old_pydantic(cls) or issubclass(cls, BUILTINS)


def _is_old_pydantic(cls: type) -> bool:
    return any(base.__module__ == "pydantic.v1.main" and base.__name__ == "BaseModel" for base in cls.__mro__)


def _fields_of_old_pydantic(obj: Any) -> Any:
    return [dict(obj.__dict__), sorted(obj.__fields_set__)]


def _old_pydantic_maker(cls: Any) -> Callable[[Any], Any]:
    return lambda content: cls.construct(set(content[1]), **content[0])


def _own() -> Classes:
    """Return LangChain's and LangGraph's data types, and the types of Python that LangGraph saves."""
    known = Classes(DEFAULT_REGISTRY)
    of_langchain: list[Any] = [
        *(langchain.BaseMessage, langchain.BaseMessageChunk, documents.Document),
        *(agents.AgentAction, agents.AgentActionMessageLog, agents.AgentStep, agents.AgentFinish),
        *(outputs.Generation, outputs.GenerationChunk, outputs.ChatGeneration, outputs.ChatGenerationChunk),
        *(outputs.RunInfo, outputs.ChatResult, outputs.LLMResult),
        *(prompt_values.StringPromptValue, prompt_values.ChatPromptValue),
        *(prompt_values.ChatPromptValueConcrete, prompt_values.ImagePromptValue),
    ]
    of_langgraph: list[Any] = [
        *(langgraph.Interrupt, langgraph.Command, langgraph.Overwrite, langgraph.TimeoutPolicy),
        *(langgraph.PregelTask, langgraph.StateSnapshot, langgraph.StateUpdate, store.GetOp),
    ]
    for origin, classes in ("langchain", of_langchain), ("langgraph", of_langgraph):
        for cls in classes:
            known.register(cls, name=f"{origin}.{cls.__name__}", aliases=(spelled(cls),))
    known.register(
        langgraph.Send,
        name="langgraph.Send",
        encode=lambda send: [send.node, send.arg, send.timeout],
        decode=lambda parts: langgraph.Send(parts[0], parts[1], timeout=parts[2]),
    )
    for each in (store.Item, store.SearchItem):
        _register_item(known, each)
    for path in (type(pathlib.Path()), pathlib.PurePosixPath, pathlib.PureWindowsPath):
        known.register(path, name=f"python.{path.__name__}", encode=str, decode=path)
    known.register(
        re.Pattern,
        name="python.Pattern",
        encode=lambda pattern: [pattern.pattern, pattern.flags],
        decode=lambda parts: re.compile(parts[0], parts[1]),
    )
    for address in (
        *(ipaddress.IPv4Address, ipaddress.IPv4Interface, ipaddress.IPv4Network),
        *(ipaddress.IPv6Address, ipaddress.IPv6Interface, ipaddress.IPv6Network),
    ):
        known.register(address, name=f"python.{address.__name__}", encode=str, decode=address)
    known.register(ZoneInfo, name="python.ZoneInfo", encode=lambda zone: zone.key, decode=ZoneInfo)
    known.register(
        timezone,
        name="python.timezone",
        encode=lambda zone: [*zone.__getinitargs__()],  # type: ignore[attr-defined]
        decode=lambda parts: timezone(*parts),
    )
    for secret in (pydantic.SecretStr, pydantic.SecretBytes):
        known.register(
            secret, name=f"pydantic.{secret.__name__}", encode=lambda held: held.get_secret_value(), decode=secret
        )
    return known


def _register_item(known: Classes, cls: Any) -> None:
    names = [name for base in reversed(cls.__mro__) for name in getattr(base, "__slots__", ())]
    known.register(
        cls,
        name=f"langgraph.{cls.__name__}",
        encode=lambda item: {name: getattr(item, name) for name in names},
        decode=lambda fields: cls(**fields),
    )


def _place_of(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__name__


OWN: Final = _own()
OWN_BY_PLACE: Final = {_place_of(cls): cls for cls in (*MESSAGES, *OWN.own)}
"""The same classes by module and name, as LangGraph's serializer refers to them."""

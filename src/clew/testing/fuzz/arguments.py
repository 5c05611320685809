"""Arbitrary arguments: values that a caller may pass on purpose, by mistake or in bad faith."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final
from uuid import UUID

from clew.model.commit import HEAD
from clew.model.config import ANY_USER
from clew.model.message import Message
from clew.model.retention import RetentionPolicy
from clew.model.thread import ThreadInfo

IDS: Final = ("t", "u", "f", "c1", "", "x" * 300, "\0", "é" * 40, "\ud800", "clew:replication", "a/b", "%", "'; --")
_NUMBERS: Final = (0, 1, -1, 2, 50, 1 << 31, 1 << 63, -(1 << 63), 1 << 200, -(1 << 64), True)
_FLOATS: Final = (0.0, -0.0, 1.5, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan)
_TEXTS: Final = ("", "a", "text", "\0", "\ud800", "ß", "İ", "e\u0301", "\U0001f600" * 3, "x" * 5000, "a b " * 3000)


class Values:
    """Draws values from one random source."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def text(self) -> str:
        if self.random.random() < 0.7:
            return self.random.choice(_TEXTS)
        return "".join(
            chr(self.random.choice((self.random.randrange(128), self.random.randrange(0xD800)))) for _ in range(9)
        )

    def thing(self, depth: int = 0) -> Any:
        """Return any object, whether it can be saved or not."""
        pick = self.random.random()
        if depth < 4 and pick < 0.3:
            return self._container(depth)
        if pick < 0.36:
            return self.random.choice(
                (object(), len, Values, ..., NotImplemented, ANY_USER, HEAD, ValueError("x"), range(3))
            )
        return self.random.choice(
            (
                *(None, True, False, self.text(), self.text().encode("utf-8", "replace"), self.random.choice(_FLOATS)),
                *(
                    self.random.choice(_NUMBERS),
                    self.random.randrange(-100, 100),
                    1j,
                    Decimal("1E+400"),
                    Decimal("NaN"),
                ),
                *(
                    datetime(2026, 1, 1),  # noqa: DTZ001
                    datetime(1, 1, 1, tzinfo=UTC),
                    datetime.max.replace(tzinfo=UTC),
                    date.min,
                    time.max,
                ),
                *(timedelta.max, timedelta.min, UUID(int=7), bytearray(b"x"), memoryview(b"xyz"), time(1, tzinfo=UTC)),
            )
        )

    def _container(self, depth: int) -> Any:
        items = [self.thing(depth + 1) for _ in range(self.random.randrange(5))]
        kind = self.random.randrange(9)
        if kind == 0:
            return tuple(items)
        if kind == 1:
            return {_hashable(item): item for item in items}
        if kind == 2:
            return set(map(_hashable, items))
        if kind == 3:
            return deque(items, maxlen=self.random.choice((None, 2)))
        if kind == 4:
            return OrderedDict((self.text(), item) for item in items)
        if kind == 5:
            return self._deep(items)
        if kind == 6:
            return [self.random.choice((self.text(), 7, None))] * self.random.choice((3, 300, 4000))
        return items if kind == 7 else {self.text(): item for item in items}

    def _deep(self, inner: Any) -> Any:
        for _ in range(self.random.choice((5, 150, 250, 1500))):
            inner = [inner] if self.random.random() < 0.5 else {"k": inner}
        if self.random.random() < 0.1:
            circle: list[Any] = [inner]
            circle.append(circle)
            return circle
        return inner

    def state(self) -> Any:
        if self.random.random() < 0.4:
            return self.thing()
        return {
            "messages": [{"role": "user", "content": f"{n} " * 40} for n in range(self.random.randrange(40))],
            "text": "word " * self.random.choice((0, 10, 3000)),
            self.text(): self.thing(),
        }

    def identifier(self) -> Any:
        return self.random.choice(IDS[:4] if self.random.random() < 0.7 else IDS)

    def config(self) -> Any:
        if self.random.random() < 0.4:
            return self.identifier()
        config: dict[str, Any] = {"thread_id": self.identifier()}
        for name in ("user_id", "run_id", "checkpoint_id", "namespace"):
            if self.random.random() < 0.2:
                config[name] = self.identifier() if self.random.random() < 0.8 else self.thing()
        return {"configurable": config} if self.random.random() < 0.3 else config

    def message(self) -> Any:
        if self.random.random() < 0.2:
            return self.thing()
        fields: dict[str, Any] = {"role": "user", "content": self.text(), "message_id": self.identifier()}
        if self.random.random() < 0.4:
            fields[self.random.choice(("content", "tool_calls", "metadata", "created_at", "run_id", "role"))] = (
                self.thing()
            )
        return Message(**fields) if self.random.random() < 0.5 else fields

    def policy(self) -> Any:
        return self.random.choice(
            (
                None,
                RetentionPolicy(max_history=1),
                RetentionPolicy(max_age=timedelta(0), keep_every=2),
                RetentionPolicy(max_bytes=100),
                RetentionPolicy(max_age=timedelta.max),
            )
        )

    def description(self) -> Any:
        fields = {"thread_name": self.text(), "tags": (self.text(),), "metadata": {"k": self.thing()}}
        return fields if self.random.random() < 0.5 else ThreadInfo(thread_id=self.identifier(), **fields)  # type: ignore[arg-type]

    def argument(self, name: str) -> Any:
        """Return a value for the parameter of that name, mostly of the right kind."""
        drawn = _FOR.get(name)
        if drawn is None or self.random.random() < 0.15:
            return self.thing() if name not in _CALLED else None
        return drawn(self)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except (TypeError, ValueError):
        return "unhashable"
    return value


def _mapping(values: Values) -> dict[str, Any]:
    return {values.text(): values.thing() for _ in range(values.random.randrange(3))}


def _some(draw: Callable[[Values], Any]) -> Callable[[Values], list[Any]]:
    return lambda values: [draw(values) for _ in range(values.random.randrange(4))]


_CALLED: Final = ("choose", "progress", "rebuild")
"""Parameters that are callbacks, whose errors are not Clew's."""
_FOR: Final[dict[str, Callable[[Values], Any]]] = {
    **dict.fromkeys(("config", "config_a", "config_b"), Values.config),
    **dict.fromkeys(("state", "obj"), Values.state),
    **dict.fromkeys(("thread_id", "message_id", "user_id", "run_id", "before", "new_id", "holder"), Values.identifier),
    **dict.fromkeys(("run_ids", "remove", "remove_messages"), _some(Values.identifier)),
    **dict.fromkeys(("metadata", "where", "set", "attachments"), _mapping),
    **dict.fromkeys(("limit", "offset", "step"), lambda values: values.random.choice((None, *_NUMBERS))),
    **dict.fromkeys(("ttl", "wait"), lambda values: values.random.choice((0, 0.001, -1, *_FLOATS)) if values else 0),
    **dict.fromkeys(("search", "node_name"), Values.text),
    **dict.fromkeys(("keep", "dry_run", "touch"), lambda values: values.random.choice((True, False, ()))),
    **dict.fromkeys(_CALLED, lambda values: None),
    "messages": _some(Values.message),
    "append": lambda values: {values.text(): [values.thing()]},
    "policy": Values.policy,
    "info": Values.description,
    "namespaces": lambda values: values.random.choice(("own", "all", "other")),
    "on_conflict": lambda values: values.random.choice(("branch", "fail", "raise")),
    "parent": lambda values: values.random.choice((None, HEAD)),
    "known": lambda values: None,
}

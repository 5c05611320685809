"""Arbitrary arguments: values that a caller may pass on purpose, by mistake or in bad faith."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any, Final
from uuid import UUID

from clew.model.checkpoint import Checkpoint, CheckpointInfo
from clew.model.commit import HEAD
from clew.model.config import ANY_USER
from clew.model.event import Event
from clew.model.message import Message
from clew.model.retention import RetentionPolicy
from clew.model.search import SearchHit
from clew.model.thread import ThreadInfo

IDS: Final = ("t", "u", "f", "c1", "", "x" * 300, "\0", "é" * 40, "\ud800", "clew:replication", "a/b", "%", "'; --")
_NUMBERS: Final = (
    *(0, 1, -1, 2, 50, 1 << 31, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, -(1 << 63), 1 << 200, -(1 << 64), True),
    10**5000,
)
_FLOATS: Final = (0.0, -0.0, 1.5, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan)
_TEXTS: Final = ("", "a", "text", "\0", "\ud800", "ß", "İ", "e\u0301", "\U0001f600" * 3, "x" * 5000, "a b " * 3000)


class Values:
    """Draws values from one random source."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._seen: list[Any] = []

    def learn(self, result: Any) -> None:
        """Keep a call's result, or one item of it, as a later argument: a cursor, a base or a config."""
        items = result if isinstance(result, list) else [result]
        if items and isinstance(found := self.random.choice(items), _USABLE):
            self._seen.append(found)

    def known(self, *kinds: type) -> Any:
        """Return a record of these kinds that an earlier call returned, or one of its ids or positions."""
        seen = [each for each in self._seen if isinstance(each, kinds or _USABLE)]
        found = self.random.choice(seen) if seen else None
        fields = [getattr(found, name) for name in _HANDLES if hasattr(found, name)]
        return self.random.choice((found, found, *fields))

    def saved(self) -> Any:
        """Return the config of a checkpoint that an earlier call saved or listed."""
        seen = [each.config for each in self._seen if isinstance(each, Checkpoint)]
        return self.random.choice(seen) if seen else self.identifier()

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
        return self.random.choice(IDS[:4] if self.random.random() < 0.85 else IDS)

    def config(self) -> Any:
        if self.random.random() < 0.4:
            return self.identifier()
        if self.random.random() < 0.2:
            return self.saved()
        config: dict[str, Any] = {"thread_id": self.identifier()}
        for name in ("user_id", "run_id", "checkpoint_id", "checkpoint_ns", "bogus"):
            if self.random.random() < (0.1 if name != "bogus" else 0.01):
                config[name] = self.identifier() if self.random.random() < 0.8 else self.thing()
        return {"configurable": config} if self.random.random() < 0.03 else config

    def whose(self) -> Any:
        """Return the config of a method that lists threads."""
        return {"user_id": self.user()} if self.random.random() < 0.9 else self.config()

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
                RetentionPolicy(thread_ttl=timedelta(microseconds=1)),
                RetentionPolicy(thread_ttl=timedelta(days=1), message_ttl=timedelta(seconds=1)),
            )
        )

    def user(self) -> Any:
        return self.random.choice((None, ANY_USER, 7, -1, *map(self._identifier, range(4))))

    def _identifier(self, _: int) -> Any:
        return self.identifier()

    def number(self) -> Any:
        """Return a count: mostly a small one, sometimes one that no storage can hold."""
        small = self.random.random() < 0.7
        return self.random.randrange(4) if small else self.random.choice((None, *_NUMBERS, *_FLOATS))

    def seconds(self) -> Any:
        usual = self.random.random() < 0.5
        choices: tuple[Any, ...] = (
            (0, 0.001, 5, 366 * 86_400) if usual else (timedelta.max, timedelta(1), *_NUMBERS, *_FLOATS)
        )
        return self.random.choice(choices)

    def cursor(self) -> Any:
        return self.known() if self.random.random() < 0.6 else self.random.choice((self.identifier(), self.text()))

    def changes(self) -> dict[str, Any]:
        """Return fields of a thread to change, by keyword."""
        fields: dict[str, Callable[[], Any]] = {
            "thread_name": self.text, "run_id": self.identifier, "user_id": self.user, "retention": self.policy,
            "ttl": self.seconds, "tags": partial(_tags, self), "metadata": partial(_mapping, self), "bogus": self.text,
        }  # fmt: skip
        chosen = self.random.sample(list(fields), self.random.randrange(4))
        return {each: fields[each]() if self.random.random() < 0.9 else self.thing() for each in chosen}

    def description(self) -> Any:
        fields = {"thread_name": self.text(), "tags": (self.text(),), "metadata": {"k": self.thing()}}
        return fields if self.random.random() < 0.5 else ThreadInfo(thread_id=self.identifier(), **fields)  # type: ignore[arg-type]

    def argument(self, name: str) -> Any:
        """Return a value for the parameter of that name, mostly of the right kind."""
        if name == "**":
            return self.changes()
        drawn = _FOR.get(name)
        if drawn is None or self.random.random() < 0.06:
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


def _tags(values: Values) -> Any:
    return values.random.choice(((), "x", ("x",), ["x", "x"], {"x": 1}, ("x" * 300,), [values.text()] * 3, range(5)))


def _one_of(*choices: Any) -> Callable[[Values], Any]:
    return lambda values: values.random.choice(choices)


_HANDLES: Final = ("checkpoint_id", "message_id", "thread_id", "position", "config")
_USABLE: Final = (Checkpoint, CheckpointInfo, Message, ThreadInfo, SearchHit, Event, str)
"""Results that can be the argument of another call."""
_CALLED: Final = ("choose", "progress", "rebuild", "begin", "count_tokens")
"""Parameters that are callbacks, whose errors are not Clew's."""
_FOR: Final[dict[str, Callable[[Values], Any]]] = {
    **dict.fromkeys(("config", "config_a", "config_b"), Values.config),
    **dict.fromkeys(("state", "obj"), Values.state),
    **dict.fromkeys(("thread_id", "message_id", "run_id", "new_id", "holder", "to"), Values.identifier),
    **dict.fromkeys(("before", "after", "since", "to"), Values.cursor),
    **dict.fromkeys(("run_ids", "remove", "remove_messages"), _some(Values.identifier)),
    **dict.fromkeys(("metadata", "where", "set", "attachments"), _mapping),
    **dict.fromkeys(("limit", "offset", "step", "last", "max_tokens", "turns"), Values.number),
    **dict.fromkeys(("ttl", "wait", "timeout"), Values.seconds),
    **dict.fromkeys(("search", "node_name", "text"), Values.text),
    **dict.fromkeys(("keep", "dry_run", "touch"), _one_of(True, False, ())),
    **dict.fromkeys(_CALLED, _one_of(None)),
    "messages": _some(Values.message),
    "append": lambda values: {values.text(): [values.thing()]},
    "policy": Values.policy,
    "info": Values.description,
    "namespaces": _one_of("own", "all", "other"),
    "on_conflict": _one_of("branch", "reject", "raise"),
    "parent": _one_of(None, HEAD),
    "known": Values.known,
    "user_id": Values.user,
    "tags": _tags,
    "branches": _one_of("head", "all", "none"),
    "on_other_branches": _one_of("move", "replace", "other"),
    "as_": _one_of(None, "openai", "openai-responses", "anthropic", "gemini", "langchain", "other"),
    # What a counter returns is an argument, too.
    "count_tokens": _one_of(
        *(lambda _, count=count: count for count in (1, 0, -1, 1.5, math.nan, "x", None, 1 << 200))
    ),
    "begin": _one_of(None, {"n": 1}, dict, list, object),
}

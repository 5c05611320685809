"""Arbitrary calls of the public API on a fresh checkpointer."""

from __future__ import annotations

import inspect
import math
from functools import cache, partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final

from clew.checkpointer.base import BaseCheckpointer
from clew.checkpointer.leases import HeldLease
from clew.checkpointer.turns import Turn
from clew.checkpointer.watching import SyncWatch
from clew.factory import connect
from clew.model.checkpoint import CheckpointInfo
from clew.model.encryption import Encryption
from clew.model.message import Message
from clew.model.search import SearchHit
from clew.model.thread import ThreadInfo
from clew.testing.fuzz.arguments import Values
from clew.testing.fuzz.limits import Outcome
from clew.validation import MOST_SECONDS

CALLS = 25
"""Number of calls in a case, the release included."""
_LIFE = ("setup", "release", "close")
"""Methods that open or close a checkpointer, which are not called."""
_EMPTYING = ("clear_all", "erase_user", "delete_thread", "clear_state", "delete_runs")
"""Methods that are called less often, because calls on an empty store tell little."""
_LISTS = ("list_threads", "get_threads")
_OF_CHECKPOINTS = ("delete_checkpoint", "put_attachments", "fork")
_CURSORS: Final[dict[str, type]] = {
    **dict.fromkeys(_LISTS, ThreadInfo),
    **dict.fromkeys(("list_messages", "get_messages"), Message),
    "search": SearchHit,
}
_LONGEST_WAIT: Final = 0.001
"""Seconds that a call may wait for an event."""
_KEY: Final = Encryption(keys={"fuzz": bytes(range(32))})
WAYS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("memory://", {}),
    ("sqlite", {}),
    ("memory://", {"encryption": _KEY}),
    ("memory://", {"cache": "memory://"}),
    ("memory://", {"durability": "background"}),
    ("memory://", {"secondary": "memory://"}),
    ("sqlite", {"encryption": _KEY, "cache": "memory://", "durability": "background"}),
    ("sqlite", {"encryption": _KEY, "secondary": "memory://"}),
)
"""Storages and wrappers that are called, with their options."""


def call_case(number: int, outcome: Outcome, folder: Path) -> None:
    """Make arbitrary calls, mostly to a few threads."""
    random = Random(f"calls {number}")
    values = Values(random)
    # The memory storage is by far the fastest: half of the cases are its own.
    way, options = random.choice(WAYS) if random.random() < 0.5 else WAYS[0]
    before = len(outcome.findings)
    checkpointer = _opened(way, options, folder)
    try:
        _fill(checkpointer, values)
        for _ in range(CALLS - 1):
            name, parameters = random.choice(methods())
            if name in _EMPTYING and random.random() < 0.7:
                name, parameters = random.choice(methods())
            arguments = _arguments(name, parameters, values)
            said = f"{name}({', '.join(arguments)})"
            values.learn(outcome.call(said, partial(_called, checkpointer, name, arguments, values)))
    finally:
        outcome.call("release", checkpointer.release)
    outcome.findings[before:] = [f"{each} [{way} {', '.join(options)}]" for each in outcome.findings[before:]]


def _opened(way: str, options: dict[str, Any], folder: Path) -> BaseCheckpointer:
    if way == "sqlite":
        for ending in ("", "-wal", "-shm"):
            (folder / f"calls.db{ending}").unlink(missing_ok=True)
        way = f"sqlite:///{folder}/calls.db?synchronous=NORMAL"
    return connect(way, retry_for=0, max_state_bytes=1 << 20, **options)


def _fill(checkpointer: BaseCheckpointer, values: Values) -> None:
    """Begin two threads, so that there is something to read, rewind, search and delete."""
    for name in ("t", "u", "f"):
        for number in range(values.random.randrange(4)):
            said = {"role": "user", "content": f"text {number}", "message_id": f"{name}{number}"}
            values.learn(checkpointer.put_checkpoint(name, {"n": number, "m": ["x" * 300]}, messages=[said]))
            values.learn(checkpointer.list_messages(name))
            values.learn(checkpointer.list_checkpoints(name))
    values.learn(checkpointer.list_threads({"user_id": None}))
    values.learn(checkpointer.search("text"))


def _arguments(method: str, parameters: tuple[tuple[str, bool], ...], values: Values) -> dict[str, Any]:
    arguments = {
        each: values.argument(each) for each, required in parameters if required or values.random.random() < 0.2
    }
    arguments.update(arguments.pop("**", {}))
    _make_sense(method, arguments, values)
    for name, most in (("wait", 0), ("timeout", _LONGEST_WAIT)):
        given = arguments.get(name)
        if isinstance(given, (int, float)) and (most < given <= MOST_SECONDS or given == math.inf):
            # No case blocks. Numbers out of range stay as they are.
            arguments[name] = most
    return arguments


def _make_sense(method: str, arguments: dict[str, Any], values: Values) -> None:
    """Mostly give a method arguments that it accepts together, so that more than its checks are called."""
    if values.random.random() < 0.2:
        return
    if method in _LISTS:
        arguments["config"] = values.whose()
    if method in _OF_CHECKPOINTS:
        arguments["config"] = values.saved()
    for name in {"before", "after"} & arguments.keys():
        arguments[name] = values.known(_CURSORS.get(method, CheckpointInfo))
    if {"max_tokens", "count_tokens"} & arguments.keys():
        arguments["max_tokens"] = values.number()
        arguments["count_tokens"] = values.argument("count_tokens")
    if method == "cleanup":
        arguments["policy"] = values.policy()
    if method == "rewind":
        base = values.saved()
        if arguments.pop("to", None) and isinstance(base, dict):
            arguments["to"] = base.pop("checkpoint_id", None)
            arguments.pop("turns", None)
        else:
            arguments["turns"] = values.number()
        arguments["config"] = base


def _called(checkpointer: BaseCheckpointer, name: str, arguments: dict[str, Any], values: Values) -> Any:
    """Call the method, and use what it returns for a `with` statement or a loop."""
    if name == "watch" and arguments.get("timeout") is None:
        arguments = {**arguments, "timeout": 0}
    result = getattr(checkpointer, name)(**arguments)
    if isinstance(result, Turn):
        with result:
            if values.random.random() < 0.5:
                result.say(values.message())
            if values.random.random() < 0.5:
                result.state = values.state()
            if values.random.random() < 0.3:
                result.checkpoint(step=values.number(), node_name=values.argument("node_name"))
        return result.saved
    if isinstance(result, HeldLease):
        with result:
            return result.token
    if isinstance(result, SyncWatch):
        with result:
            return [*islice(result, 5), result.position]
    return result


@cache
def methods() -> list[tuple[str, tuple[tuple[str, bool], ...]]]:
    """Return a checkpointer's sync methods, with their parameters and whether each is required."""
    found = []
    with connect("memory://") as checkpointer:
        for name in dir(checkpointer):
            method = getattr(checkpointer, name)
            # Each sync method has an async version, prefixed with `a`.
            if name.startswith("_") or name in _LIFE or not callable(method) or not hasattr(checkpointer, f"a{name}"):
                continue
            parameters = inspect.signature(method).parameters.values()
            found.append((name, tuple(map(_parameter, parameters))))
    return found


def _parameter(parameter: inspect.Parameter) -> tuple[str, bool]:
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return "**", False
    return parameter.name, parameter.default is inspect.Parameter.empty

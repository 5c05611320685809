"""Arbitrary calls of the public API on a fresh checkpointer."""

from __future__ import annotations

import inspect
from functools import cache, partial
from random import Random
from typing import Any

from clew.factory import connect
from clew.testing.fuzz.arguments import Values
from clew.testing.fuzz.limits import Outcome

CALLS = 25
"""Number of calls in a case."""
_LIFE = ("setup", "release", "close")
"""Methods that open or close a checkpointer, which are not called."""


def call_case(number: int, outcome: Outcome) -> None:
    """Make arbitrary calls, mostly to a few threads."""
    random = Random(f"calls {number}")
    values = Values(random)
    checkpointer = connect("memory://", retry_for=0, max_state_bytes=1 << 20)
    try:
        for _ in range(CALLS):
            name, parameters = random.choice(methods())
            arguments = {
                each: values.argument(each) for each, required in parameters if (required or random.random() < 0.3)
            }
            _without_waiting(arguments)
            outcome.call(f"{name}({', '.join(arguments)})", partial(getattr(checkpointer, name), **arguments))
    finally:
        checkpointer.release()


@cache
def methods() -> list[tuple[str, tuple[tuple[str, bool], ...]]]:
    """Return a checkpointer's sync methods, with their parameters and whether each is required."""
    checkpointer = connect("memory://")
    found = []
    for name in dir(checkpointer):
        method = getattr(checkpointer, name)
        # Each sync method has an async version, prefixed with `a`.
        if name.startswith("_") or name in _LIFE or not callable(method) or not hasattr(checkpointer, f"a{name}"):
            continue
        parameters = inspect.signature(method).parameters.values()
        found.append((name, tuple((each.name, each.default is inspect.Parameter.empty) for each in parameters)))
    checkpointer.release()
    return found


def _without_waiting(arguments: dict[str, Any]) -> None:
    """Set `wait` to 0, so that no call blocks."""
    wait = arguments.get("wait")
    if isinstance(wait, (int, float)) and wait > 0:
        arguments["wait"] = 0

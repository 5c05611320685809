"""Numbers in calls: each method bounds every number that it takes, and refuses what is none, with ConfigError."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any

import pytest

import clew

NOT_NUMBERS = (math.nan, -math.inf, True, "1")
TOO_LARGE = (1 << 64, 10**5000)
ARGUMENTS: dict[str, Any] = {
    **dict.fromkeys(("config", "config_a", "config_b"), "t"),
    "count_tokens": lambda message: 1,
    "state": {"n": 1},
    "text": "x",
    "user_id": "ann",
}
BELOW_ZERO = {"step"}
"""Numbers that may be negative: LangGraph's first step is -1."""


def numbers() -> Iterator[tuple[str, str]]:
    """Yield each method and each number that it takes."""
    for name in dir(clew.BaseCheckpointer):
        if name.startswith("_") or not hasattr(clew.BaseCheckpointer, f"a{name}"):
            continue
        for each in inspect.signature(getattr(clew.BaseCheckpointer, name)).parameters.values():
            kinds = str(each.annotation).replace("|", " ").split()
            if {"int", "float"} & set(kinds) and each.name != "user_id":
                yield name, each.name


def call(name: str, **given: Any) -> None:
    parameters = inspect.signature(getattr(clew.BaseCheckpointer, name)).parameters.values()
    needed = {
        each.name: ARGUMENTS[each.name] for each in parameters if each.default is each.empty and each.name in ARGUMENTS
    }
    if name in ("list_threads", "get_threads"):
        needed["config"] = {"user_id": "ann"}
    if "max_tokens" in given:
        needed["count_tokens"] = ARGUMENTS["count_tokens"]
    with clew.connect("memory://") as checkpointer:
        getattr(checkpointer, name)(**{**needed, **given})


@pytest.mark.parametrize(("name", "number"), list(numbers()), ids=str)
def test_a_number_of_a_call_is_bounded(name, number):
    for value in (*NOT_NUMBERS, *TOO_LARGE, *(() if number in BELOW_ZERO else (-1,))):
        with pytest.raises(clew.ConfigError, match=number):
            call(name, **{number: value})


def test_the_methods_that_take_numbers_are_found():
    found = set(numbers())
    assert {("list_messages", "last"), ("list_messages", "max_tokens"), ("lease", "ttl"), ("turn", "wait")} <= found
    assert {("rewind", "turns"), ("search", "limit"), ("warm", "limit"), ("watch", "timeout")} <= found


@pytest.mark.parametrize("value", [*NOT_NUMBERS, *TOO_LARGE, -1, 0], ids=lambda value: type(value).__name__)
def test_the_time_to_live_of_a_thread_is_bounded(value):
    with pytest.raises(clew.ConfigError, match="ttl"):
        call("put_thread", config="t", ttl=value)

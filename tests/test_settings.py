"""Numeric settings: every one is drawn from the signatures, and no number raises anything but a ClewError."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import clew

NUMBERS = (-1, 0, 1, math.nan, math.inf, -math.inf, 10**5000, -(10**5000), 1 << 63, 1e308, 5e-324, True, "1")
NOWHERE = 1
"""A port that no server listens on."""


def in_memory(**options: Any) -> clew.BaseCheckpointer:
    return clew.InMemoryCheckpointer(**options)


def in_a_file(folder: Path, **options: Any) -> clew.BaseCheckpointer:
    return clew.SQLiteCheckpointer(folder / "clew.db", **options)


def in_postgres(**options: Any) -> clew.BaseCheckpointer:
    return clew.PgCheckpointer(f"postgresql://127.0.0.1:{NOWHERE}/x", **{"retry_for": 0, **options})


def in_redis(**options: Any) -> clew.BaseCheckpointer:
    return clew.RedisCheckpointer(f"redis://127.0.0.1:{NOWHERE}", **{"retry_for": 0, "retries": 0, **options})


def in_a_pair(folder: Path, **options: Any) -> clew.BaseCheckpointer:
    stores = [f"sqlite:///{folder / name}.db" for name in ("one", "other")]
    return clew.DistributedCheckpointer(*stores, **options)


def cached(folder: Path, **options: Any) -> clew.BaseCheckpointer:
    return clew.connect(f"sqlite:///{folder / 'clew.db'}", cache="memory://", **options)


WAYS: dict[str, tuple[Callable[..., clew.BaseCheckpointer], type]] = {
    "memory": (in_memory, clew.InMemoryCheckpointer),
    "sqlite": (in_a_file, clew.SQLiteCheckpointer),
    "postgres": (in_postgres, clew.PgCheckpointer),
    "redis": (in_redis, clew.RedisCheckpointer),
    "pair": (in_a_pair, clew.DistributedCheckpointer),
    "cached": (cached, clew.SQLiteCheckpointer),
}


def numeric(cls: type) -> list[str]:
    """The numeric options of a class, and those that it passes on to `BaseCheckpointer`."""
    named = {**inspect.signature(clew.BaseCheckpointer).parameters, **inspect.signature(cls).parameters}
    return [name for name, each in named.items() if {"int", "float"} & set(str(each.annotation).split(" | "))]


def settings() -> Iterator[Any]:
    for way, (_, cls) in WAYS.items():
        for name in numeric(cls):
            if way in ("sqlite", "memory") or name not in numeric(clew.BaseCheckpointer):
                yield pytest.param(way, name, id=f"{way} {name}")


def test_options_are_found_in_the_signatures():
    assert {"busy_timeout", "retry_for", "cleanup_interval", "max_state_bytes"} <= set(numeric(clew.SQLiteCheckpointer))
    assert {"timeout", "max_outbox", "failback_delay"} <= set(numeric(clew.DistributedCheckpointer))


@pytest.mark.parametrize(("way", "name"), list(settings()))
def test_any_number_for_a_setting_works_or_raises_a_clew_error(way, name, tmp_path):
    make, _ = WAYS[way]
    folder = {"folder": tmp_path} if "folder" in inspect.signature(make).parameters else {}
    for number in NUMBERS:
        try:
            with make(**folder, **{name: number}) as checkpointer:
                checkpointer.put_state("t", {"n": 1})
                checkpointer.get_state("t")
        except clew.ClewError:
            continue

"""The registry of workloads: name, description and storages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bench.places import STORAGES
from bench.workloads import (
    cached,
    cleanup,
    contended,
    endless,
    graph,
    growing,
    http,
    long,
    methods,
    readers,
    savers,
    search,
    shapes,
    threads,
    watch,
)
from bench.workloads.common import Results, Run

__all__ = ["WORKLOADS", "Results", "Run", "Workload"]


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload. With `upkeep`, the server's maintenance runs as often as in production."""

    title: str
    run: Callable[[Run], Awaitable[Results]]
    storages: tuple[str, ...] = STORAGES
    needs: str | None = None
    """A package that it needs."""
    upkeep: bool = False
    beside_peers: bool = True
    """Whether peers support it."""


WORKLOADS = {
    "growing": Workload("W1: a conversation that grows, saved every turn", growing.run, upkeep=True),
    "savers": Workload("W2: 64 conversations at once", savers.run),
    "readers": Workload("W3: 64 readers at once over 200 threads of 100 messages", readers.run),
    "graph": Workload(
        "W4: the same LangGraph graph with each saver",
        graph.run,
        ("memory", "sqlite", "postgres"),
        needs="langgraph",
        upkeep=True,
    ),
    "threads": Workload("W5: few threads and many", threads.run, ("sqlite", "postgres", "redis")),
    "shapes": Workload("W6: states that change in other ways", shapes.run),
    "long": Workload("W7: 10,000 messages in one thread", long.run),
    "contended": Workload("W8: many writers of one thread", contended.run, beside_peers=False),
    "endless": Workload("W9: a thread that is saved to for ever", endless.run, beside_peers=False),
    "methods": Workload("W10: the other calls", methods.run, beside_peers=False),
    "cleanup": Workload(
        "a cleanup of old checkpoints", cleanup.run, ("sqlite", "postgres", "redis"), beside_peers=False
    ),
    "search": Workload(
        "search across 100,000 threads", search.run, ("sqlite", "postgres", "redis"), beside_peers=False
    ),
    "watch": Workload("watchers of a store, and saves while it is watched", watch.run, beside_peers=False),
    "http": Workload(
        "200 clients of the HTTP server at once", http.run, ("sqlite", "postgres"), needs="litestar", beside_peers=False
    ),
    "cached": Workload("PostgreSQL with a cache before it, and without", cached.run, ("postgres",), beside_peers=False),
}

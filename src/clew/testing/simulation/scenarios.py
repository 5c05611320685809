"""Scenarios: the stores of a run, how clients open them, and what they promise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, TypeVar

import clew
from clew.answers import Answer
from clew.checkpointer.background import Background
from clew.checkpointer.runner import LoopRunner
from clew.clock import Clock
from clew.codec.frame import intact
from clew.codec.rebase import rebase
from clew.codec.rows import unbroken
from clew.factory.encryption import with_encryption
from clew.storage.cached import CachedStorage
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.storage.replicated import ReplicatedStorage
from clew.testing.simulation.plan import STEPS, TROUBLES, Lane, TroubleKind

R = TypeVar("R")
RETRY_FOR: Final = 12.0
_KEYS: Final = clew.Encryption(keys={"simulated": "c2ltdWxhdGVkIHNpbXVsYXRlZCBzaW11bGF0ZWQgazE="})


def _give(answer: Answer[R], task: asyncio.Task[R]) -> None:
    if task.cancelled():
        answer.fail(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        answer.fail(error)
    else:
        answer.give(task.result())


class HomeRunner(LoopRunner):
    """Runs deferred saves on the loop of the simulation."""

    def start(
        self, work: Coroutine[Any, Any, R], ended: Callable[[BaseException | None], None] | None = None
    ) -> Answer[R]:
        answer: Answer[R] = Answer()
        if ended is not None:
            answer.then(lambda: ended(answer.error))
        asyncio.ensure_future(work).add_done_callback(partial(_give, answer))
        return answer


class SimulatedBackground(Background):
    """A queue of deferred saves whose process may die."""

    def finish(self) -> None:
        """Do nothing: the real OS process need not wait."""


class SimulatedCheckpointer(clew.BaseCheckpointer):
    """A checkpointer that starts no OS threads."""

    def _new_background(self, **options: Any) -> Background:
        return SimulatedBackground(HomeRunner(), **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A way to use stores. `wrapped` makes a client's storage from its connections.

    `may_hide`: after a failover, a read may lack what the lost store had not shipped. `forgets`:
    the numbers of the servers that may lose their last writes in a crash.
    """

    name: str
    servers: tuple[str, ...]
    wrapped: Callable[[Sequence[Storage], Clock], Storage]
    lanes: tuple[Lane, ...] = ("own", "shared", "talk", "victims", "turns", "strict", "back")
    removals: bool = True
    may_hide: bool = False
    replicated: bool = False
    durability: Literal["sync", "background"] = "sync"
    forgets: frozenset[int] = frozenset()
    encrypted: bool = False
    memory: Callable[[], MemoryStorage] = MemoryStorage
    """Makes a server's store. Tests use one that breaks a promise."""
    steps: int = STEPS
    """The least number of steps of a run."""
    troubles: Mapping[TroubleKind, int] = field(default_factory=lambda: TROUBLES)
    """The relative frequency of each trouble."""
    twice: float = 0.0
    """The share of commits with a second, late copy, even without trouble."""
    loose: tuple[str, ...] = ()
    """Prefixes of threads that are only checked for content that nobody wrote, duplicates, and
    differences between the stores."""

    def open(self, links: Sequence[Storage], clock: Clock) -> clew.BaseCheckpointer:
        """Return a client's checkpointer."""
        return SimulatedCheckpointer(
            self.wrapped(links, clock), retry_for=RETRY_FOR, clock=clock, durability=self.durability
        )

    def store(self, storage: Storage) -> clew.BaseCheckpointer:
        """Return a checkpointer over a single store, to read its content."""
        return clew.BaseCheckpointer(with_encryption(storage, _KEYS) if self.encrypted else storage)


def _plain(links: Sequence[Storage], clock: Clock) -> Storage:
    return links[0]


def _cached(links: Sequence[Storage], clock: Clock) -> Storage:
    return CachedStorage(links[0], links[1], intact=intact, clock=clock)


def _replicated(mode: Literal["sync", "async"], links: Sequence[Storage], clock: Clock) -> Storage:
    return ReplicatedStorage(
        links[0],
        links[1],
        rebase=rebase,
        unbroken=unbroken,
        mode=mode,
        health_check_interval=0.75,
        failback_delay=1.0,
        timeout=1.0,
        clock=clock,
    )


def _encrypted(scenario: Scenario) -> Scenario:
    """Return the scenario with encryption: above a cache, below replication."""

    def wrapped(links: Sequence[Storage], clock: Clock) -> Storage:
        if scenario.replicated:
            return scenario.wrapped([with_encryption(each, _KEYS) for each in links], clock)
        return with_encryption(scenario.wrapped(links, clock), _KEYS)

    return replace(scenario, name=f"encrypted-{scenario.name}", wrapped=wrapped, encrypted=True)


_PAIR: Final = ("primary", "secondary")
_PLAIN: Final = (
    Scenario(name="plain", servers=("store",), wrapped=_plain),
    Scenario(name="background", servers=("store",), wrapped=_plain, durability="background"),
    Scenario(name="cache", servers=("cold", "hot"), wrapped=_cached, forgets=frozenset({1})),
    Scenario(
        name="sync", servers=_PAIR, wrapped=lambda links, clock: _replicated("sync", links, clock), replicated=True
    ),
    Scenario(
        name="async",
        servers=_PAIR,
        wrapped=lambda links, clock: _replicated("async", links, clock),
        lanes=("own", "shared", "talk", "turns", "loose", "strict", "back"),
        removals=False,
        may_hide=True,
        replicated=True,
        loose=("loose-",),
    ),
)
SCENARIOS: Final[dict[str, Scenario]] = {each.name: each for each in (*_PLAIN, *map(_encrypted, _PLAIN))}

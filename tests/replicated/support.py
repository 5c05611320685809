"""Two stores and what tests need to know about them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from msgspec.structs import replace

from clew.codec.rebase import rebase
from clew.codec.rows import unbroken
from clew.errors import TransientStorageError
from clew.model.commit import Applied, Commit
from clew.model.records import Range, ThreadRecord, ValueRow
from clew.model.status import Status
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import RESERVED, Storage
from clew.storage.replicated import ReplicatedStorage
from clew.storage.replicated.failover import State
from clew.testing import FaultyStorage
from clew.testing.driver import DrivenStorage, InlineStorage
from clew.testing.faults import Plan


@dataclass(frozen=True)
class Opaque:
    """What `clew.codec.rebase` gives, for bodies that are no codec's."""

    body: bytes
    covers: tuple[Range, ...]
    row: ValueRow | None


def rebase_opaque(body: bytes, rows: Sequence[ValueRow], known: Mapping[bytes, int], first: int) -> Opaque:
    """Bodies of the contract's tests refer to nothing: their values come along, under new numbers."""
    digests = b"".join(row.digests for row in rows)
    lacking = [digests[at : at + 16] for at in range(0, len(digests), 16) if digests[at : at + 16] not in known]
    row = ValueRow(first=first, count=len(lacking), digests=b"".join(lacking), data=b"moved") if lacking else None
    return Opaque(body, ((row.first, row.end),) if row else (), row)


def replicated(primary: Storage, secondary: Storage, **settings: Any) -> ReplicatedStorage:
    defaults: dict[str, Any] = {"rebase": rebase_opaque, "health_check_interval": 0.05, "failback_delay": 0.0}
    return ReplicatedStorage(primary, secondary, unbroken=unbroken, **defaults | settings)


def real(primary: Storage, secondary: Storage, **settings: Any) -> ReplicatedStorage:
    """With the codec that states are encoded with."""
    return replicated(primary, secondary, rebase=rebase, **settings)


def wait_until(done: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for what goes on in the background."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def contents(store: DrivenStorage) -> dict[str, Any]:
    """All that is in a store, but for what copies may have otherwise: sequence numbers, sizes, where forks came from."""

    def plain(thread: ThreadRecord) -> ThreadRecord:
        head = replace(thread.head, sequence=0) if thread.head else None
        return replace(thread, size=0, forked_from=None, head=head)

    threads = [thread for thread in store.threads() if thread.thread_id != RESERVED]
    found: dict[str, Any] = {thread.thread_id: plain(thread) for thread in threads}
    for name in list(found):
        page = store.page(name, namespace=None, detail="state")
        found[f"basis of {name}"] = page.basis
        found[f"checkpoints of {name}"] = [replace(each, sequence=0) for each in page.checkpoints]
        found[f"values of {name}"] = {
            number: row.digests[16 * at : 16 * at + 16]
            for row in page.rows
            for at, number in enumerate(range(row.first, row.end))
        }
        found[f"attachments of {name}"] = store.attachments(None, name)
        found[f"messages of {name}"] = store.messages(name)
    return found


def assert_same(one: DrivenStorage, other: DrivenStorage) -> None:
    """Both stores hold the same threads with the same content."""
    here, there = contents(one), contents(other)
    assert here.keys() == there.keys()
    for name, value in here.items():
        assert there[name] == value, f"{name}: {there[name]}, not {value}"


class Pair:
    """A primary and a secondary in memory that can be switched off, and processes that use them."""

    def __init__(self, make_primary: Any = MemoryStorage, make_secondary: Any = MemoryStorage, **settings: Any) -> None:
        self.down: set[str] = set()
        self.primary = InlineStorage(make_primary)
        self.secondary = InlineStorage(make_secondary)
        self.settings = settings
        self.processes: list[InlineStorage] = []

    def _plan(self, side: str) -> Plan:
        return lambda kind: ("before apply" if kind == "apply" else "before read") if side in self.down else None

    def process(self, **settings: Any) -> Process:
        """One more process that uses both stores."""
        made = Process(self, **self.settings | settings)
        self.processes.append(made)
        return made

    def settle(self, process: Process) -> None:
        """Let the process take over what waits, until the primary serves and nothing is left."""
        process.until(lambda: not self.primary.journal_count() and not self.secondary.journal_count())

    def close(self) -> None:
        self.down.clear()
        for process in self.processes:
            process.close()
        self.primary.close()
        self.secondary.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Process(InlineStorage):
    """A process of its own, as far as replication can tell."""

    def __init__(self, pair: Pair, **settings: Any) -> None:
        super().__init__(
            lambda: replicated(
                FaultyStorage(pair.primary.storage, pair._plan("primary")),
                FaultyStorage(pair.secondary.storage, pair._plan("secondary")),
                **settings,
            )
        )

    @property
    def replicated(self) -> ReplicatedStorage:
        assert isinstance(self.storage, ReplicatedStorage)
        return self.storage

    @property
    def state(self) -> State:
        return self.replicated._steering.state

    def has_its_primary_back(self) -> bool:
        roles = self.state.roles
        return roles is not None and roles.active == "primary" and not roles.closing

    def status(self) -> Status:
        return self.run(self.replicated.status(Status(primary_healthy=True)))

    def until(self, done: Callable[[], bool], *, seconds: float = 10) -> None:
        """Let the background work until `done`; it does so by itself, this only waits for it."""
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, f"still not: {self.state}"
            self.run(self.replicated._upkeep.round())
            time.sleep(0.005)

    def retry(self, made: Commit) -> Applied:
        """Apply `made` as a checkpointer would: again, as long as it may help."""
        for _ in range(200):
            try:
                return self.apply(made)
            except TransientStorageError:
                time.sleep(0.01)
        return self.apply(made)

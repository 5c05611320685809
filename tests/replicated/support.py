"""Helpers for replication tests: two stores that can be switched off, and processes that use
them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from msgspec.structs import replace

from clew.codec.rebase import rebase
from clew.codec.rows import adjacent, unbroken
from clew.errors import TransientStorageError
from clew.model.commit import Applied, Commit
from clew.model.queries import Content
from clew.model.records import Range, ThreadRecord, ValueRow
from clew.model.status import Status
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.storage.replicated import ReplicatedStorage
from clew.storage.replicated.failover import State
from clew.testing import FaultyStorage
from clew.testing.driver import DrivenStorage, InlineStorage
from clew.testing.faults import Plan


@dataclass(frozen=True)
class Opaque:
    """The result of `clew.codec.rebase`, for bodies that the codec did not make."""

    body: bytes
    covers: tuple[Range, ...]
    row: ValueRow | None


def rebase_opaque(body: bytes, rows: Sequence[ValueRow], known: Mapping[bytes, int], first: int) -> Opaque:
    """Give the values new numbers. The bodies of the contract's tests refer to none of them."""
    digests = b"".join(row.digests for row in rows)
    lacking = [digests[at : at + 16] for at in range(0, len(digests), 16) if digests[at : at + 16] not in known]
    row = ValueRow(first=first, count=len(lacking), digests=b"".join(lacking), data=b"moved") if lacking else None
    return Opaque(body, ((row.first, row.end),) if row else (), row)


def unbroken_opaque(content: Content) -> Iterator[ValueRow]:
    """`clew.codec.unbroken` for records that the codec did not make, which have no checksums."""
    return adjacent(content.rows, content.basis.next_value)


def replicated(primary: Storage, secondary: Storage, **settings: Any) -> ReplicatedStorage:
    defaults: dict[str, Any] = {
        "rebase": rebase_opaque,
        "unbroken": unbroken_opaque,
        "health_check_interval": 0.05,
        "failback_delay": 0.0,
    }
    return ReplicatedStorage(primary, secondary, **defaults | settings)


def real(primary: Storage, secondary: Storage, **settings: Any) -> ReplicatedStorage:
    """Return a replicated storage with the real codec."""
    return replicated(primary, secondary, rebase=rebase, unbroken=unbroken, **settings)


def wait_until(done: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until the background has done something."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def contents(store: DrivenStorage) -> dict[str, Any]:
    """Return the content of a store, without what may differ in a copy: sequence numbers, sizes,
    origins of forks."""

    def plain(thread: ThreadRecord) -> ThreadRecord:
        head = replace(thread.head, sequence=0) if thread.head else None
        return replace(thread, size=0, forked_from=None, head=head)

    found: dict[str, Any] = {thread.thread_id: plain(thread) for thread in store.threads()}
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
    """Check that both stores have the same threads with the same content."""
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
        """Return another process that uses both stores."""
        made = Process(self, **self.settings | settings)
        self.processes.append(made)
        return made

    def settle(self, process: Process) -> None:
        """Let the process ship entries until the primary serves and both journals are empty."""
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
    """A storage that counts as a separate process for replication."""

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
        return self.replicated._coordinator.state

    def has_its_primary_back(self) -> bool:
        roles = self.state.roles
        return roles is not None and roles.active == "primary" and not roles.closing

    def status(self) -> Status:
        return self.run(self.replicated.status(Status(primary_healthy=True)))

    def until(self, done: Callable[[], bool], *, seconds: float = 60) -> None:
        """Do background rounds until `done`, in addition to the process's own worker."""
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, f"still not: {self.state}"
            self.run(self.replicated.monitor.round())
            time.sleep(0.005)

    def retry(self, made: Commit) -> Applied:
        """Apply `made` with retries, like a checkpointer."""
        for _ in range(200):
            try:
                return self.apply(made)
            except TransientStorageError:
                time.sleep(0.01)
        return self.apply(made)

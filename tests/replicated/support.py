"""Two stores and what tests need to know about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from clew.codec.rebase import rebase
from clew.codec.rows import unbroken
from clew.model.records import Range, ThreadRecord, ValueRow
from clew.storage.protocol import Storage
from clew.storage.replicated import ReplicatedStorage
from clew.storage.replicated.roles import RESERVED
from clew.testing.driver import DrivenStorage


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

"""Fixtures and helpers that all parts of the contract share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.model.commit import Commit, NewCheckpoint
from clew.model.records import AttachmentRecord, MessageRecord, ValueRow
from clew.storage.protocol import Storage
from clew.testing.build import attachment, checkpoint, commit, fields, message, row
from clew.testing.driver import DrivenStorage

Stored = NewCheckpoint | ValueRow | MessageRecord | AttachmentRecord


class ContractPart:
    """Base class for the tests of one subject. `StorageContract` combines them all."""

    answers_get_lost = False
    runner: asyncio.Runner | None = None
    """The event loop of all tests, if they share one. Otherwise each test has its own."""

    def make_storage(self, tmp_path: Path) -> Storage:
        raise NotImplementedError("define make_storage(self, tmp_path): see StorageContract")

    def stored(self, thread_id: str, *records: Stored) -> int:
        """Return the size of `records` in the thread. Storages that transform them override it."""
        return sum(map(_size, records))

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[DrivenStorage]:
        driven = DrivenStorage(lambda: self.make_storage(tmp_path), self.runner)
        yield driven
        driven.close()

    @pytest.fixture
    def inline(self, store: DrivenStorage) -> DrivenStorage:
        """Return the storage if it never suspends."""
        if store.capabilities.suspends:
            pytest.skip(f"{store.capabilities.name} needs an event loop")
        return store

    @pytest.fixture
    def journaling(self, store: DrivenStorage) -> DrivenStorage:
        """Return the storage if it keeps a journal."""
        if not store.capabilities.journals:
            pytest.skip(f"{store.capabilities.name} keeps no journal")
        return store


def _size(record: Stored) -> int:
    match record:
        case NewCheckpoint():
            return len(record.body) + len(record.metadata)
        case ValueRow():
            return len(record.data) + len(record.digests)
        case MessageRecord():
            return len(record.data) + len(record.text.encode())
    return len(record.data)


def full_commit(thread_id: str = "t", *, user: str | None = None, **parts: Any) -> Commit:
    """Return a commit that creates a thread with one record of each kind: checkpoint `c1`,
    values 0 to 2, message `m1`, …"""
    everything: dict[str, Any] = {
        "values": row(0, 3),
        "checkpoint": checkpoint("c1", covers=[(0, 3)]),
        "attachments": [attachment("c1", "k")],
        "messages": [message("m1")],
        "thread": fields("name", user_id=user),
    }
    return commit(thread_id, user=user, **everything | parts)


def chain(count: int, thread_id: str = "t", **parts: Any) -> list[Commit]:
    """Return commits of checkpoints `c1`, `c2`, …, each with the head as its parent."""
    return [commit(thread_id, checkpoint=checkpoint(f"c{number}", **parts)) for number in range(1, count + 1)]

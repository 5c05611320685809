"""Copies of threads from one store to the other, by more than one process."""

from __future__ import annotations

import asyncio

import pytest

from clew.errors import TransientStorageError
from clew.model.commit import Removal
from clew.model.config import ANY_USER
from clew.model.queries import ThreadQuery
from clew.storage.content import read_content, same_content
from clew.storage.memory import MemoryStorage
from clew.storage.replicated import copies
from clew.storage.replicated.journal_format import COPY
from clew.storage.wrapper import StorageWrapper
from clew.testing.build import checkpoint, commit, message
from tests.replicated.support import unbroken_opaque


class Ending(StorageWrapper):
    """A store whose client ends after some calls that write."""

    def __init__(self, inner, calls: int) -> None:
        super().__init__(inner)
        self.calls = calls

    async def apply(self, commits):
        if any(each.remove is None or each.remove.thread or each.thread for each in commits):
            if not self.calls:
                raise TransientStorageError("the process has ended")
            self.calls -= 1
        return await self.inner.apply(commits)


async def _filled() -> tuple[MemoryStorage, MemoryStorage]:
    """A thread in the secondary, which the primary lacks."""
    primary, secondary = MemoryStorage(), MemoryStorage()
    for number in range(5):
        (outcome,) = await secondary.apply(
            [commit(checkpoint=checkpoint(f"c{number}"), messages=[message(f"m{number}")], journal=COPY)]
        )
        assert not isinstance(outcome, Exception), outcome
    return primary, secondary


async def _owner(store):
    (found,) = await store.threads(ThreadQuery(user=ANY_USER, thread_id="t"))
    return found.user_id


@pytest.mark.parametrize("calls", range(4))
def test_a_late_process_does_not_copy_again_what_another_has_copied(monkeypatch, calls):
    """The store may serve by then, and the process may end in the middle of the copy."""
    monkeypatch.setattr(copies, "_BATCH", 1)

    async def run() -> None:
        primary, secondary = await _filled()
        owner = await _owner(secondary)
        assert await copies.copy_thread(secondary, primary, "t", unbroken_opaque)
        late = Ending(primary, calls)
        assert await copies.copy_thread(secondary, late, "t", unbroken_opaque)
        assert late.calls == calls
        assert await _owner(primary) == owner

    asyncio.run(run())


def test_a_copy_that_a_process_left_unfinished_is_made_again(monkeypatch):
    monkeypatch.setattr(copies, "_BATCH", 1)

    async def run() -> None:
        primary, secondary = await _filled()
        with pytest.raises(TransientStorageError):
            await copies.copy_thread(secondary, Ending(primary, 2), "t", unbroken_opaque)
        assert await _owner(primary) != await _owner(secondary)
        assert await copies.copy_thread(secondary, primary, "t", unbroken_opaque)
        assert await _owner(primary) == await _owner(secondary)

    asyncio.run(run())


def test_a_thread_that_differs_is_copied_although_the_last_commit_is_the_same():
    async def run() -> None:
        primary, secondary = await _filled()
        assert await copies.copy_thread(secondary, primary, "t", unbroken_opaque)
        (outcome,) = await primary.apply([commit(user=ANY_USER, remove=Removal(messages=("m1",)))])
        assert not isinstance(outcome, Exception), outcome
        assert await copies.copy_thread(secondary, primary, "t", unbroken_opaque)
        there, here = await read_content(secondary, "t"), await read_content(primary, "t")
        assert there is not None
        assert here is not None
        assert same_content(there, here)

    asyncio.run(run())

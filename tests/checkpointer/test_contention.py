"""Many writers of one thread: writers of one process take turns, and each save has its own outcome."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor

import pytest

import clew
from clew.errors import ConflictError, TransientStorageError
from clew.storage.execution import pause
from clew.storage.locked import LockingStorage
from clew.storage.wrapper import StorageWrapper
from tests.checkpointer.support import at, run, text

WRITERS, SAVES = 20, 3


class Slow(StorageWrapper):
    """Yields to the event loop in each call, like a server."""

    async def apply(self, commits):
        await pause(0)
        return await self.inner.apply(commits)


class Tries(Slow):
    """Counts the attempted saves, and the largest batch."""

    tried = most = 0

    async def apply(self, commits):
        self.tried += sum(commit.checkpoint is not None for commit in commits)
        self.most = max(self.most, len(commits))
        return await super().apply(commits)


def state_of(writer, turn):
    return {"who": [writer, turn], "m": [text((writer, turn, each)) for each in range(3)]}


async def all_at_once(write):
    async def writer(number):
        for turn in range(SAVES):
            await write(number, turn)

    await asyncio.gather(*[writer(number) for number in range(WRITERS)])


def test_tasks_that_save_one_thread_try_each_commit_once(store):
    async def go():
        checkpointer = store.open(Tries)
        await all_at_once(lambda writer, turn: checkpointer.aput_state("t", state_of(writer, turn)))
        assert checkpointer.storage.tried == WRITERS * SAVES
        assert checkpointer.storage.most > 1
        assert len(checkpointer._engine.writers) == 0
        history = await checkpointer.aget_history("t", limit=None)
        assert sorted(each.state["who"] for each in history) == [[w, t] for w in range(WRITERS) for t in range(SAVES)]
        assert all(each.state == state_of(*each.state["who"]) for each in history)
        # A chain: each save follows the one before, and a writer's saves keep their order.
        assert [each.metadata.parent_id for each in history] == [each.checkpoint_id for each in history[1:]] + [None]
        for writer in range(WRITERS):
            assert [turn for who, turn in (each.state["who"] for each in history) if who == writer] == [2, 1, 0]
        assert (await checkpointer.averify()).ok
        await checkpointer.arelease()

    run(go())


def test_tasks_that_change_one_thread_try_each_commit_once(store):
    async def go():
        checkpointer = store.open(Tries)
        await checkpointer.aput_state("t", {"m": []})
        await all_at_once(
            lambda writer, turn: checkpointer.aupdate_state("t", append={"m": [f"{writer} {turn} {text(writer)}"]})
        )
        assert checkpointer.storage.tried == WRITERS * SAVES + 1
        assert len((await checkpointer.aget_state("t"))["m"]) == WRITERS * SAVES
        await checkpointer.arelease()

    run(go())


def test_sync_threads_that_save_one_thread_try_each_commit_once(store):
    checkpointer = store.open(Tries)

    def writer(number):
        for turn in range(SAVES):
            checkpointer.put_state("t", state_of(number, turn))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(writer, range(8)))
    assert checkpointer.storage.tried == 8 * SAVES
    assert len(checkpointer.list_checkpoints("t", limit=None)) == 8 * SAVES
    assert len(checkpointer._engine.writers) == 0


def test_two_processes_with_many_writers_lose_nothing(store):
    async def go():
        one, other = store.open(), store.open()
        await all_at_once(lambda writer, turn: (one, other)[writer % 2].aput_state("t", state_of(writer, turn)))
        history = await one.aget_history("t", limit=None)
        assert sorted(each.state["who"] for each in history) == [[w, t] for w in range(WRITERS) for t in range(SAVES)]
        assert (await one.averify()).ok
        for each in (one, other):
            await each.arelease()

    run(go())


def test_what_is_refused_is_refused_alone(store):
    async def go():
        checkpointer = store.open(Tries)
        base = await checkpointer.aput_checkpoint("t", state_of(0, 0))
        outcomes = await asyncio.gather(
            checkpointer.aput_state("t", state_of(1, 0)),
            checkpointer.aput_state("t", state_of(2, 0)),
            checkpointer.aput_state("t", {"not": object()}),
            checkpointer.aput_checkpoint(at(base), state_of(3, 0), on_conflict="reject"),
            checkpointer.aput_checkpoint({"thread_id": "t", "user_id": "eve"}, state_of(4, 0)),
            checkpointer.aput_state("t", state_of(5, 0)),
            return_exceptions=True,
        )
        assert [type(each) for each in outcomes] == [
            dict,
            dict,
            clew.UnsupportedTypeError,
            ConflictError,
            clew.Checkpoint,
            dict,
        ]
        assert checkpointer.storage.most > 1
        history = await checkpointer.aget_history("t", limit=None)
        assert sorted(each.state["who"][0] for each in history) == [0, 1, 2, 4, 5]
        assert (await checkpointer.averify()).ok
        await checkpointer.arelease()

    run(go())


class RefusesOne(Slow):
    """Refuses the second commit of a batch, and lets another process write before the rest."""

    meanwhile = None

    async def apply(self, commits):
        if len(commits) < 3 or self.meanwhile is None:
            return await super().apply(commits)
        meanwhile, self.meanwhile = self.meanwhile, None
        first = await self.inner.apply(commits[:1])
        await meanwhile()
        return [*first, ConflictError("refused", thread_id="t"), *await self.inner.apply(commits[2:])]


def test_a_save_does_not_refer_to_values_of_one_that_went_with_it_and_was_refused(store):
    """Nor to values that another process stored under the same numbers."""
    same = [text(("same", each)) for each in range(3)]

    async def go():
        mine, theirs = store.open(RefusesOne), store.open()
        await mine.aput_state("t", {"m": []})

        async def meanwhile():
            await theirs.aput_state("t", {"m": [text(("theirs", each)) for each in range(3)]})

        mine.storage.meanwhile = meanwhile
        outcomes = await asyncio.gather(
            *[mine.aput_state("t", {"m": [text(number)], "n": number}) for number in range(2)],
            *[mine.aput_state("t", {"m": same, "n": number}) for number in range(2, 5)],
            return_exceptions=True,
        )
        assert mine.storage.meanwhile is None
        assert [type(each) for each in outcomes].count(ConflictError) == 1
        cold = store.open()
        saved = {each.state["n"]: each.state for each in await cold.aget_history("t", limit=None) if "n" in each.state}
        assert saved == {number: each for number, each in enumerate(outcomes) if isinstance(each, dict)}
        assert (await cold.averify()).ok
        for each in (mine, theirs, cold):
            await each.arelease()

    run(go())


class InTrouble(Slow):
    """Fails a number of times, before or after it has applied the commits."""

    failures: list[bool] = []

    async def apply(self, commits):
        if self.failures and len(commits) > 1:
            applied = self.failures.pop()
            if applied:
                await self.inner.apply(commits)
            raise TransientStorageError("the answer was lost")
        return await super().apply(commits)


@pytest.mark.parametrize("applied", [True, False], ids=["answer lost", "not applied"])
def test_saves_that_went_together_into_trouble_are_each_saved_once(store, applied):
    async def go():
        checkpointer = store.open(InTrouble)
        checkpointer.storage.failures = [applied]
        await all_at_once(lambda writer, turn: checkpointer.aput_state("t", state_of(writer, turn)))
        assert checkpointer.storage.failures == []
        history = await checkpointer.aget_history("t", limit=None)
        assert sorted(each.state["who"] for each in history) == [[w, t] for w in range(WRITERS) for t in range(SAVES)]
        assert (await checkpointer.averify()).ok
        await checkpointer.arelease()

    run(go())


def test_cancelled_writers_neither_block_nor_lose_those_behind_them(store):
    async def go():
        checkpointer = store.open()
        await checkpointer.aput_state("t", {"n": None})
        for cancelled in (slice(0, 1), slice(1, None, 2), slice(3, 9)):
            tasks = [asyncio.create_task(checkpointer.aput_state("t", {"n": n, "m": text(n)})) for n in range(12)]
            await asyncio.sleep(0)
            for task in tasks[cancelled]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            wanted = {n for n, task in enumerate(tasks) if not task.cancelled()}
            assert wanted <= {each.state["n"] for each in await checkpointer.aget_history("t", limit=None)}
        assert len(checkpointer._engine.writers) == 0
        assert (await checkpointer.averify()).ok
        await checkpointer.arelease()

    run(go())


def test_a_writer_that_has_the_lease_does_not_wait_for_one_that_waits_for_it(store):
    async def go():
        checkpointer = store.open(lambda storage: LockingStorage(storage, timeout=60, expiry=60))
        async with checkpointer.alease("t"):
            await checkpointer.aput_state("t", {"n": 0})

            async def save():
                await checkpointer.aput_state("t", {"n": 1})

            # Another task, without the lease.
            other = asyncio.get_running_loop().create_task(_without_context(save))
            await asyncio.sleep(0)
            await asyncio.wait_for(checkpointer.aput_state("t", {"n": 2}), 120)
        await other
        assert await checkpointer.aget_state("t") == {"n": 1}
        await checkpointer.arelease()

    run(go())


async def _without_context(work):
    await asyncio.get_running_loop().create_task(work(), context=contextvars.Context())


def test_a_save_that_waits_for_the_background_does_not_hold_it_up(store):
    async def go():
        checkpointer = store.open(durability="background")
        await checkpointer.aput_state("t", state_of(0, 0))
        for number in range(5):
            base = await checkpointer.aget_checkpoint("t")
            await checkpointer.aput_state("t", state_of(number, 0))
            late = checkpointer.aput_checkpoint(at(base), state_of(number, 1), on_conflict="reject")
            with pytest.raises(clew.ConflictError):
                await asyncio.wait_for(late, 120)
        assert await checkpointer.aget_state("t") == state_of(4, 0)
        await checkpointer.arelease()

    run(go())

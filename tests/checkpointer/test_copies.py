"""Copies of whole threads."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import clew
from clew.storage.protocol import COPYING
from clew.storage.wrapper import StorageWrapper
from clew.testing import FakeClock
from tests.checkpointer.support import at, give_up, run, text


@pytest.fixture
def grown(checkpointer):
    """Alice's thread, with branches, namespaces, messages and a description."""
    mine = {"thread_id": "t", "user_id": "alice"}
    said: list[str] = []
    for number in range(12):
        said.append(text(number))
        message = clew.Message(role="user", content=said[-1], message_id=f"m{number}")
        checkpointer.put_checkpoint(mine, {"said": said}, messages=[message], step=number, metadata={"n": number})
    middle = checkpointer.list_checkpoints(mine, where={"n": 5})[0]
    checkpointer.put_checkpoint(at(middle, user_id="alice"), {"said": ["branch"]})
    checkpointer.put_checkpoint({**mine, "checkpoint_ns": "child", "run_id": "r"}, {"inner": text("inner")})
    checkpointer.put_thread(mine, clew.ThreadInfo(thread_id="t", thread_name="Name", tags=("tag",)))
    return checkpointer


def everything(checkpointer, thread_id):
    config = {"thread_id": thread_id, "user_id": "alice"}
    thread = checkpointer.get_thread(config)
    return (
        [
            (replace(each.metadata, thread_id="", sequence=0), each.state)
            for each in checkpointer.get_history(config, None, namespaces="all")
        ],
        checkpointer.list_messages(config, limit=None),
        (thread.thread_name, thread.tags, thread.created_at, thread.user_id),
    )


def test_a_copy_has_everything_as_it_was(grown):
    assert grown.copy_thread({"thread_id": "t", "user_id": "alice"}, "copy") == {
        "thread_id": "copy",
        "user_id": "alice",
    }
    assert everything(grown, "copy") == everything(grown, "t")
    assert grown.verify().ok


def test_a_copy_stands_by_itself(grown):
    source = everything(grown, "t")
    copy = grown.copy_thread({"thread_id": "t", "user_id": clew.ANY_USER}, "copy")
    grown.update_state(copy, set={"said": "elsewhere"})
    grown.compact()
    assert everything(grown, "t") == source
    grown.delete_thread({"thread_id": "t", "user_id": "alice"})
    assert grown.get_state(copy) == {"said": "elsewhere"}
    assert grown.verify().ok


def test_a_fork_of_a_copy_brings_the_messages_up_to_it(grown):
    copy = grown.copy_thread({"thread_id": "t", "user_id": "alice"}, "copy")
    middle = grown.list_checkpoints(copy, where={"n": 5})[0]
    fork = grown.fork(at(middle, user_id="alice"))
    assert [each.message_id for each in grown.list_messages(fork)] == [f"m{number}" for number in range(6)]


@pytest.mark.parametrize("kind", ["fork", "cleaned up"])
def test_a_log_that_is_shared_or_has_holes_is_copied_whole(grown, kind):
    config = {"thread_id": "t", "user_id": "alice"}
    if kind == "fork":
        middle = grown.list_checkpoints(config, where={"n": 5})[0]
        config = grown.fork(at(middle, user_id="alice"), "source")
        grown.update_state(config, append={"said": [text("mine")]})
    else:
        grown.cleanup(clew.RetentionPolicy(max_history=1))
        grown.update_state(config, append={"said": [text("more")]})
    copy = grown.copy_thread(config, "copy")
    assert everything(grown, "copy") == everything(grown, config["thread_id"])
    grown.update_state(copy, append={"said": [text("on")]})
    assert grown.get_state(copy)["said"][-1] == text("on")
    assert grown.verify().ok


def test_an_empty_copy_of_messages_alone_is_one_too(checkpointer):
    checkpointer.put_messages("t", [clew.Message(role="user", content="alone")])
    checkpointer.copy_thread("t", "copy")
    assert [each.content for each in checkpointer.list_messages("copy")] == ["alone"]


class Stalling(StorageWrapper):
    """Signals each commit to the copy, and holds the answer to the n-th one back."""

    def __init__(self, inner, stall_at):
        super().__init__(inner)
        self.left = stall_at
        self.applied, self.go_on = asyncio.Event(), asyncio.Event()

    async def apply(self, commits):
        done = await self.inner.apply(commits)
        if commits[0].thread_id == "copy":
            self.left -= 1
            if self.left == 0:
                self.applied.set()
                await self.go_on.wait()
        return done


@pytest.mark.parametrize("stall_at", [1, 2, 5])
def test_a_copy_that_is_cancelled_leaves_nothing_and_can_be_made_again(store, stall_at):
    async def go():
        checkpointer = store.open(lambda storage: Stalling(storage, stall_at))
        for number in range(8):
            await checkpointer.aput_checkpoint("t", {"n": number}, messages=[clew.Message(role="user")])
        stalling = checkpointer.storage
        copying = asyncio.create_task(checkpointer.acopy_thread("t", "copy"))
        await stalling.applied.wait()
        await give_up(copying, stalling.go_on)
        assert await checkpointer.aget_thread("copy") is None
        everything = await checkpointer.alist_threads({"user_id": clew.ANY_USER})
        assert [each.thread_id for each in everything] == ["t"]
        copy = await checkpointer.acopy_thread("t", "copy")
        assert (
            len(await checkpointer.aget_history(copy, limit=None)) == len(await checkpointer.alist_messages(copy)) == 8
        )
        await checkpointer.arelease()

    run(go())


def test_a_sync_copy_that_is_interrupted_leaves_nothing(local):
    class Interrupted(StorageWrapper):
        async def apply(self, commits):
            if commits[0].thread_id == "copy" and commits[0].checkpoint is not None:
                raise KeyboardInterrupt
            return await self.inner.apply(commits)

    checkpointer = local.open()
    for number in range(3):
        checkpointer.put_state("t", {"n": number})
    with pytest.raises(KeyboardInterrupt):
        local.open(Interrupted).copy_thread("t", "copy")
    assert checkpointer.get_thread("copy") is None
    assert [each.thread_id for each in checkpointer.list_threads({"user_id": clew.ANY_USER})] == ["t"]


class Interleaved(StorageWrapper):
    """Runs a callback after each read of the source and each commit to the copy."""

    def __init__(self, inner, act):
        super().__init__(inner)
        self.act, self.acting, self.acted = act, False, 0

    async def _then_act(self, work):
        done = await work
        if not self.acting:
            self.acting = True
            self.acted += 1
            await self.act(self.acted)
            self.acting = False
        return done

    async def apply(self, commits):
        work = self.inner.apply(commits)
        return await (self._then_act(work) if commits[0].thread_id == "copy" else work)

    async def content(self, thread_id):
        return await self._then_act(self.inner.content(thread_id))

    async def values(self, query):
        work = self.inner.values(query)
        return await (self._then_act(work) if query.thread_id == "t" else work)


def state_at(number):
    """A list that is stored as values, one more in each save."""
    return {"said": [text(each) * 8 for each in range(number + 1)]}


async def save(checkpointer, number):
    """Save a checkpoint with a message and an attachment."""
    message = clew.Message(role="user", content=text(number), message_id=f"m{number}")
    state = state_at(number)
    saved = await checkpointer.aput_checkpoint("t", state, messages=[message], step=number)
    at_it = {"thread_id": "t", "checkpoint_id": saved.checkpoint_id}
    await checkpointer.aput_attachments(at_it, {"n": number})


async def copied(store, act, **options):
    """Copy a thread of four saves while `act` runs; returns the copy and the storage."""
    for _ in range(4):
        await save(store.other, next(store.numbers))
    checkpointer = store.open(lambda storage: Interleaved(storage, act), **options)
    copy = await checkpointer.acopy_thread("t", "copy")
    assert checkpointer.storage.acted
    assert (await checkpointer.averify("copy")).ok
    return copy


@pytest.fixture
def busy(store):
    """A store with a second checkpointer, for concurrent calls."""
    store.other = store.open()
    store.numbers = itertools.count()
    return store


def test_a_copy_beside_a_writer_has_the_messages_of_its_checkpoints_and_no_others(busy):
    async def go():
        async def act(time):
            if time < 24:
                await save(busy.other, next(busy.numbers))

        copy = await copied(busy, act)
        steps = [each.step for each in await busy.other.alist_checkpoints(copy, limit=None)]
        said = [each.message_id for each in await busy.other.alist_messages(copy, limit=None)]
        assert len(said) >= 4
        assert said == [f"m{number}" for number in range(len(said))]
        assert sorted(steps) == list(range(len(said)))
        await release(busy)

    run(go())


@pytest.mark.parametrize("kind", ["cleanup", "compact"])
def test_a_copy_beside_upkeep_is_whole(busy, kind):
    async def go():
        async def act(time):
            if time >= 16:
                return
            await save(busy.other, next(busy.numbers))
            if kind == "cleanup":
                await busy.other.acleanup(clew.RetentionPolicy(max_history=2))
            else:
                await busy.other.acompact()

        copy = await copied(busy, act)
        history = await busy.other.aget_history(copy, limit=None)
        said = [each.message_id for each in await busy.other.alist_messages(copy, limit=None)]
        newest = history[0].metadata.step
        assert newest is not None
        assert said == [f"m{number}" for number in range(newest + 1)]
        for each in history:
            assert each.state == state_at(each.metadata.step)
        await release(busy)

    run(go())


def test_a_copy_beside_a_deletion_of_runs_is_of_the_moment_after_it(busy):
    async def go():
        draft = {"thread_id": "copy", "user_id": clew.ANY_USER}
        for number in range(6):
            here = {"thread_id": "t", "run_id": f"r{number % 2}"}
            await busy.other.aput_checkpoint(here, state_at(number), step=number)
        deleted = 0

        async def act(time):
            nonlocal deleted
            if not deleted and len(await busy.other.alist_checkpoints(draft, limit=None)) == 4:
                deleted = await busy.other.adelete_runs(["r0"])

        checkpointer = busy.open(lambda storage: Interleaved(storage, act))
        copy = await checkpointer.acopy_thread("t", "copy")
        assert deleted == 3 + 2
        assert [each.state for each in await busy.other.aget_history(copy)] == [
            state_at(number) for number in (5, 3, 1)
        ]
        assert (await busy.other.averify()).ok
        await release(busy)

    run(go())


def test_a_source_that_is_deleted_while_it_is_copied_leaves_no_copy(busy):
    async def go():
        async def act(time):
            if await busy.other.aget_thread({"thread_id": "copy", "user_id": clew.ANY_USER}):
                await busy.other.adelete_thread("t")

        with pytest.raises(clew.ConflictError, match="does not exist"):
            await copied(busy, act)
        assert await busy.other.alist_threads({"user_id": clew.ANY_USER}) == []
        await release(busy)

    run(go())


def test_erasing_a_user_erases_the_copies_that_are_being_made_of_their_threads(busy):
    async def go():
        mine = {"thread_id": "t", "user_id": "alice"}
        for number in range(4):
            await busy.other.aput_checkpoint(mine, {"n": number})

        async def act(time):
            if await busy.other.aget_thread({"thread_id": "copy", "user_id": clew.ANY_USER}):
                await busy.other.aerase_user("alice")

        checkpointer = busy.open(lambda storage: Interleaved(storage, act))
        with pytest.raises(clew.ConflictError, match="does not exist"):
            await checkpointer.acopy_thread(mine, "copy")
        assert await busy.other.alist_threads({"user_id": clew.ANY_USER}) == []
        await release(busy)

    run(go())


async def release(store):
    for each in store.opened:
        await each.arelease()


class Dying(StorageWrapper):
    """Applies this many commits to the copy and then none, as if the process had died."""

    def __init__(self, inner, commits):
        super().__init__(inner)
        self.left, self.dead = commits, False

    def _check(self):
        if self.dead:
            raise clew.StorageError("the process is dead")

    async def apply(self, commits):
        self._check()
        if commits[0].thread_id == "copy":
            self.dead, self.left = self.left == 0, self.left - 1
            self._check()
        return await self.inner.apply(commits)

    async def lease(self, *args, **kwargs):
        self._check()
        return await self.inner.lease(*args, **kwargs)


@pytest.fixture(params=[1, 9])
def left(store, request, clock):
    """A store with the unfinished copy of a process that died."""
    checkpointer = store.open(clock=clock)
    for number in range(8):
        checkpointer.put_checkpoint("t", {"n": number}, messages=[clew.Message(role="user")])
    with pytest.raises(clew.StorageError, match="dead"):
        store.open(lambda storage: Dying(storage, request.param), clock=clock).copy_thread("t", "copy")
    everybodys = checkpointer.get_thread({"thread_id": "copy", "user_id": clew.ANY_USER})
    assert everybodys is not None
    assert everybodys.user_id == COPYING
    return checkpointer


def test_nobody_sees_a_half_copy_of_a_process_that_died(left):
    assert left.get_thread("copy") is None
    assert left.get_state("copy") is None
    assert left.list_messages("copy") == []
    assert [each.thread_id for each in left.list_threads({"user_id": None})] == ["t"]
    with pytest.raises(clew.PermissionDeniedError):
        left.put_state("copy", {})


def test_a_copy_takes_the_place_of_a_half_copy_once_its_lease_has_ended(left, clock):
    with pytest.raises(clew.ConflictError, match="is held by copy:"):
        left.copy_thread("t", "copy")
    clock.advance(61)
    copy = left.copy_thread("t", "copy")
    assert len(left.get_history(copy, limit=None)) == len(left.list_messages(copy)) == 8
    with left.lease(copy):
        left.put_state(copy, {"mine": True})


def test_a_copy_to_a_thread_that_the_caller_has_leased_is_refused(left, clock):
    """The copy ends the lease, so later saves under it would be refused."""
    with left.lease("another"), pytest.raises(clew.ConfigError, match="copy before you take it"):
        left.copy_thread("t", "another")


def test_a_cleanup_removes_a_half_copy_once_its_lease_has_ended(left, clock):
    everything = {"user_id": clew.ANY_USER}
    policy = clew.RetentionPolicy(max_history=100)
    left.cleanup(policy)
    assert {each.thread_id for each in left.list_threads(everything)} == {"t", "copy"}
    clock.advance(61)
    left.cleanup(policy, dry_run=True)
    assert {each.thread_id for each in left.list_threads(everything)} == {"t", "copy"}
    left.cleanup(policy)
    assert {each.thread_id for each in left.list_threads(everything)} == {"t"}
    left.put_state("copy", {"new": True})


def test_a_copy_whose_lease_has_passed_to_another_ends_without_a_trace(busy, clock):
    """Nor does it touch the thread that the other made in its place."""

    async def go():
        slow = busy.open(lambda storage: Stalling(storage, 3), clock=clock)
        for number in range(8):
            await slow.aput_checkpoint("t", {"n": number})
        copying = asyncio.create_task(slow.acopy_thread("t", "copy"))
        await slow.storage.applied.wait()
        clock.advance(61)
        quick = busy.open(clock=clock)
        copy = await quick.acopy_thread("t", "copy")
        await quick.aput_state(copy, {"n": "more"})
        slow.storage.go_on.set()
        with pytest.raises(clew.ConflictError, match="exists"):
            await copying
        assert len(await quick.aget_history(copy, limit=None)) == 9
        await release(busy)

    run(go())


def test_a_process_that_is_killed_while_it_copies_leaves_nothing_to_see(sqlite):
    checkpointer = sqlite.open()
    for number in range(8):
        checkpointer.put_checkpoint("t", {"n": number})
    killed = """
        import os, signal, sys, clew
        from clew.storage.wrapper import StorageWrapper
        from clew.storage.sqlite import SQLiteStorage

        class Killed(StorageWrapper):
            async def apply(self, commits):
                done = await self.inner.apply(commits)
                if commits[0].checkpoint is not None:
                    os.kill(os.getpid(), signal.SIGKILL)
                return done

        clew.BaseCheckpointer(Killed(SQLiteStorage(sys.argv[1]))).copy_thread("t", "copy")
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(killed), str(sqlite.path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert checkpointer.get_thread("copy") is None
    later = sqlite.open(clock=FakeClock(datetime.now(UTC) + timedelta(minutes=2)))
    assert len(later.get_history(later.copy_thread("t", "copy"), limit=None)) == 8


def test_what_can_t_be_copied_is_refused(grown):
    with pytest.raises(clew.ConflictError, match="does not exist"):
        grown.copy_thread("nowhere", "copy")
    with pytest.raises(clew.PermissionDeniedError, match="belongs to another user"):
        grown.copy_thread({"thread_id": "t", "user_id": "bob"}, "copy")
    grown.put_state("taken", {})
    with pytest.raises(clew.ConflictError, match="exists"):
        grown.copy_thread({"thread_id": "t", "user_id": "alice"}, "taken")
    with pytest.raises(clew.ConfigError):
        grown.copy_thread({"thread_id": "t", "user_id": "alice"}, "t")
    assert grown.get_thread("copy") is None

"""Whole copies of threads."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

import clew
from clew.storage.wrapper import StorageWrapper
from tests.checkpointer.support import at, give_up, run, text


@pytest.fixture
def grown(checkpointer):
    """A thread of alice's with branches, namespaces, messages and a description."""
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
    """Applies a commit to the copy and says so; the answer to the n-th one comes when it may."""

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


def test_what_can_t_be_copied_is_refused(grown):
    with pytest.raises(clew.ConflictError, match="does not exist"):
        grown.copy_thread("nowhere", "copy")
    with pytest.raises(clew.ConflictError, match="does not exist"):
        grown.copy_thread({"thread_id": "t", "user_id": "bob"}, "copy")
    grown.put_state("taken", {})
    with pytest.raises(clew.ConflictError, match="exists"):
        grown.copy_thread({"thread_id": "t", "user_id": "alice"}, "taken")
    with pytest.raises(clew.ConfigError):
        grown.copy_thread({"thread_id": "t", "user_id": "alice"}, "t")
    assert grown.get_thread("copy") is None

"""Background saves."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import closing
from typing import Any

import pytest

import clew
from clew import Message
from clew.storage.wrapper import StorageWrapper
from clew.testing import FaultyStorage
from clew.testing.faults import Fault, script
from tests.checkpointer.conftest import SHARED
from tests.checkpointer.support import at, python, run, start, text


class Gated(StorageWrapper):
    """Stalls every commit until it is opened."""

    def __init__(self, inner):
        super().__init__(inner)
        self.open = threading.Event()
        self.came = threading.Semaphore(0)
        self.commits = []

    async def apply(self, commits):
        self.came.release()
        if not self.open.is_set():
            await asyncio.to_thread(self.open.wait)
        self.commits += commits
        return await self.inner.apply(commits)


@pytest.fixture
def gated(store):
    checkpointer = store.open(Gated, durability="background")
    yield checkpointer
    checkpointer.storage.open.set()


def test_a_save_returns_before_it_is_written_and_is_read_after(gated):
    gated.put_state("t", {"n": 1})
    gated.update_state("t", append={"said": ["hello"]})
    gated.put_messages("t", [Message(role="user", content="hello")])
    made = gated.put_checkpoint("t", {"n": 3}, metadata={"k": 1})
    gated.put_attachments(at(made), {"key": "data"})
    assert gated.storage.commits == []
    assert (gated.status().background.pending, gated.status().background.failed) == (5, 0)
    assert gated.status().background.pending_bytes > 0
    gated.storage.open.set()
    assert gated.get_state("t") == {"n": 3}
    assert [each.state for each in gated.get_history("t")] == [{"n": 3}, {"n": 1, "said": ["hello"]}, {"n": 1}]
    assert [each.content for each in gated.list_messages("t")] == ["hello"]
    assert gated.list_attachments(at(made)) == {"key": "data"}
    assert gated.get_checkpoint(at(made)).metadata.metadata == {"k": 1}
    assert gated.status().background == clew.BackgroundStatus()


def test_what_is_saved_is_the_state_at_the_time_of_the_call(gated):
    state: dict[str, Any] = {"messages": ["one"], "deep": {"list": [1]}}
    said = [{"role": "user"}]
    gated.put_state("t", state)
    gated.update_state("u", set={"said": said}, append={"log": said})
    state["messages"].append("two")
    state["deep"]["list"][0] = 99
    said[0]["role"] = "changed"
    gated.storage.open.set()
    assert gated.get_state("t") == {"messages": ["one"], "deep": {"list": [1]}}
    assert gated.get_state("u") == {"said": [{"role": "user"}], "log": [{"role": "user"}]}


def test_the_order_within_a_thread_is_that_of_the_calls(store):
    async def go():
        checkpointer = store.open(durability="background", max_background=20)
        for number in range(60):
            await checkpointer.aput_state(f"t{number % 2}", {"n": number})
            await checkpointer.aupdate_state(f"t{number % 2}", append={"log": [number]})
        for thread in (0, 1):
            history = await checkpointer.aget_history(f"t{thread}", limit=None)
            assert [each.state["n"] for each in history[::-1]] == [n for n in range(thread, 60, 2) for _ in range(2)]
            assert [each.metadata.sequence for each in history] == list(range(60, 0, -1))
        assert (await checkpointer.astats()).total_checkpoints == 120
        await checkpointer.arelease()

    run(go())


def test_reads_wait_for_their_thread_and_lists_for_all(gated):
    fresh = gated.storage.inner
    gated.put_state("t", 1)
    answers: list[object] = []
    reader = threading.Thread(target=lambda: answers.append((gated.stats().total_checkpoints, gated.exists("t"))))
    reader.start()
    assert gated.storage.came.acquire(timeout=120)
    assert not answers
    assert gated.exists("other") is False
    gated.storage.open.set()
    reader.join(120)
    assert answers == [(1, True)]
    assert fresh is not gated.storage


def test_writes_that_are_not_put_off_come_after_those_that_are(gated):
    gated.put_state("t", {"n": 1})
    done = threading.Thread(target=lambda: gated.fork("t", "u"))
    done.start()
    gated.storage.open.set()
    done.join(120)
    assert gated.get_state("u") == {"n": 1}
    gated.put_state("t", {"n": 2})
    gated.clear_state("t")
    assert gated.get_state("t") is None
    gated.put_state("t", {"n": 3})
    gated.delete_thread("t")
    assert gated.get_thread("t") is None


def test_a_full_queue_has_callers_wait(store):
    async def go():
        checkpointer = store.open(Gated, durability="background", max_background=3)
        for number in range(3):
            await asyncio.wait_for(checkpointer.aput_state("t", {"n": number}), 120)
        fourth = asyncio.ensure_future(checkpointer.aput_state("t", {"n": 3}))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(fourth), 0.05)
        assert (await checkpointer.astatus()).background.pending == 3
        checkpointer.storage.open.set()
        await fourth
        assert await checkpointer.aget_state("t") == {"n": 3}
        await checkpointer.arelease()

    run(go())


def test_bytes_bound_the_queue_too_and_one_large_save_goes_through(store):
    checkpointer = store.open(Gated, durability="background", max_background_bytes=5_000)
    checkpointer.put_state("t", {"pad": text(1, 20_000)})
    waiting = threading.Thread(target=lambda: checkpointer.put_state("u", {"pad": text(2, 4_000)}))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    checkpointer.storage.open.set()
    waiting.join(120)
    assert checkpointer.get_state("u") == {"pad": text(2, 4_000)}


@pytest.mark.parametrize(
    "options",
    [
        {"durability": "fast"},
        {"durability": "background", "max_background": -1},
        {"durability": "background", "max_background_bytes": "many"},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(clew.ConfigError):
        clew.InMemoryCheckpointer(**options)


def test_what_can_not_be_saved_is_refused_at_once(store):
    checkpointer = store.open(durability="background", max_state_bytes=1000)
    for call in (
        lambda: checkpointer.put_state("t", {"x": object()}),
        lambda: checkpointer.update_state("t", set={"x": object()}),
    ):
        with pytest.raises(clew.UnsupportedTypeError, match="x"):
            call()
    with pytest.raises(clew.StateTooLargeError):
        checkpointer.put_state("t", {"x": text(1, 2000)})
    with pytest.raises(clew.ConfigError):
        checkpointer.put_state({}, 1)
    assert checkpointer.status().background == clew.BackgroundStatus()


def test_a_save_that_may_be_refused_for_a_conflict_is_waited_for(store):
    checkpointer = store.open(durability="background")
    first = checkpointer.put_checkpoint("t", {"n": 1})
    checkpointer.put_state("t", {"n": 2})
    with pytest.raises(clew.ConflictError):
        checkpointer.put_checkpoint(at(first), {"n": 3}, on_conflict="reject")
    with pytest.raises(clew.ConflictError):
        checkpointer.update_state(at(first), set={"n": 3}, on_conflict="reject")
    head = checkpointer.get_checkpoint("t")
    made = checkpointer.put_checkpoint(at(head), {"n": 4}, on_conflict="reject")
    assert (made.metadata.parent_id, made.metadata.sequence) == (head.metadata.checkpoint_id, 3)


def failing(*steps):
    """Saves that fail as `steps` say, without retries."""
    return lambda storage: FaultyStorage(storage, script(steps))


BROKEN = Fault("before apply", clew.StorageError("the disk is full"))


def test_an_error_surfaces_on_the_threads_next_call_and_what_waited_behind_it_is_given_up(store):
    checkpointer = store.open(lambda storage: Gated(failing(None, BROKEN)(storage)), durability="background")
    checkpointer.put_state("t", {"n": 1})
    checkpointer.put_state("t", {"n": 2})
    checkpointer.put_state("t", {"n": 3})
    checkpointer.storage.open.set()
    with pytest.raises(clew.StorageError, match="the disk is full") as caught:
        checkpointer.get_state("t")
    assert "earlier save of thread 't'" in caught.value.__notes__[0]
    # The stored saves are a prefix of the accepted ones, and new saves continue from there.
    assert checkpointer.get_state("t") == {"n": 1}
    found = checkpointer.status().background
    assert (found.pending, found.failed) == (0, 2)
    assert found.last_error == "thread 't': the disk is full"
    checkpointer.put_state("t", {"n": 4})
    assert checkpointer.get_state("t") == {"n": 4}


def test_an_error_does_not_touch_other_threads_but_lists_and_the_release_tell_it(store):
    checkpointer = store.open(failing(BROKEN, None, BROKEN), durability="background")
    checkpointer.put_state("bad", 1)
    with pytest.raises(clew.StorageError):
        checkpointer.stats(None)
    checkpointer.put_state("good", 1)
    assert checkpointer.get_state("good") == 1
    assert checkpointer.stats().total_checkpoints == 1
    checkpointer.put_state("worse", 1)
    with pytest.raises(clew.StorageError, match="disk is full"):
        checkpointer.release()
    checkpointer.release()


def test_what_may_pass_is_tried_again(store):
    checkpointer = store.open(failing(None, "before apply", "after apply", "before apply"), durability="background")
    for number in range(5):
        checkpointer.put_state("t", {"n": number})
    assert [each.state["n"] for each in checkpointer.get_history("t", limit=None)] == [4, 3, 2, 1, 0]
    assert checkpointer.status().background.failed == 0


def test_a_save_that_was_given_up_is_told_and_not_taken_for_an_error_of_the_next_call(store):
    """Found by the simulator: the next call retried, as if its own request had failed, and nobody saw the error."""
    lasting = ["before apply"] * 3
    checkpointer = store.open(failing(None, *lasting), durability="background", retry_for=0.0)
    checkpointer.put_state("t", {"n": 1})
    assert checkpointer.get_state("t") == {"n": 1}
    for number in (2, 3, 4):
        checkpointer.put_state("t", {"n": number})
        with pytest.raises(clew.StorageError, match="an earlier save of thread 't' failed") as caught:
            checkpointer.get_state("t")
        assert not isinstance(caught.value, clew.TransientStorageError)
    assert checkpointer.get_state("t") == {"n": 1}


def test_another_process_that_writes_in_between_loses_nothing(store):
    mine, other = store.open(Gated, durability="background"), store.open()
    mine.storage.open.set()
    mine.put_state("t", {"said": [text(n) for n in range(20)]})
    assert mine.get_state("t")
    mine.storage.open.clear()
    mine.put_state("t", {"said": [text(n) for n in range(25)]})
    assert mine.storage.came.acquire(timeout=120)
    other.update_state("t", append={"said": [text("other")]})
    other.cleanup(clew.RetentionPolicy(max_history=1))
    mine.storage.open.set()
    assert mine.get_state("t") == {"said": [text(n) for n in range(25)]}
    assert store.open().verify().ok


def test_a_deleted_thread_stays_deleted(store):
    mine, other = store.open(Gated, durability="background"), store.open()
    mine.storage.open.set()
    mine.put_state("t", 1)
    assert mine.get_state("t") == 1
    mine.storage.open.clear()
    mine.put_state("t", 2)
    other.delete_thread("t")
    mine.storage.open.set()
    with pytest.raises(clew.ThreadDeletedError):
        mine.exists("t")
    assert other.get_thread("t") is None


def test_it_outlives_the_callers_event_loop(store):
    checkpointer = store.open(Gated, durability="background")

    async def save(number):
        await checkpointer.aput_state("t", {"n": number})

    run(save(1))
    run(save(2))
    checkpointer.storage.open.set()
    assert run_read(checkpointer) == {"n": 2}


def run_read(checkpointer):
    async def go():
        return await checkpointer.aget_state("t")

    return run(go())


def test_a_release_writes_what_was_accepted(store):
    async def go():
        async with store.open(durability="background") as checkpointer:
            for number in range(80):
                await checkpointer.aput_state(f"t{number % 3}", {"n": number, "pad": text(number)})

    run(go())
    assert store.open().size() == 80


def test_the_turn_is_given_back_after_what_was_saved_under_it(gated):
    saved = threading.Event()

    def turn():
        with gated.lease("t", ttl=30):
            gated.put_state("t", {"n": 1})
            saved.set()

    holder = threading.Thread(target=turn)
    holder.start()
    assert saved.wait(120)
    holder.join(0.05)
    assert holder.is_alive()
    gated.storage.open.set()
    holder.join(120)
    assert gated.storage.commits[0].fence is not None
    assert gated.get_state("t") == {"n": 1}


@pytest.mark.parametrize("kind", SHARED)
def test_the_end_of_the_process_waits_for_what_was_accepted(kind, tmp_path):
    with closing(kind(tmp_path)) as store:
        asleep = """
import asyncio, sys, clew
checkpointer = clew.connect(sys.argv[1], durability="background")
async def go():
    for number in range(50):
        await checkpointer.aput_state("a", {"n": number})
asyncio.run(go())
for number in range(50):
    checkpointer.put_state(f"s{number}", {"n": number})
"""
        python(asleep, store.url)
        assert store.open().size() == 100


@pytest.mark.parametrize("kind", SHARED)
def test_what_survives_a_kill_is_a_beginning_of_what_was_accepted(kind, tmp_path):
    with closing(kind(tmp_path)) as store:
        writing = """
import sys, clew
checkpointer = clew.connect(sys.argv[1], durability="background")
for number in range(100_000):
    checkpointer.put_state("t", {"n": number})
    if number % 50 == 0:
        print(number, flush=True)
"""
        process = start(writing, store.url)
        for _ in range(5):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stdin.close()
        history = store.open().get_history("t", limit=None)
        assert [each.state["n"] for each in history[::-1]] == list(range(len(history)))
        assert store.open().verify().ok


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_process_begins_with_nothing_accepted(sqlite):
    checkpointer = sqlite.open(durability="background")
    for number in range(20):
        checkpointer.put_state("t", {"n": number})
    assert checkpointer.get_state("t") == {"n": 19}
    child = os.fork()
    if child == 0:
        code = 1
        try:
            checkpointer.put_state("t", {"n": "child"})
            code = 0 if checkpointer.get_state("t") == {"n": "child"} else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert checkpointer.get_state("t") == {"n": "child"}


def test_a_list_waits_for_what_was_accepted_before_it_and_not_for_ever(store):
    async def go():
        checkpointer = store.open(durability="background", max_background=8)
        listed = asyncio.Event()

        async def write(name):
            number = 0
            while not listed.is_set():
                number += 1
                await checkpointer.aput_state(name, {"n": number})
                # Accepting a save does not yield to the loop.
                await asyncio.sleep(0)

        writers = [asyncio.ensure_future(write(f"t{each}")) for each in range(4)]
        for _ in range(3):
            await asyncio.wait_for(checkpointer.astats(), 120)
        listed.set()
        await asyncio.gather(*writers)
        await checkpointer.arelease()

    run(go())


def test_nothing_is_accepted_after_the_release(store):
    checkpointer = store.open(durability="background")
    checkpointer.put_state("t", 1)
    checkpointer.release()
    with pytest.raises(clew.StorageError, match="released"):
        checkpointer.put_state("t", 2)
    checkpointer.release()


def test_a_refused_save_of_one_user_neither_takes_nor_troubles_those_of_another(store):
    checkpointer = store.open(durability="background")
    ana, bob = {"thread_id": "t", "user_id": "ana"}, {"thread_id": "t", "user_id": "bob"}
    checkpointer.put_state(ana, {"n": 1})
    assert checkpointer.get_state(ana) == {"n": 1}
    checkpointer.put_state(bob, {"n": "a stranger's"})
    checkpointer.put_state(ana, {"n": 2})
    checkpointer.put_state(ana, {"n": 3})
    assert checkpointer.get_state(ana) == {"n": 3}
    assert [each.thread_id for each in checkpointer.list_threads({"user_id": "ana"})] == ["t"]
    with pytest.raises(clew.PermissionDeniedError, match="bob"):
        checkpointer.list_threads({"user_id": "bob"})
    assert [each.state["n"] for each in checkpointer.get_history(ana)] == [3, 2, 1]


OPERATIONS = {
    "cleanup": lambda it: it.cleanup(clew.RetentionPolicy(max_history=1)),
    "verify": lambda it: it.verify(),
    "stats": lambda it: it.stats(),
    "compact": lambda it: it.compact(),
    "list_threads": lambda it: it.list_threads({"user_id": clew.ANY_USER}),
    "get_state": lambda it: it.get_state({"thread_id": "t", "user_id": clew.ANY_USER}),
    "put_state": lambda it: it.put_state({"thread_id": "t", "user_id": clew.ANY_USER}, {"n": 2}),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_strangers_refused_save_is_told_to_the_stranger_and_not_to_an_operator(local, operation):
    checkpointer = local.open(durability="background")
    checkpointer.put_state({"thread_id": "t", "user_id": "ana"}, {"n": 1})
    checkpointer.put_state({"thread_id": "t", "user_id": "bob"}, {"n": "a stranger's"})
    OPERATIONS[operation](checkpointer)
    with pytest.raises(clew.PermissionDeniedError, match="bob"):
        checkpointer.get_state({"thread_id": "t", "user_id": "bob"})
    checkpointer.release()


def test_a_strangers_refused_save_is_logged_by_a_release_and_not_raised(store, caplog):
    checkpointer = store.open(durability="background")
    checkpointer.put_state({"thread_id": "t", "user_id": "ana"}, {"n": 1})
    checkpointer.put_state({"thread_id": "t", "user_id": "bob"}, {"n": "a stranger's"})
    checkpointer.release()
    (told,) = [each.getMessage() for each in caplog.records if "save lost" in each.getMessage()]
    assert "thread 't'" in told
    checkpointer.release()


def test_a_release_raises_what_was_lost_and_logs_the_rest(store, caplog):
    checkpointer = store.open(failing(None, BROKEN, BROKEN), durability="background")
    checkpointer.put_state({"thread_id": "t", "user_id": "ana"}, {"n": 1})
    assert checkpointer.get_state({"thread_id": "t", "user_id": "ana"}) == {"n": 1}
    checkpointer.put_state({"thread_id": "u", "user_id": "ana"}, {"n": 1})
    checkpointer.put_state({"thread_id": "v", "user_id": "cleo"}, {"n": 1})
    checkpointer.put_state({"thread_id": "t", "user_id": "bob"}, {"n": "a stranger's"})
    with pytest.raises(clew.StorageError, match="the disk is full"):
        checkpointer.release()
    assert len([each for each in caplog.records if "save lost" in each.getMessage()]) == 2
    checkpointer.release()

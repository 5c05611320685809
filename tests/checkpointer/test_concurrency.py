"""One checkpointer from async code, sync code, several threads and several event loops."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import clew
from tests.checkpointer.support import run, text


def at_once(*works, timeout=60):
    """Run each of `works` in its own thread, started together; returns their results."""
    gate = threading.Barrier(len(works))

    def go(work):
        gate.wait(timeout)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result(timeout) for future in [pool.submit(go, work) for work in works]]


@pytest.fixture
def shared(store):
    with clew.BaseCheckpointer(store.storage()) as checkpointer:
        yield checkpointer


def test_two_event_loops_and_sync_threads_share_one_checkpointer(shared):
    def loop(name):
        async def task(number):
            for turn in range(8):
                await shared.aupdate_state("t", append={"m": [f"{name} {number} {turn}"]})
                await shared.aput_checkpoint(f"{name}{number}", {"n": turn, "pad": text((name, number, turn))})
                assert (await shared.aget_state(f"{name}{number}"))["n"] == turn

        async def go():
            await asyncio.gather(*[task(number) for number in range(4)])

        return lambda: run(go())

    def sync(name):
        def go():
            for turn in range(8):
                shared.update_state("t", append={"m": [f"{name} 0 {turn}"]})
                shared.put_messages("t", [clew.Message(message_id=f"{name}{turn}", role="user")])

        return go

    shared.put_state("t", {"m": []})
    at_once(loop("a"), loop("b"), sync("s"), sync("u"))
    said = shared.get_state("t")["m"]
    assert len(said) == len(set(said)) == 2 * 4 * 8 + 2 * 8
    for name in ("a 0", "a 3", "b 1", "s 0", "u 0"):
        assert [each for each in said if each.startswith(name)] == [f"{name} {turn}" for turn in range(8)]
    assert shared.size("a3") == 8
    assert len(shared.list_messages("t", limit=None)) == 16
    assert shared.verify().ok


def test_a_second_event_loop_after_the_first_is_closed_works(shared):
    for number in range(3):
        run(shared.aput_state("t", {"n": number}))
        assert shared.get_state("t") == {"n": number}
    assert run(shared.aget_state("t")) == {"n": 2}


def test_many_threads_save_one_thread_whole(shared):
    """Every stored state is one that a writer saved: states of two writers never mix."""

    def work(name):
        def go():
            for turn in range(10):
                shared.put_state("t", {"who": name, "m": [f"{name} {turn} {each} " * 15 for each in range(12)]})

        return go

    at_once(*[work(f"w{number}") for number in range(6)])
    history = shared.get_history("t", limit=None)
    assert len(history) == 60
    for each in history:
        turns = {line.split()[1] for line in each.state["m"]}
        assert len(turns) == 1
        assert each.state["m"] == [f"{each.state['who']} {min(turns)} {n} " * 15 for n in range(12)]


def test_two_processes_that_take_turns_keep_each_others_values(store):
    """Each merges its own small value rows, which alternate with the other's."""
    writers = [store.open() for _ in range(2)]
    made = [writers[turn % 2].put_checkpoint("t", {"n": turn, "pad": text(turn, 700)}) for turn in range(150)]
    cold = store.open()
    assert [each.state for each in cold.get_history("t", limit=None)] == [each.state for each in made[::-1]]
    cold.compact()
    assert [each.state for each in cold.get_history("t", limit=None)] == [each.state for each in made[::-1]]


def test_eight_tasks_append_and_lose_nothing(store):
    async def go():
        checkpointer = store.open()
        await checkpointer.aput_state("t", {"m": []})

        async def append(name):
            for number in range(20):
                await checkpointer.aupdate_state("t", append={"m": [f"{name} {number}"]})

        await asyncio.gather(*[append(name) for name in "abcdefgh"])
        said = (await checkpointer.aget_state("t"))["m"]
        assert len(said) == 160
        for name in "abcdefgh":
            assert [each for each in said if each[0] == name] == [f"{name} {number}" for number in range(20)]
        await checkpointer.arelease()

    run(go())


def test_a_hundred_tasks_save_one_thread_at_once(store):
    async def go():
        checkpointer = store.open()
        made = await asyncio.gather(
            *[checkpointer.aput_checkpoint("t", {"n": number, "pad": text(number)}) for number in range(100)]
        )
        history = await checkpointer.aget_history("t", limit=None)
        assert {each.checkpoint_id: each.state for each in history} == {each.checkpoint_id: each.state for each in made}
        await checkpointer.arelease()

    run(go())


def test_sync_twins_work_inside_a_running_loop_where_nothing_waits_on_a_network(local):
    async def go():
        checkpointer = local.open()
        for number in range(50):
            checkpointer.update_state("t", append={"m": [text(number)]})
            await checkpointer.aput_state("u", {"n": number, "pad": text((number, "u"))})
        assert len(checkpointer.get_state("t")["m"]) == 50
        assert checkpointer.get_state("u")["n"] == 49
        with checkpointer.lease("t"):
            checkpointer.put_state("t", {"m": []})
        checkpointer.release()

    run(go())


def test_releasing_from_a_thread_while_a_loop_tidies_up_is_fine(store):
    checkpointer = store.open()

    async def go():
        for number in range(40):
            await checkpointer.aput_state("t", {"pad": text(number)})
        await asyncio.to_thread(checkpointer.release)

    run(go())


def test_a_cancelled_call_leaves_the_checkpointer_working(store):
    async def go():
        checkpointer = store.open()
        tasks = [asyncio.create_task(checkpointer.aput_state("t", {"n": number})) for number in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert not [each for each in outcomes if isinstance(each, clew.ClewError)]
        await checkpointer.aput_state("t", {"n": "last"})
        assert await checkpointer.aget_state("t") == {"n": "last"}
        assert (await checkpointer.averify()).ok
        await checkpointer.arelease()

    run(go())


# A storage that waits on an event loop


@pytest.fixture
def suspending(remote):
    with clew.BaseCheckpointer(remote.storage()) as checkpointer:
        yield checkpointer


def test_sync_twins_of_a_waiting_storage_work_from_threads_on_one_loop(suspending):
    def work():
        for _ in range(20):
            suspending.update_state("t", append={"m": [1]})
        return threading.current_thread()

    at_once(*[work] * 6)
    assert len(suspending.get_state("t")["m"]) == 120
    assert sum(thread.name == "clew-loop" for thread in threading.enumerate()) == 1


def test_errors_of_a_waiting_storage_reach_the_sync_caller(suspending):
    base = suspending.put_checkpoint("t", 1)
    suspending.put_checkpoint("t", 2)
    with pytest.raises(clew.ConflictError):
        suspending.put_checkpoint(base.config, 3, on_conflict="reject")
    with pytest.raises(clew.ConfigError):
        suspending.get_state("")
    with suspending.lease("t") as lease:
        suspending.put_state("t", 4)
        assert lease.token > 0


def test_a_closed_context_lets_go_of_its_loop(remote):
    with clew.BaseCheckpointer(remote.storage()) as checkpointer:
        checkpointer.put_state("t", 1)
        (thread,) = [each for each in threading.enumerate() if each.name == "clew-loop"]
    thread.join(120)
    assert not thread.is_alive()

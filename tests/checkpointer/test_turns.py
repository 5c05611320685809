"""Turns: read, work and write on a thread while no other turn runs."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from typing import Any

import pytest

import clew
from tests.checkpointer.conftest import SHARED
from tests.checkpointer.support import text


@pytest.fixture(params=SHARED)
def shared(request, tmp_path):
    with closing(request.param(tmp_path)) as store:
        yield store


def test_twenty_parallel_requests_keep_twenty_turns(shared):
    checkpointer = shared.open()

    def request(number: int) -> None:
        with checkpointer.turn({"thread_id": "t", "user_id": "ana"}, begin=lambda: {"messages": []}, wait=120) as turn:
            turn.state["messages"].append(number)
            turn.say({"role": "user", "content": f"request {number}"})

    threads = [threading.Thread(target=request, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    config = {"thread_id": "t", "user_id": "ana"}
    assert sorted(checkpointer.get_state(config)["messages"]) == list(range(20))
    assert len(checkpointer.list_messages(config)) == 20
    assert len(checkpointer.list_checkpoints(config, limit=None)) == 20


def test_async_turns_and_turns_of_another_checkpointer_keep_each_other(shared):
    one, other = shared.open(), shared.open()

    async def request(checkpointer, number: int) -> None:
        async with checkpointer.aturn("t", begin={"n": []}, wait=120) as turn:
            turn.state["n"].append(number)
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*[request((one, other)[number % 2], number) for number in range(20)])
        await one.arelease()
        await other.arelease()

    asyncio.run(main())
    assert sorted(shared.open().get_state("t")["n"]) == list(range(20))


def test_a_turn_that_raises_saves_nothing_more(checkpointer):
    kept: list[clew.Checkpoint] = []

    def work() -> None:
        with checkpointer.turn("t", begin={"n": 0}) as turn:
            turn.state["n"] = 1
            turn.say({"role": "user", "content": "kept"})
            kept.append(turn.checkpoint(node_name="listen", step=1))
            turn.state["n"] = 2
            turn.say({"role": "user", "content": "lost"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert checkpointer.get_state("t") == {"n": 1}
    assert [message.text() for message in checkpointer.list_messages("t")] == ["kept"]
    head = checkpointer.get_checkpoint("t")
    assert (head.checkpoint_id, head.metadata.node_name, head.metadata.step) == (kept[0].checkpoint_id, "listen", 1)
    with checkpointer.lease("t"):
        pass


def test_the_state_and_the_messages_of_a_turn_are_one_commit(checkpointer):
    with checkpointer.turn("t", begin={"n": 0}, node_name="answer") as turn:
        turn.state = {"n": 5}
        turn.say(clew.Message(role="user", content="five"))
    assert turn.saved is not None
    assert checkpointer.get_checkpoint("t").checkpoint_id == turn.saved.checkpoint_id
    assert turn.saved.metadata.node_name == "answer"
    assert checkpointer.fork({"thread_id": "t", "checkpoint_id": turn.saved.checkpoint_id}, "u")
    assert [message.text() for message in checkpointer.list_messages("u")] == ["five"]


def test_a_turn_says_who_holds_the_thread(checkpointer):
    with (
        checkpointer.turn("t", begin={}, holder="the first one"),
        pytest.raises(clew.LeaseError, match="the first one"),
        checkpointer.turn("t", wait=0),
    ):
        pass
    assert len(checkpointer.list_checkpoints("t", limit=None)) == 1


def test_a_save_without_a_turn_in_between_is_a_conflict_and_stays(shared):
    checkpointer, other = shared.open(), shared.open()

    def work() -> None:
        with checkpointer.turn("t", begin={"n": 0}) as turn:
            turn.state["n"] = 1
            turn.checkpoint()
            other.put_state("t", {"n": 7})
            turn.state["n"] = 2

    with pytest.raises(clew.ConflictError):
        work()
    assert checkpointer.get_state("t") == {"n": 7}


def test_a_turn_that_begins_a_thread_does_not_replace_one_that_came_meanwhile(shared):
    checkpointer, other = shared.open(), shared.open()

    def work() -> None:
        with checkpointer.turn("t", begin={"n": 0}) as turn:
            turn.state["n"] = 1
            other.put_state("t", {"n": 7})

    with pytest.raises(clew.ConflictError):
        work()
    assert checkpointer.get_state("t") == {"n": 7}


def test_a_turn_whose_lease_was_lost_raises_and_saves_nothing(checkpointer, monkeypatch):
    checkpointer.put_state("t", {"n": 0})

    def work() -> None:
        with checkpointer.turn("t") as turn:
            turn.state["n"] = 1
            turn.say({"role": "user", "content": "lost"})
            monkeypatch.setattr(turn._lease, "_lost", True)

    with pytest.raises(clew.LeaseError, match="lost its lease"):
        work()
    assert checkpointer.get_state("t") == {"n": 0}
    assert checkpointer.list_messages("t") == []


def test_a_turn_from_an_older_checkpoint_is_a_branch(checkpointer):
    first = checkpointer.put_checkpoint("t", {"n": 1})
    checkpointer.put_checkpoint("t", {"n": 2})
    with checkpointer.turn({"thread_id": "t", "checkpoint_id": first.checkpoint_id}) as turn:
        assert turn.state == {"n": 1}
        turn.state["n"] = 3
        turn.checkpoint()
        turn.state["n"] = 4
    assert checkpointer.get_state("t") == {"n": 4}
    assert checkpointer.get_checkpoint("t").metadata.parent_id != first.checkpoint_id
    assert len(checkpointer.list_checkpoints("t", limit=None)) == 4


def test_a_turn_from_a_checkpoint_that_does_not_exist_is_refused(checkpointer):
    config = {"thread_id": "t", "checkpoint_id": "none"}
    with pytest.raises(clew.ConfigError, match="'none'"), checkpointer.turn(config):
        pass
    with checkpointer.lease("t"):
        pass


def test_a_turn_without_a_state_saves_messages_only(checkpointer):
    with checkpointer.turn("t") as turn:
        assert turn.state is None
        turn.say({"role": "user", "content": "hi"})
    assert turn.saved is None
    assert [message.text() for message in checkpointer.list_messages("t")] == ["hi"]


def test_a_state_that_becomes_none_is_refused(checkpointer):
    checkpointer.put_state("t", {"n": 0})
    with pytest.raises(clew.ConfigError, match="use clear_state"), checkpointer.turn("t") as turn:
        turn.state = None
    assert checkpointer.get_state("t") == {"n": 0}


def test_a_turn_of_another_user_is_refused(checkpointer):
    checkpointer.put_state({"thread_id": "t", "user_id": "ana"}, {"n": 0})
    with pytest.raises(clew.PermissionDeniedError), checkpointer.turn({"thread_id": "t", "user_id": "bob"}, begin={}):
        pass


def test_a_turn_is_used_inside_its_block_only(checkpointer):
    turn = checkpointer.turn("t", begin={})
    with pytest.raises(clew.ConfigError, match="inside"):
        turn.say({"role": "user", "content": "hi"})
    with pytest.raises(clew.ConfigError, match="inside"):
        turn.checkpoint()


def test_reject_with_nothing_to_compare_is_refused(checkpointer):
    with pytest.raises(clew.ConfigError, match="nothing to compare"):
        checkpointer.put_checkpoint("t", {"n": 0}, on_conflict="reject")


def test_a_first_state_is_not_shared_between_threads(checkpointer):
    first: dict[str, list[str]] = {"messages": []}
    for user in ("ana", "bob"):
        with checkpointer.turn({"thread_id": user, "user_id": user}, begin=first) as turn:
            turn.state["messages"].append(user)
    assert checkpointer.get_state({"thread_id": "bob", "user_id": "bob"}) == {"messages": ["bob"]}
    assert first == {"messages": []}


def test_what_is_said_while_a_checkpoint_is_saved_goes_with_the_next_one(store):
    async def go() -> None:
        async with store.open() as checkpointer:
            async with checkpointer.aturn("t", begin={}) as turn:
                for number in range(10):
                    saving = asyncio.create_task(turn.acheckpoint())
                    await asyncio.sleep(0)
                    turn.say({"role": "user", "content": str(number)})
                    await saving
            said = [message.text() for message in await checkpointer.alist_messages("t")]
            assert said == [str(number) for number in range(10)]

    asyncio.run(go())


def test_checkpoints_of_one_turn_at_once_and_cancelled_ones_do_not_conflict(store):
    async def go() -> None:
        async with store.open() as checkpointer:
            async with checkpointer.aturn("t", begin={"n": 0}) as turn:
                await asyncio.gather(turn.acheckpoint(), turn.acheckpoint())
                for number in range(8):
                    turn.state["n"] = number
                    saving = asyncio.create_task(turn.acheckpoint())
                    for _ in range(number):
                        await asyncio.sleep(0)
                    saving.cancel()
                    await asyncio.gather(saving, return_exceptions=True)
            assert await checkpointer.aget_state("t") == {"n": 7}

    asyncio.run(go())


def test_two_turns_with_one_holder_s_name_exclude_each_other(checkpointer):
    with (
        checkpointer.turn("t", begin={}, holder="web-1"),
        pytest.raises(clew.LeaseError, match="web-1"),
        checkpointer.turn("t", wait=0, holder="web-1"),
    ):
        pass


def test_what_is_no_message_is_refused_when_it_is_said(checkpointer):
    with checkpointer.turn("t", begin={"n": 1}) as turn:
        with pytest.raises(clew.ConfigError):
            turn.say("hello")
        said: dict[str, Any] = {"role": "user", "content": ["kept"]}
        turn.say(said)
        said["content"].append("changed later")
    assert checkpointer.get_state("t") == {"n": 1}
    assert checkpointer.list_messages("t")[0].raw == {"role": "user", "content": ["kept"]}


def test_messages_of_a_save_that_was_refused_were_not_said(store):
    memory = store.open(max_state_bytes=1000)
    with memory.turn("t", begin={"n": 0}) as turn:
        one, bad = {"role": "user", "content": "one"}, {"rolle": "typo"}
        with pytest.raises(clew.ConfigError, match=r"messages\[1\]"):
            turn.checkpoint(messages=[one, bad])
        turn.state["n"] = text(1, 3000)
        with pytest.raises(clew.StateTooLargeError):
            turn.checkpoint(messages=[one])
        turn.state["n"] = 1
        turn.checkpoint(messages=[one])
        turn.say({"role": "user", "content": "two"})
        turn.checkpoint(messages=[{"role": "user", "content": "three"}])
    assert [each.text() for each in memory.list_messages("t")] == ["one", "two", "three"]


def test_what_was_said_waits_for_a_save_that_succeeds(store):
    async def go() -> None:
        async with store.open(max_state_bytes=1000) as memory:
            async with memory.aturn("t", begin={"n": 0}) as turn:
                turn.say({"role": "user", "content": "one"})
                turn.state["n"] = text(1, 3000)
                for _ in range(2):
                    with pytest.raises(clew.StateTooLargeError):
                        await turn.acheckpoint(messages=[{"role": "user", "content": "not said"}])
                turn.state["n"] = 1
                await turn.acheckpoint()
            assert [each.text() for each in await memory.alist_messages("t")] == ["one"]

    asyncio.run(go())


@pytest.mark.parametrize("messages", ["hi", {"role": "user", "content": "hi"}, None, 7])
def test_a_checkpoint_of_a_turn_takes_a_list_of_messages(local, messages):
    checkpointer = local.open()
    with checkpointer.turn("t", begin={}) as turn, pytest.raises(clew.ConfigError, match="list of messages"):
        turn.checkpoint(messages=messages)
    assert checkpointer.list_messages("t") == []


def test_a_turn_is_entered_once(checkpointer):
    turn = checkpointer.turn("t", begin={})
    with turn:
        pass
    with pytest.raises(clew.ConfigError, match="once"), turn:
        pass


def test_a_saved_state_of_none_counts_as_no_state(checkpointer):
    checkpointer.put_state("t", None)
    with checkpointer.turn("t", begin={"n": 1}) as turn:
        assert turn.state == {"n": 1}
    assert checkpointer.get_state("t") == {"n": 1}


@pytest.mark.parametrize("config", [None, 5.0, b"x", {}, {"thread_id": "t", "userid": "ana"}])
def test_a_turn_on_no_thread_is_refused(checkpointer, config):
    with pytest.raises(clew.ConfigError):
        checkpointer.turn(config)

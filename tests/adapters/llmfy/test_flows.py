"""Real flows of llmfy's FlowEngine: run, crash, resume, history, reset, two runs at once."""

from __future__ import annotations

import pytest

import clew
from clew.adapters.llmfy import ClewCheckpointer
from tests.adapters.llmfy.support import Flow, node_of, user
from tests.checkpointer.support import SpyStorage, at, run, text, written


def test_a_run_is_saved_node_by_node(store):
    async def go():
        flow = Flow(ClewCheckpointer(store.open()))
        result = await flow.engine.invoke(user("hi"), session_id="s")
        assert result["visited"] == ["first", "second", "third"]
        history = await flow.engine.list_checkpoints("s")
        assert [node_of(each) for each in history][:3] == ["third", "second", "first"]
        assert (await flow.visited("s")) == ["first", "second", "third"]
        middle = await flow.engine.get_checkpoint("s", history[1].metadata.checkpoint_id)
        assert middle is not None
        assert middle.state["visited"] == ["first", "second"]

    run(go())


def test_a_run_that_crashed_goes_on_in_another_process_where_it_stopped(store):
    async def crashed():
        flow = Flow(ClewCheckpointer(store.open()))
        flow.crash = "third"
        with pytest.raises(Exception, match="third crashed"):
            await flow.engine.invoke(user("hi"), session_id="s")

    async def resumed():
        flow = Flow(ClewCheckpointer(store.open()))
        result = await flow.engine.invoke(session_id="s")
        assert flow.ran == ["third"]
        assert result["visited"] == ["first", "second", "third"]
        said = [message.content for message in result["messages"]]
        assert said == ["hi", "first says hello", "second says hello", "third says hello"]

    run(crashed())
    run(resumed())


def test_a_session_that_was_reset_begins_anew(store):
    async def go():
        checkpointer = store.open()
        flow = Flow(ClewCheckpointer(checkpointer))
        await flow.engine.invoke(user("hi"), session_id="s")
        await flow.engine.reset_session("s")
        assert await flow.engine.get_state("s") is None
        result = await flow.engine.invoke(user("hello"), session_id="s")
        assert result["visited"] == ["first", "second", "third"]
        said = await checkpointer.alist_messages("s")
        assert (said[0].text(), len(said)) == ("hello", 4)

    run(go())


def test_one_checkpoint_can_be_deleted(store):
    async def go():
        flow = Flow(ClewCheckpointer(store.open()))
        await flow.engine.invoke(user("hi"), session_id="s")
        latest = (await flow.engine.list_checkpoints("s"))[0]
        await flow.engine.delete_checkpoints("s", latest.metadata.checkpoint_id)
        assert (await flow.visited("s")) == ["first", "second"]

    run(go())


def test_a_streamed_run_is_saved_too(store):
    async def go():
        flow = Flow(ClewCheckpointer(store.open()))
        async for _ in flow.engine.stream(user("hi"), session_id="s"):
            pass
        assert (await flow.visited("s")) == ["first", "second", "third"]

    run(go())


def test_a_session_is_an_ordinary_thread(store):
    async def go():
        checkpointer = store.open()
        flow = Flow(ClewCheckpointer(checkpointer, user_id="alice"))
        await flow.engine.invoke(user("where is the Café?"), session_id="s")
        config = {"thread_id": "s", "user_id": "alice"}
        (thread,) = await checkpointer.alist_threads({"user_id": "alice"})
        assert (thread.thread_id, thread.message_count) == ("s", 4)
        infos = await checkpointer.alist_checkpoints(config)
        assert [each.node_name for each in infos][:3] == ["third", "second", "first"]
        assert [each.parent_id for each in infos[:-1]] == [each.checkpoint_id for each in infos[1:]]
        assert [each.role for each in await checkpointer.alist_messages(config)] == ["user"] + 3 * ["assistant"]
        (found,) = await checkpointer.alist_messages(config, search="CAFÉ")
        assert found.text() == "where is the Café?"
        diff = await checkpointer.adiff(at(infos[1], user_id="alice"), config)
        assert "third" in str(diff)
        forked = await checkpointer.afork(at(infos[1], user_id="alice"), "fork")
        assert len(await checkpointer.alist_messages(forked)) == 3
        again = Flow(ClewCheckpointer(checkpointer, user_id="alice"))
        assert (await again.engine.invoke(session_id="fork"))["visited"] == ["first", "second", "third"]
        assert again.ran == ["third"]
        await checkpointer.acleanup(clew.RetentionPolicy(max_history=1))
        assert (await flow.visited("s")) == ["first", "second", "third"]

    run(go())


def test_messages_can_be_kept_out_of_the_record(store):
    async def go():
        checkpointer = store.open()
        await Flow(ClewCheckpointer(checkpointer, messages=None)).engine.invoke(user("hi"), session_id="s")
        assert await checkpointer.alist_messages("s") == []

    run(go())


def test_a_turn_costs_what_it_says_however_long_the_session_is(store):
    async def go():
        checkpointer = store.open(SpyStorage)
        flow = Flow(ClewCheckpointer(checkpointer))
        costs = []
        for turn in range(30):
            before = len(checkpointer.storage.commits)
            await flow.engine.invoke(user(text(turn)), session_id="s")
            costs.append(sum(map(written, checkpointer.storage.commits[before:])))
        assert len(await checkpointer.alist_messages("s", limit=None)) == 120
        assert max(costs[20:]) < 1.5 * max(costs[2:8])

    run(go())

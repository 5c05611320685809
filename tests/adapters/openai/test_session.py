"""The Session protocol, and the thread behind a session."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agents import Session, SessionSettings
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

import clew
from clew.adapters.langgraph import ClewSaver
from clew.adapters.openai_agents import ClewSession
from clew.adapters.openai_agents.items import item_of, message_of
from clew.testing import FakeClock
from tests.adapters.openai.support import ANSWER, CALL, ITEMS, OUTPUT, USER, said, texts
from tests.checkpointer.support import SpyStorage, at, run, text, written


@pytest.fixture
def session(checkpointer):
    return ClewSession("s", checkpointer)


def test_it_is_a_session_of_the_sdk(session):
    assert isinstance(session, Session)
    assert (session.session_id, session.session_settings) == ("s", SessionSettings())


def test_items_have_the_time_of_the_store_s_clock(store):
    clock = FakeClock()
    memory = store.open(clock=clock)
    run(ClewSession("s", memory).add_items(ITEMS[:3]))
    assert [each.created_at for each in memory.list_messages("s")] == [clock.now()] * 3


def test_items_come_back_exactly_and_in_their_order(store):
    async def go():
        session = ClewSession("s", store.open())
        await session.add_items(ITEMS[:3])
        await session.add_items(ITEMS[3:])
        for reader in (session, ClewSession("s", store.open())):
            found = await reader.get_items()
            assert found == ITEMS
            assert [list(item) for item in found] == [list(item) for item in ITEMS]

    run(go())


@pytest.mark.parametrize("item", ITEMS)
def test_an_item_can_be_made_again_from_its_message(item):
    message = message_of(item, "id")
    assert item_of(message) == item
    assert list(item_of(message) or {}) == list(item)


def test_callers_get_and_keep_their_own_copies(session):
    async def go():
        item: Any = {"role": "user", "content": [{"type": "input_text", "text": "as it was"}]}
        await session.add_items([item])
        item["content"][0]["text"] = "changed"
        found: Any = await session.get_items()
        found[0]["content"].clear()
        assert texts(await session.get_items()) == ["as it was"]

    run(go())


def test_a_limit_gives_the_latest_and_beats_the_settings(checkpointer):
    async def go():
        session = ClewSession("s", checkpointer, session_settings={"limit": 2})
        await session.add_items(said(*"abcde"))
        assert texts(await session.get_items()) == ["d", "e"]
        assert texts(await session.get_items(3)) == ["c", "d", "e"]
        assert texts(await session.get_items(limit=9)) == list("abcde")
        assert await session.get_items(0) == []
        assert texts(await ClewSession("s", checkpointer).get_items()) == list("abcde")

    run(go())


def test_a_batch_with_one_bad_item_adds_nothing(session):
    async def go():
        await session.add_items(said("kept"))
        for bad in (object(), {"role": "user", "content": object()}):
            with pytest.raises((clew.ConfigError, clew.UnsupportedTypeError)):
                await session.add_items([*said("lost"), bad])
        assert texts(await session.get_items()) == ["kept"]
        assert len(await session.checkpointer.alist_messages(session.config)) == 1

    run(go())


def test_adding_nothing_makes_no_thread(session):
    async def go():
        await session.add_items([])
        assert await session.get_items() == []
        assert await session.pop_item() is None
        assert await session.info() is None
        await session.clear_session()

    run(go())


def test_the_latest_item_is_taken_with_its_message(session):
    async def go():
        await session.add_items(ITEMS)
        for item in reversed(ITEMS):
            assert await session.pop_item() == item
            record = await session.checkpointer.alist_messages(session.config)
            assert [item_of(each) for each in record] == await session.get_items()
        assert await session.pop_item() is None
        await session.add_items([USER])
        assert await session.get_items() == [USER]

    run(go())


def test_a_cleared_session_is_empty_and_can_be_used_again(store):
    async def go():
        session, other = ClewSession("s", store.open()), ClewSession("other", store.open())
        await session.add_items(said("a", "b"))
        await other.add_items(said("kept"))
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.checkpointer.alist_messages(session.config) == []
        assert await session.checkpointer.alist_checkpoints(session.config) == []
        await session.add_items(said("c"))
        assert texts(await session.get_items()) == ["c"]
        assert texts(await other.get_items()) == ["kept"]

    run(go())


def test_a_run_that_is_under_way_elsewhere_does_not_revive_a_cleared_session(store):
    async def go():
        mine, theirs = ClewSession("s", store.open()), ClewSession("s", store.open())
        await mine.add_items(said("a"))
        await theirs.get_items()
        await mine.clear_session()
        with pytest.raises(clew.ThreadDeletedError):
            await theirs.add_items(said("an answer to what is gone"))
        assert await theirs.get_items() == []
        await theirs.add_items(said("b"))
        assert texts(await mine.get_items()) == ["b"]

    run(go())


def test_adding_to_a_session_that_was_cleared_elsewhere_says_how_to_begin_anew(store):
    async def go():
        here, elsewhere = ClewSession("s", store.open()), ClewSession("s", store.open())
        await here.add_items(said("before"))
        await elsewhere.get_items()
        await elsewhere.clear_session()
        for _ in range(2):
            with pytest.raises(clew.ThreadDeletedError, match=r"'s' was cleared .* get_items\(\)"):
                await here.add_items(said("after"))
        assert await here.get_items() == []
        await here.add_items(said("after"))
        assert texts(await elsewhere.get_items()) == ["after"]

    run(go())


def test_half_an_emoji_is_kept_as_a_question_mark_and_its_item_with_it(session):
    half = json.loads('"\\ud83d"')
    cut: Any = {
        "type": "function_call_output",
        "call_id": "c",
        "output": [{"type": "input_text", "text": f"cut {half}"}],
    }

    async def go():
        await session.add_items([USER, cut, {"role": "user", f"key {half}": [(half,)], "content": "fine"}])
        found: Any = await session.get_items()
        assert found[0] == USER
        assert found[1]["output"][0]["text"] == "cut ?"
        assert found[2] == {"role": "user", "key ?": [("?",)], "content": "fine"}
        assert cut["output"][0]["text"] == f"cut {half}"
        (message,) = await session.checkpointer.alist_messages(session.config, search="cut ?")
        assert item_of(message) == found[1]
        assert await session._atomic_replace_items([cut])
        assert await session.get_items() == [found[1]]

    run(go())


def test_an_item_that_cant_be_saved_is_refused_even_with_half_an_emoji(session):
    half = json.loads('"\\ud83d"')
    endless: Any = {"content": half}
    endless["again"] = endless

    async def go():
        for item in (endless, {"content": half, "socket": object()}):
            with pytest.raises(clew.UnsupportedTypeError):
                await session.add_items([item])
        assert await session.get_items() == []

    run(go())


def test_every_item_is_one_message_that_is_found(session):
    async def go():
        await session.add_items(ITEMS)
        checkpointer, config = session.checkpointer, session.config
        record = await checkpointer.alist_messages(config)
        roles = ["user", "assistant", "assistant", "tool", "assistant"]
        assert [each.role for each in record[:5]] == roles
        for search, item in (
            ("CAFÉ?", USER),
            ("find_place", CALL),
            ("café müller", CALL),
            ("around the corner", OUTPUT),
            ("it is around", ANSWER),
            ("look it up", ITEMS[1]),
            ("and this", ITEMS[5]),
            ("a block", ITEMS[6]),
            ("will not say", ITEMS[7]),
            ("weather lima", ITEMS[8]),
            ("from the server", ITEMS[9]),
        ):
            found = await checkpointer.alist_messages(config, search=search)
            assert item_of(found[0]) == item, search
        for unsaid in ("fc_1", "gAAAA", "completed", "output_text", "data:x"):
            assert await checkpointer.alist_messages(config, search=unsaid) == [], unsaid
        stats = await checkpointer.astats()
        assert (stats.total_messages, stats.total_tool_calls) == (len(ITEMS), 3)

    run(go())


def test_items_and_messages_are_one_commit(store):
    async def go():
        session = ClewSession("s", store.open(SpyStorage))
        await session.add_items(ITEMS)
        await session.pop_item()
        commits = session.checkpointer.storage.commits  # type: ignore[attr-defined]
        assert [len(each.messages) for each in commits] == [len(ITEMS), 0]
        assert [len(each.remove.messages) if each.remove else 0 for each in commits] == [0, 1]
        assert all(each.checkpoint for each in commits)

    run(go())


def test_the_record_can_be_left_out(store):
    async def go():
        session = ClewSession("s", store.open(), record_messages=False)
        await session.add_items(ITEMS)
        assert await session.get_items() == ITEMS
        assert await session.pop_item() == ITEMS[-1]
        assert await session.checkpointer.alist_messages(session.config) == []

    run(go())


def test_adding_costs_what_is_added_however_long_the_session_is(store):
    async def go():
        session = ClewSession("s", store.open(SpyStorage))
        for turn in range(200):
            await session.add_items([*said(text(turn)), {"role": "assistant", "content": text(-turn)}])
        commits = session.checkpointer.storage.commits  # type: ignore[attr-defined]
        costs = [written(each) for each in commits if each.checkpoint]
        # In total: where a list is cut depends on its ids, so single turns vary a little.
        assert sum(costs[150:]) < 1.2 * sum(costs[10:60])
        assert sum(costs[100:]) < 100 * 4 * 2 * 400 * 1.3

    run(go())


def test_other_users_cant_use_an_owned_session(checkpointer):
    async def go():
        alice = ClewSession("s", checkpointer, user_id="alice")
        await alice.add_items(said("a secret"))
        for other in (ClewSession("s", checkpointer, user_id="bob"), ClewSession("s", checkpointer)):
            assert await other.get_items() == []
            assert await other.pop_item() is None
            assert await other.info() is None
            for write in (other.add_items(said("x")), other.clear_session()):
                with pytest.raises(clew.PermissionDeniedError):
                    await write
        assert texts(await alice.get_items()) == ["a secret"]
        (thread,) = await checkpointer.alist_threads({"user_id": "alice"})
        assert (thread.thread_id, thread.message_count) == ("s", 1)

    run(go())


def test_a_description_replaces_the_one_before(session):
    async def go():
        await session.describe(thread_name="A trip", tags=["travel"], metadata={"a": 1, "b": 2})
        await session.describe(metadata={"a": 3})
        info = await session.info()
        assert (info.thread_name, info.tags, info.metadata) == (None, (), {"a": 3})
        await session.describe(thread_name="Nothing else")
        assert (await session.info()).metadata == {}

    run(go())


def test_a_thread_has_a_name_tags_and_metadata(checkpointer):
    async def go():
        session = ClewSession("s", checkpointer, user_id="alice")
        await session.describe(thread_name="A trip", tags=["travel"], metadata={"channel": "web"})
        await session.add_items(said("a", "b"))
        info = await session.info()
        assert info is not None
        assert (info.thread_name, info.tags, info.metadata) == ("A trip", ("travel",), {"channel": "web"})
        assert (info.user_id, info.message_count) == ("alice", 2)
        assert await checkpointer.alist_threads({"user_id": "alice"}, search="trip") == [info]

    run(go())


def test_the_history_is_that_of_an_ordinary_thread(session):
    async def go():
        checkpointer, config = session.checkpointer, session.config
        await session.add_items(said("a"))
        await session.add_items(said("b", "c"))
        await session.pop_item()
        infos = await checkpointer.alist_checkpoints(config)
        assert [each.node_name for each in infos] == ["pop_item", "add_items", "add_items"]
        then = await checkpointer.aget_state(at(infos[1]))
        assert texts(then["items"]) == ["a", "b", "c"]
        assert "items[2]" in str(await checkpointer.adiff(at(infos[1]), config))
        await checkpointer.acleanup(clew.RetentionPolicy(max_history=1))
        assert texts(await session.get_items()) == ["a", "b"]

    run(go())


@pytest.mark.parametrize("state", [[1, 2], {"plan": "theirs"}, {"items": "theirs"}])
def test_a_thread_whose_state_is_something_else_is_no_session(checkpointer, state):
    async def go():
        await checkpointer.aput_state("s", state)
        for call in (lambda session: session.get_items(), lambda session: session.pop_item()):
            with pytest.raises(clew.ConfigError, match="is not a session"):
                await call(ClewSession("s", checkpointer))
        with pytest.raises(clew.ConfigError):
            await ClewSession("s", checkpointer).add_items(said("a"))
        assert await checkpointer.aget_state("s") == state

    run(go())


def test_a_thread_of_langgraph_is_no_session(checkpointer):
    graph = StateGraph(MessagesState).add_node("add", lambda state: {"messages": [AIMessage("hello")]})
    app = graph.add_edge(START, "add").compile(checkpointer=ClewSaver(checkpointer))

    async def go():
        config: Any = {"configurable": {"thread_id": "s"}}
        await app.ainvoke({"messages": [HumanMessage("hi")]}, config)
        with pytest.raises(clew.ConfigError, match="is not a session"):
            await ClewSession("s", checkpointer).add_items(said("a"))
        with pytest.raises(clew.ConfigError, match="is not a session"):
            await ClewSession("s", checkpointer).get_items()
        assert len((await app.ainvoke({"messages": [HumanMessage("more")]}, config))["messages"]) == 4

    run(go())


def test_fields_beside_the_items_stay(checkpointer):
    async def go():
        await checkpointer.aput_state("mixed", {"items": [], "plan": "theirs"})
        session = ClewSession("mixed", checkpointer)
        await session.add_items(said("a", "b"))
        await session.pop_item()
        assert (await checkpointer.aget_state("mixed"))["plan"] == "theirs"
        assert texts(await session.get_items()) == ["a"]

    run(go())


def test_an_empty_state_is_a_session_that_begins(checkpointer):
    async def go():
        await checkpointer.aput_state("s", {})
        session = ClewSession("s", checkpointer)
        await session.add_items(said("a"))
        assert texts(await session.get_items()) == ["a"]

    run(go())


# --- Forks


TURNS: list[Any] = [
    *said("one"),
    {"role": "assistant", "content": "first"},
    *said("two"),
    CALL,
    OUTPUT,
    {"role": "assistant", "content": "second"},
    *said("three"),
]


@pytest.mark.parametrize("batches", [[7], [2, 4, 1], [1] * 7], ids=["at once", "by turn", "one by one"])
@pytest.mark.parametrize(("turn", "length"), [(None, 7), (1, 0), (2, 2), (3, 6)])
def test_a_fork_begins_before_a_turn_and_goes_its_own_way(store, batches, turn, length):
    async def go():
        session = ClewSession("s", store.open(), user_id="alice")
        await session.describe(thread_name="named")
        start = 0
        for size in batches:
            await session.add_items(TURNS[start : start + size])
            start += size
        fork = await session.fork(turn, session_id="fork")
        assert await fork.get_items() == TURNS[:length]
        record = await fork.checkpointer.alist_messages(fork.config)
        assert [item_of(each) for each in record] == TURNS[:length]
        info = await fork.info()
        assert info is not None
        assert info.forked_from is not None
        assert (info.forked_from["thread_id"], info.user_id, info.thread_name) == ("s", "alice", "named")
        history = await fork.checkpointer.aget_history(fork.config, limit=None)
        assert [len(each.state["items"]) for each in history] == [length]
        await fork.add_items(said("elsewhere"))
        await session.pop_item()
        assert texts(await fork.get_items())[-1] == "elsewhere"
        assert await session.get_items() == TURNS[:-1]
        await session.clear_session()
        assert await fork.get_items() == [*TURNS[:length], *said("elsewhere")]

    run(go())


@pytest.mark.parametrize("turn", [0, 4, -1])
def test_a_fork_from_a_missing_turn_is_refused(session, turn):
    async def go():
        await session.add_items(TURNS)
        with pytest.raises(clew.ConfigError, match="3 turns"):
            await session.fork(turn, session_id="fork")
        assert len(await session.checkpointer.alist_threads({})) == 1

    run(go())


def test_a_fork_does_not_take_the_place_of_another_session(session):
    async def go():
        await session.add_items(TURNS)
        other = ClewSession("other", session.checkpointer)
        await other.add_items(said("kept"))
        with pytest.raises(clew.ConflictError):
            await session.fork(2, session_id="other")
        assert texts(await other.get_items()) == ["kept"]

    run(go())


# --- Concurrency


def test_concurrent_adds_lose_and_tear_nothing(store):
    async def go():
        sessions = [ClewSession("s", store.open()) for _ in range(4)]
        await asyncio.gather(
            *(
                each.add_items(said(*(f"{who}-{batch}-{part}" for part in range(3))))
                for batch in range(8)
                for who, each in enumerate(sessions)
            )
        )
        found = texts(await sessions[0].get_items())
        batches = {tuple(found[at : at + 3]) for at in range(0, len(found), 3)}
        expected = {tuple(f"{who}-{batch}-{part}" for part in range(3)) for batch in range(8) for who in range(4)}
        assert batches == expected
        assert len(found) == 96
        record = await sessions[0].checkpointer.alist_messages("s", limit=None)
        assert [each.text() for each in record] == found

    run(go())


def test_concurrent_pops_get_different_items(store):
    async def go():
        sessions = [ClewSession("s", store.open()) for _ in range(4)]
        await sessions[0].add_items(said(*map(str, range(20))))
        popped = await asyncio.gather(*(each.pop_item() for _ in range(6) for each in sessions))
        got: list[Any] = [each for each in popped if each is not None]
        assert sorted(texts(got), key=int) == list(map(str, range(20)))
        assert popped.count(None) == 4
        assert await sessions[0].get_items() == []

    run(go())


# --- Opening and closing


def test_a_session_with_a_url_opens_its_store_and_closes_it(tmp_path):
    url = f"sqlite:///{tmp_path}/clew.db"

    async def go():
        async with ClewSession("s", url) as session:
            await session.add_items(said("a"))
        again = ClewSession("s", url)
        assert texts(await again.get_items()) == ["a"]
        await again.aclose()

    run(go())
    session = ClewSession("s", url)
    assert texts(run(session.get_items())) == ["a"]
    session.close()


def test_a_session_does_not_close_a_checkpointer_that_it_was_given(session):
    async def go():
        async with session:
            await session.add_items(said("a"))
        assert texts(await session.get_items()) == ["a"]

    run(go())
    session.close()
    assert texts(run(session.get_items())) == ["a"]


def test_a_session_goes_on_after_a_rewind(checkpointer):
    """Items, record, pop and fork all follow the branch."""

    async def go():
        session = ClewSession("s", checkpointer, user_id="ana")
        for turn in ("one", "two"):
            await session.add_items([{"role": "user", "content": turn}])
            await session.add_items([{"role": "assistant", "content": f"re {turn}"}])
        before = await checkpointer.aget_checkpoint(session.config)
        await checkpointer.arewind(session.config, turns=1)
        assert texts(await session.get_items()) == ["one", "re one"]
        await session.add_items([{"role": "user", "content": "three"}])
        assert await recorded(session.config) == texts(await session.get_items()) == ["one", "re one", "three"]
        assert texts([await session.pop_item()]) == ["three"]
        assert await recorded(session.config) == ["one", "re one"]
        assert await recorded(before.config) == ["one", "re one", "two", "re two"]
        fork = await session.fork(1)
        assert await fork.get_items() == await recorded(fork.config) == []
        await checkpointer.arewind(session.config, turns=1)
        assert await session.get_items() == []
        await session.add_items([{"role": "user", "content": "anew"}])
        assert await recorded(session.config) == texts(await session.get_items()) == ["anew"]
        await session.repair()
        assert texts(await session.get_items()) == ["anew"]

    async def recorded(config):
        return [each.text() for each in await checkpointer.alist_messages(config)]

    run(go())


async def head_of(session: ClewSession) -> str:
    """The id of the session's newest checkpoint."""
    found = await session.checkpointer.aget_checkpoint(session.config)
    assert found is not None
    return found.checkpoint_id


async def agree(session: ClewSession, expected: list[str]) -> None:
    """Check that the items and the conversation record of the head are `expected`."""
    assert texts(await session.get_items()) == expected
    assert [each.text() for each in await session.checkpointer.alist_messages(session.config)] == expected


@pytest.mark.parametrize("batches", [[4], [2, 2], [1] * 4], ids=["at once", "by turn", "one by one"])
@pytest.mark.parametrize("pops", [1, 2, 3])
def test_an_item_that_is_popped_after_a_rewind_stays_on_the_other_branch(store, batches, pops):
    async def go():
        session = ClewSession("s", store.open())
        words = ["u1", "a1", "u2", "a2"]
        start = 0
        for size in batches:
            await session.add_items(said(*words[start : start + size]))
            start += size
        old = await head_of(session)
        await session.checkpointer.arewind(session.config, to=old)
        for _ in range(pops):
            await session.pop_item()
        await agree(session, words[:-pops])
        await session.add_items(said("new"))
        await agree(session, [*words[:-pops], "new"])
        new = await head_of(session)
        await session.checkpointer.arewind(session.config, to=old)
        await agree(session, words)
        await session.checkpointer.arewind(session.config, to=new)
        await agree(session, [*words[:-pops], "new"])
        assert texts([await session.pop_item()]) == ["new"]
        await agree(session, words[:-pops])

    run(go())


def test_a_compaction_after_a_rewind_leaves_the_other_branch_alone(store):
    async def go():
        session = ClewSession("s", store.open())
        for word in ("u1", "a1", "u2", "a2"):
            await session.add_items(said(word))
        old = await head_of(session)
        await session.checkpointer.arewind(session.config, turns=2)
        await agree(session, ["u1", "a1"])
        snapshot = await session._get_compaction_snapshot(10)
        assert snapshot is not None
        assert await snapshot.replace_suffix(1, said("summary"))
        await agree(session, ["u1", "summary"])
        assert await session._atomic_replace_items(said("all"))
        await agree(session, ["all"])
        await session.checkpointer.arewind(session.config, to=old)
        await agree(session, ["u1", "a1", "u2", "a2"])

    run(go())


def test_a_pop_after_a_rewind_keeps_times_runs_and_messages_of_others(checkpointer):
    async def go():
        session = ClewSession("s", checkpointer)
        await session.add_items(said("u1"))
        await checkpointer.aput_messages({**session.config, "run_id": "r"}, [{"role": "user", "content": "a note"}])
        await session.add_items(said("a1", "u2"))
        old = await head_of(session)
        before = await checkpointer.alist_messages(session.config)
        await checkpointer.arewind(session.config, to=old)
        await session.pop_item()
        after = await checkpointer.alist_messages(session.config)
        assert [(each.text(), each.created_at, each.run_id) for each in after] == [
            (each.text(), each.created_at, each.run_id) for each in before[:-1]
        ]
        assert texts(await session.get_items()) == ["u1", "a1"]

    run(go())


def test_concurrent_pops_after_a_rewind_get_different_items(store):
    async def go():
        sessions = [ClewSession("s", store.open()) for _ in range(3)]
        words = list(map(str, range(9)))
        await sessions[0].add_items(said(*words))
        old = await head_of(sessions[0])
        await sessions[0].checkpointer.arewind(sessions[0].config, to=old)
        popped = await asyncio.gather(*(each.pop_item() for _ in range(2) for each in sessions))
        assert sorted(texts(popped)) == words[3:]
        await agree(sessions[0], words[:3])

    run(go())


def test_a_role_that_the_record_does_not_take_ends_no_run(session):
    async def go():
        items: list[Any] = [{"role": "", "content": "nobody"}, {"role": "damaged", "content": "whole"}]
        await session.add_items(items)
        assert await session.get_items() == items
        found = await session.checkpointer.alist_messages(session.config)
        assert [each.role for each in found] == ["assistant", "unknown"]
        assert [item_of(each) for each in found] == items

    run(go())

"""Saving, loading, listing, branching, forking, comparing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import clew
from clew.testing import FakeClock
from tests.checkpointer.support import at, run, text


def put_all(checkpointer, states, config="t"):
    return [checkpointer.put_checkpoint(config, state) for state in states]


def test_a_state_is_saved_and_loaded_and_the_saver_gets_its_own_back(checkpointer):
    state = {"n": 1}
    assert checkpointer.put_state("t", state) is state
    assert checkpointer.get_state("t") == {"n": 1}
    assert checkpointer.get_state("another") is None


def test_the_async_methods_do_the_same(store):
    async def go():
        checkpointer = store.open()
        await checkpointer.aput_state("t", {"n": 1})
        made = await checkpointer.aput_checkpoint("t", {"n": 2}, node_name="b", step=2)
        assert await checkpointer.aget_state("t") == {"n": 2}
        assert await checkpointer.aget_checkpoint("t") == made
        assert [each.node_name for each in await checkpointer.alist_checkpoints("t")] == ["b", None]
        assert [each.state for each in await checkpointer.aget_history("t")] == [{"n": 2}, {"n": 1}]
        assert await checkpointer.aexists("t")
        assert not await checkpointer.aexists("u")
        assert await checkpointer.adelete_checkpoint(at(made)) is True
        assert await checkpointer.aget_state("t") == {"n": 1}
        await checkpointer.aclear_state("t")
        assert await checkpointer.aget_state("t") is None

    run(go())


def test_a_checkpoint_carries_what_its_writer_said(checkpointer):
    first = checkpointer.put_checkpoint("t", 0)
    made = checkpointer.put_checkpoint(
        {"thread_id": "t", "run_id": "run-1"}, {"a": 1}, node_name="plan", step=7, metadata={"why": ["x"], "n": (1, 2)}
    )
    loaded = checkpointer.get_checkpoint(at(made))
    assert loaded == made
    metadata = loaded.metadata
    assert (metadata.node_name, metadata.step, metadata.run_id) == ("plan", 7, "run-1")
    assert metadata.metadata == {"why": ["x"], "n": (1, 2)}
    assert metadata.parent_id == first.checkpoint_id
    assert metadata.timestamp.tzinfo == UTC
    info = checkpointer.list_checkpoints("t", limit=1)[0]
    assert info.size > 0
    assert info.to_dict().items() >= metadata.to_dict().items()


def test_the_latest_is_by_sequence_whatever_the_clock_says(store):
    clock = FakeClock()
    checkpointer = store.open(clock=clock)
    checkpointer.put_state("t", "first")
    checkpointer.put_state("t", "same time")
    clock.set(datetime(1999, 1, 1, tzinfo=UTC))
    checkpointer.put_state("t", "an hour set back")
    assert checkpointer.get_state("t") == "an hour set back"
    assert [each.state for each in checkpointer.get_history("t")] == ["an hour set back", "same time", "first"]
    assert checkpointer.list_checkpoints("t")[0].timestamp == datetime(1999, 1, 1, tzinfo=UTC)


def test_checkpoints_are_listed_newest_first_in_pages_that_lose_nothing(checkpointer):
    made = [each.checkpoint_id for each in put_all(checkpointer, range(25))]
    assert [each.checkpoint_id for each in checkpointer.list_checkpoints("t")] == made[:-11:-1]
    found, before = [], None
    while page := checkpointer.list_checkpoints("t", limit=7, before=before):
        found += [each.checkpoint_id for each in page]
        before = found[-1]
    assert found == made[::-1]
    assert [each.checkpoint_id for each in checkpointer.list_checkpoints("t", limit=None)] == made[::-1]


def test_a_limit_of_nothing_gives_nothing(checkpointer):
    put_all(checkpointer, [1])
    checkpointer.put_messages("t", [clew.Message(role="user")])
    assert checkpointer.list_checkpoints("t", limit=0) == []
    assert checkpointer.get_history("t", limit=0) == []
    assert checkpointer.list_messages("t", limit=0) == []
    assert checkpointer.list_threads({}, limit=0) == []


def test_checkpoints_are_listed_by_run(checkpointer):
    for number in range(6):
        checkpointer.put_checkpoint({"thread_id": "t", "run_id": f"r{number % 2}"}, number)
    sequences = [each.sequence for each in checkpointer.list_checkpoints("t", run_id="r1")]
    assert len(sequences) == 3
    assert sequences == sorted(sequences, reverse=True)
    assert {each.run_id for each in checkpointer.list_checkpoints("t", run_id="r1")} == {"r1"}


def test_history_holds_the_states_as_they_were(checkpointer):
    state: dict[str, Any] = {"n": 0, "list": []}
    for number in range(1, 5):
        state["n"] = number
        state["list"].append(text(number))
        checkpointer.put_state("t", state)
    history = checkpointer.get_history("t", limit=None)
    assert [each.state["n"] for each in history] == [4, 3, 2, 1]
    assert [len(each.state["list"]) for each in history] == [4, 3, 2, 1]


def test_a_deleted_checkpoint_is_gone_and_says_whether_it_was_there(checkpointer):
    first, second, third = put_all(checkpointer, [{"m": [text(n)]} for n in range(3)])
    assert checkpointer.delete_checkpoint(at(third)) is True
    assert checkpointer.delete_checkpoint(at(third)) is False
    assert checkpointer.get_checkpoint(at(third)) is None
    assert not checkpointer.exists(at(third))
    assert checkpointer.get_state("t") == second.state
    assert checkpointer.put_checkpoint("t", 4).metadata.parent_id == second.checkpoint_id
    assert checkpointer.get_state(at(first)) == first.state


def test_clearing_the_state_leaves_messages_and_description(checkpointer):
    put_all(checkpointer, [{"a": text(n)} for n in range(3)])
    checkpointer.put_messages("t", [clew.Message(role="user", content="hi")])
    checkpointer.put_thread("t", clew.ThreadInfo(thread_id="t", thread_name="kept"))
    checkpointer.clear_state("t")
    assert checkpointer.get_state("t") is None
    assert checkpointer.list_checkpoints("t") == []
    assert [each.content for each in checkpointer.list_messages("t")] == ["hi"]
    assert checkpointer.get_thread("t").thread_name == "kept"
    checkpointer.put_state("t", {"a": text(0)})
    assert checkpointer.get_state("t") == {"a": text(0)}


# Conflicts: "I started from this checkpoint"


def test_without_a_checkpoint_id_the_parent_is_the_head_at_commit_time(store):
    one, other = store.open(), store.open()
    first = one.put_checkpoint("t", 1)
    second = other.put_checkpoint("t", 2)
    third = one.put_checkpoint("t", 3)
    assert [each.metadata.parent_id for each in (first, second, third)] == [
        None,
        first.checkpoint_id,
        second.checkpoint_id,
    ]


def test_branching_keeps_both_and_the_new_one_becomes_head(store):
    one, other = store.open(), store.open()
    base = one.put_checkpoint("t", {"m": [text("base")]})
    theirs = other.put_checkpoint(at(base), {"m": [text("base"), text("theirs")]})
    mine = one.put_checkpoint(at(base), {"m": [text("base"), text("mine")]}, on_conflict="branch")
    assert mine.metadata.parent_id == theirs.metadata.parent_id == base.checkpoint_id
    assert one.get_state("t") == other.get_state("t") == mine.state
    assert one.get_state(at(theirs)) == theirs.state


def test_rejecting_raises_and_writes_nothing_not_even_the_messages(store):
    one, other = store.open(), store.open()
    base = one.put_checkpoint("t", {"n": 0})
    theirs = other.put_checkpoint(at(base), {"n": 1}, on_conflict="reject")
    with pytest.raises(clew.ConflictError) as caught:
        one.put_checkpoint(at(base), {"n": 2}, on_conflict="reject", messages=[clew.Message(role="user")])
    assert caught.value.thread_id == "t"
    assert [each.checkpoint_id for each in one.list_checkpoints("t")] == [theirs.checkpoint_id, base.checkpoint_id]
    assert one.list_messages("t") == []


def test_five_concurrent_runs_from_one_checkpoint_lose_no_update(store):
    base = store.open().put_checkpoint("t", {"n": 0})

    async def go():
        checkpointer = store.open()
        made = await asyncio.gather(*[checkpointer.aput_checkpoint(at(base), {"n": n}) for n in range(1, 6)])
        history = await checkpointer.aget_history("t")
        assert sorted(each.state["n"] for each in history) == [0, 1, 2, 3, 4, 5]
        assert {each.metadata.parent_id for each in made} == {base.checkpoint_id}
        outcomes = await asyncio.gather(
            *[checkpointer.aput_checkpoint(at(made[0]), n, on_conflict="reject") for n in range(5)],
            return_exceptions=True,
        )
        assert all(isinstance(each, clew.ConflictError) for each in outcomes)

    run(go())


def test_only_one_of_many_rejecting_writers_wins(store):
    base = store.open().put_checkpoint("t", {"n": 0})

    async def go():
        checkpointers = [store.open() for _ in range(4)]
        outcomes = await asyncio.gather(
            *[each.aput_checkpoint(at(base), {"n": 1}, on_conflict="reject") for each in checkpointers],
            return_exceptions=True,
        )
        assert sum(isinstance(each, clew.Checkpoint) for each in outcomes) == 1
        assert sum(isinstance(each, clew.ConflictError) for each in outcomes) == 3

    run(go())


def test_on_conflict_must_be_one_of_two_words(checkpointer):
    with pytest.raises(clew.ConfigError, match="branch"):
        checkpointer.put_checkpoint("t", 1, on_conflict="overwrite")
    assert not checkpointer.exists("t")


# Namespaces


def test_each_namespace_has_its_own_head(checkpointer):
    main, sub = {"thread_id": "t"}, {"thread_id": "t", "checkpoint_ns": "sub"}
    checkpointer.put_state(main, {"who": "main"})
    made = checkpointer.put_checkpoint(sub, {"who": "sub"})
    assert made.metadata.parent_id is None
    assert made.metadata.namespace == "sub"
    assert made.config["checkpoint_ns"] == "sub"
    assert checkpointer.get_state(main) == {"who": "main"}
    assert checkpointer.get_state(sub) == {"who": "sub"}
    assert checkpointer.get_state({**main, "checkpoint_ns": ""}) == {"who": "main"}
    assert checkpointer.get_state({**main, "checkpoint_ns": "other"}) is None
    assert len(checkpointer.list_checkpoints(sub)) == 1
    checkpointer.update_state(sub, set={"n": 1})
    assert checkpointer.get_state(main) == {"who": "main"}
    assert checkpointer.get_state(sub) == {"who": "sub", "n": 1}


# Forks


def test_a_fork_has_the_state_and_the_messages_up_to_it_and_goes_its_own_way(checkpointer):
    made = []
    for number in range(4):
        state = {"m": [text(each) for each in range(number + 1)]}
        message = clew.Message(message_id=f"m{number}", role="user", content=f"turn {number}")
        made.append(checkpointer.put_checkpoint("t", state, messages=[message]))
    forked = checkpointer.fork(at(made[1]), "what-if")
    assert forked == {"thread_id": "what-if"}
    assert checkpointer.get_state(forked) == made[1].state
    assert [each.message_id for each in checkpointer.list_messages(forked)] == ["m0", "m1"]
    info = checkpointer.get_thread(forked)
    assert info.forked_from == {"thread_id": "t", "checkpoint_id": made[1].checkpoint_id}
    assert (info.checkpoint_count, info.message_count) == (1, 2)
    checkpointer.update_state(forked, append={"m": ["another way"]})
    checkpointer.put_messages(forked, [clew.Message(role="user", content="only here")])
    assert checkpointer.get_state("t") == made[3].state
    assert len(checkpointer.list_messages("t")) == 4
    assert checkpointer.get_state(forked)["m"] == [*made[1].state["m"], "another way"]


def test_a_fork_keeps_the_id_of_its_checkpoint_and_leads_to_the_same_attachments(checkpointer):
    made = [checkpointer.put_checkpoint("t", {"n": number}) for number in range(3)]
    for of in made[1], made[2]:
        checkpointer.put_attachments(at(of), {"key": of.state["n"]})
    for source, of in (at(made[1]), made[1]), ("t", made[2]):
        forked = checkpointer.fork(source)
        assert checkpointer.get_checkpoint(forked).checkpoint_id == of.checkpoint_id
        there = {**forked, "checkpoint_id": of.checkpoint_id}
        assert checkpointer.list_attachments(there) == {"key": of.state["n"]}
        again = checkpointer.fork(there)
        assert checkpointer.list_attachments({**again, "checkpoint_id": of.checkpoint_id}) == {"key": of.state["n"]}
        checkpointer.put_checkpoint(there, {"n": "here"})
        assert checkpointer.get_state(at(of)) == of.state


def test_a_fork_outlives_its_source_and_the_source_its_fork(store):
    checkpointer = store.open()
    state = {"m": [text(each) for each in range(10)]}
    checkpointer.put_state("t", state)
    one, two = checkpointer.fork("t"), checkpointer.fork("t")
    assert one["thread_id"] not in ("t", two["thread_id"])
    checkpointer.update_state(one, append={"m": [text("one")]})
    checkpointer.delete_thread("t")
    checkpointer.delete_thread(two)
    checkpointer.compact()
    cold = store.open()
    assert cold.get_state(one) == {"m": [*state["m"], text("one")]}
    assert cold.get_state("t") is None
    assert cold.get_state(two) is None
    assert cold.verify().ok


def test_a_fork_of_a_fork_of_a_fork_loads(store):
    checkpointer = store.open()
    config = {"thread_id": "t"}
    checkpointer.put_state(config, {"m": [text(0)]})
    for number in range(1, 6):
        config = checkpointer.fork(config)
        checkpointer.update_state(config, append={"m": [text(number)]})
    assert store.open().get_state(config) == {"m": [text(number) for number in range(6)]}


def test_a_fork_needs_a_source_and_a_free_name(checkpointer):
    checkpointer.put_state("t", 1)
    checkpointer.put_state("taken", 2)
    for config, target in [("t", "taken"), ("absent", "new"), ({"thread_id": "t", "checkpoint_id": "nope"}, "new")]:
        with pytest.raises(clew.ConflictError):
            checkpointer.fork(config, target)
    with pytest.raises(clew.ConfigError):
        checkpointer.fork("t", "t")
    assert checkpointer.get_state("taken") == 2
    assert not checkpointer.exists("new")


# Differences


def test_a_diff_reads_as_what_happened(checkpointer):
    messages = [text(number) for number in range(12)]
    before = checkpointer.put_checkpoint("t", {"messages": messages, "topic": "a"})
    after = checkpointer.put_checkpoint("t", {"messages": [*messages, "x", "y"], "topic": "b"})
    found = checkpointer.diff(at(before), at(after))
    places = {change.place: change.kind for change in found}
    assert places == {"messages[12..13]": "added", "topic": "changed"}
    assert "messages[12..13] added" in str(found)
    assert not checkpointer.diff(at(after), at(after))


def test_a_diff_compares_threads_and_misses_none_in_silence(checkpointer):
    checkpointer.put_state("t", {"a": 1})
    other = checkpointer.fork("t")
    checkpointer.update_state(other, set={"a": 2})
    (change,) = checkpointer.diff("t", other)
    assert (change.path, change.before, change.after) == (("a",), 1, 2)
    with pytest.raises(clew.ConfigError, match="no checkpoint"):
        checkpointer.diff("t", "absent")
    with pytest.raises(clew.ConflictError):
        checkpointer.diff("t", {"thread_id": "t", "checkpoint_id": "nope"})


# Copies


def test_what_is_saved_and_what_is_loaded_is_the_callers_own(checkpointer):
    state: dict[str, Any] = {"list": [1], "deep": {"a": [text(1)]}}
    metadata = {"k": [1]}
    message: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "hi"}], "message_id": "m"}
    made = checkpointer.put_checkpoint("t", state, metadata=metadata, messages=[message])
    state["list"].append(2)
    state["deep"]["a"].clear()
    metadata["k"].append(2)
    message["content"].clear()
    loaded = checkpointer.get_checkpoint("t")
    assert loaded.state == {"list": [1], "deep": {"a": [text(1)]}}
    assert loaded.metadata.metadata == made.metadata.metadata == {"k": [1]}
    assert checkpointer.get_message("t", "m").content == [{"type": "text", "text": "hi"}]
    for again in (loaded, checkpointer.get_history("t")[0]):
        again.state["deep"].clear()
        again.metadata.metadata.clear()
    checkpointer.list_messages("t")[0].content.clear()
    assert checkpointer.get_state("t") == {"list": [1], "deep": {"a": [text(1)]}}
    assert checkpointer.get_checkpoint("t").metadata.metadata == {"k": [1]}
    assert checkpointer.get_message("t", "m").content == [{"type": "text", "text": "hi"}]


def test_the_cache_holds_copies_too(checkpointer):
    state = {"list": [1]}
    checkpointer.put_state_cache("t", state)
    state["list"].append(2)
    checkpointer.get_state_cache("t")["list"].append(3)
    assert checkpointer.get_state_cache("t") == {"list": [1]}


def test_a_save_after_a_change_in_place_is_seen(checkpointer):
    """The memo of the last save must notice a changed object."""
    state = {"m": [{"text": text(n)} for n in range(50)]}
    checkpointer.put_state("t", state)
    state["m"][25]["text"] = "changed"
    checkpointer.put_state("t", state)
    assert checkpointer.get_state("t") == state
    loaded = checkpointer.get_state("t")
    loaded["m"][10]["text"] = "changed too"
    checkpointer.put_state("t", loaded)
    assert checkpointer.get_state("t") == loaded != state


def test_a_checkpoint_tells_what_its_metadata_tells(checkpointer):
    config = {"thread_id": "t", "run_id": "r", "checkpoint_ns": "inner"}
    checkpointer.put_checkpoint(config, {"n": 1})
    made = checkpointer.put_checkpoint(config, {"n": 2}, node_name="plan", step=3)
    for each in (made, checkpointer.get_checkpoint(config)):
        names = (
            "thread_id",
            "parent_id",
            "node_name",
            "step",
            "run_id",
            "namespace",
            "sequence",
            "checkpoint_id",
            "config",
        )
        assert {name: getattr(each, name) for name in names} == {name: getattr(each.metadata, name) for name in names}
        assert (each.node_name, each.step, each.run_id, each.namespace, each.sequence) == ("plan", 3, "r", "inner", 2)


@pytest.mark.parametrize("method", ["list_checkpoints", "get_history"])
def test_a_cursor_that_names_no_checkpoint_is_refused(store, method):
    checkpointer = store.open()
    for number in range(10):
        checkpointer.put_checkpoint("t", {"n": number}, metadata={"odd": number % 2})
    checkpointer.put_checkpoint({"thread_id": "t", "checkpoint_ns": "inner"}, {"n": 0}, metadata={"odd": 0})
    page = checkpointer.list_checkpoints("t", limit=3)
    last = page[-1].checkpoint_id
    listed = partial(getattr(checkpointer, method), "t", limit=3)
    assert len(listed(before=last)) == 3
    oldest = checkpointer.list_checkpoints("t", limit=None)[-1]
    assert listed(before=oldest.checkpoint_id) == []
    assert listed(before=last, run_id="another") == []
    assert listed(before=last, where={"odd": "neither"}) == []
    checkpointer.delete_checkpoint(page[-1].config)
    for before in (
        last,
        "never there",
        checkpointer.list_checkpoints({"thread_id": "t", "checkpoint_ns": "inner"})[0].checkpoint_id,
    ):
        with pytest.raises(
            clew.ConfigError, match=f"before names checkpoint '{before}', which thread 't' does not have"
        ):
            listed(before=before)
    with pytest.raises(clew.ConfigError, match="may have been removed"):
        listed(before=last, where={"odd": 1})
    assert [each.sequence for each in listed(before=None)] == [10, 9, 7]

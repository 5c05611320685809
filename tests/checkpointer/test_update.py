"""`update_state`: correct changes at the cost of the change."""

from __future__ import annotations

import dataclasses
from typing import Any

import pydantic
import pytest

import clew
from tests.checkpointer.support import SpyStorage, at, run, text, written


def test_fields_are_set_appended_to_and_removed_in_one_checkpoint(store):
    checkpointer = store.open()
    base = checkpointer.put_checkpoint("t", {"a": 1, "gone": 2, "m": ["x"], "kept": text(1)})
    made = checkpointer.update_state("t", set={"a": (1,), "new": None}, append={"m": ["y", "z"]}, remove=["gone"])
    assert made.state is clew.NOT_LOADED
    assert not made.state
    assert made.metadata.parent_id == base.checkpoint_id
    expected = {"a": (1,), "m": ["x", "y", "z"], "kept": text(1), "new": None}
    assert checkpointer.get_state("t") == store.open().get_state("t") == expected
    assert checkpointer.get_state(at(base)) == base.state
    assert len(checkpointer.list_checkpoints("t")) == 2


def test_messages_come_with_the_change_in_one_commit(store):
    checkpointer = store.open(SpyStorage)
    said = [clew.Message(message_id=f"m{n}", role="user", content=f"word {n}") for n in range(2)]
    made = checkpointer.update_state({"thread_id": "t", "run_id": "r"}, append={"m": [1]}, messages=said)
    assert [len(commit.messages) for commit in checkpointer.storage.commits] == [2]
    assert [(each.message_id, each.run_id) for each in checkpointer.list_messages("t")] == [("m0", "r"), ("m1", "r")]
    checkpointer.update_state("t", append={"m": [2]}, messages=[clew.Message(message_id="m2", role="user")])
    assert [each.message_id for each in checkpointer.list_messages(checkpointer.fork(at(made)))] == ["m0", "m1"]


def test_messages_go_with_a_checkpoint_in_one_commit(store):
    checkpointer = store.open(SpyStorage)
    said = [clew.Message(message_id=f"m{n}", role="user", content=f"word {n}") for n in range(3)]
    base = checkpointer.put_checkpoint("t", {"m": [0, 1, 2]}, messages=said)
    checkpointer.put_checkpoint("t", {"m": [0]}, remove_messages=["m1", "m2", "absent"])
    assert len(checkpointer.storage.commits) == 2
    assert [each.message_id for each in checkpointer.list_messages("t")] == ["m0"]
    assert checkpointer.list_messages("t", search="word 2") == []
    with pytest.raises(clew.ConflictError):
        checkpointer.put_checkpoint(at(base), {}, remove_messages=["m0"], on_conflict="reject")
    assert [each.message_id for each in checkpointer.list_messages("t")] == ["m0"]


def test_the_async_method_does_the_same(store):
    async def go():
        checkpointer = store.open()
        await checkpointer.aupdate_state("t", append={"m": [1]})
        made = await checkpointer.aupdate_state("t", append={"m": iter([2, 3])}, set={"n": 1})
        assert await checkpointer.aget_state("t") == {"m": [1, 2, 3], "n": 1}
        assert (await checkpointer.aget_checkpoint("t")).metadata == made.metadata

    run(go())


def test_a_missing_list_is_begun_and_a_missing_field_removed_is_none(checkpointer):
    checkpointer.update_state("t", append={"m": [1]}, remove=["absent"])
    checkpointer.update_state("t", append={"other": []})
    assert checkpointer.get_state("t") == {"m": [1], "other": []}
    checkpointer.update_state("t", remove="m")
    assert checkpointer.get_state("t") == {"other": []}


def test_a_field_removed_and_appended_to_starts_anew(checkpointer):
    checkpointer.put_state("t", {"m": [text(n) for n in range(30)]})
    checkpointer.update_state("t", remove=["m"], append={"m": [1]})
    assert checkpointer.get_state("t") == {"m": [1]}
    checkpointer.update_state("t", set={"m": [5]}, append={"m": [6]})
    assert checkpointer.get_state("t") == {"m": [5, 6]}


@pytest.mark.parametrize("value", [None, 1, "text", (1,), {1}, {"a": 1}, b"x" * 1000, text(1, 10_000)])
def test_what_is_not_a_list_can_t_be_appended_to(checkpointer, value):
    checkpointer.put_state("t", {"m": value})
    with pytest.raises(clew.ConfigError, match="not a list"):
        checkpointer.update_state("t", append={"m": [1]})
    assert checkpointer.get_state("t") == {"m": value}
    assert len(checkpointer.list_checkpoints("t")) == 1


@pytest.mark.parametrize("state", [[1], "text", {1: 2}, (1, 2)])
def test_a_state_without_fields_can_t_be_updated(checkpointer, state):
    checkpointer.put_state("t", state)
    with pytest.raises(clew.ConfigError):
        checkpointer.update_state("t", set={"a": 1})
    assert checkpointer.get_state("t") == state


@dataclasses.dataclass
class Agent:
    messages: list[str]
    plan: str = ""


class Model(pydantic.BaseModel):
    messages: list[str]
    plan: str = ""


@pytest.mark.parametrize("kind", [Agent, Model])
@pytest.mark.parametrize("size", [1, 400])
def test_the_fields_of_a_class_are_changed_and_it_stays_that_class(store, kind, size):
    checkpointer = store.open(state_type=kind)
    messages = [text(n) for n in range(size)]
    checkpointer.put_state("t", kind(messages=messages))
    checkpointer.update_state("t", append={"messages": ["more"]}, set={"plan": "p"})
    loaded = store.open(state_type=kind).get_state("t")
    assert loaded == kind(messages=[*messages, "more"], plan="p")
    assert type(loaded) is kind


class Settings(pydantic.BaseModel):
    x: int = 1
    y: int = 2
    items: list[int] = []
    z: int = 4


Wide = pydantic.create_model("Wide", **{f"a_field_with_a_long_name_{n}": (int, n) for n in range(40)})  # type: ignore[call-overload]


@pytest.mark.parametrize("stranger", [False, True])
def test_a_field_of_a_pydantic_model_that_is_changed_counts_as_set(store, stranger):
    store.open(state_type=Settings).put_state("t", Settings(y=3))
    editor = store.open() if stranger else store.open(state_type=Settings)
    editor.update_state("t", set={"x": 5, "z": 6}, append={"items": [1]})
    loaded = store.open(state_type=Settings).get_state("t")
    assert loaded.model_dump(exclude_unset=True) == {"x": 5, "y": 3, "items": [1], "z": 6}
    editor.update_state("t", remove=["z", "items"])
    loaded = store.open(state_type=Settings).get_state("t")
    assert loaded.model_dump(exclude_unset=True) == {"x": 5, "y": 3}
    assert loaded == Settings(x=5, y=3)
    store.open(state_type=Settings).put_state("t", loaded)
    assert store.open(state_type=Settings).get_state("t").model_fields_set == {"x", "y"}


def test_so_does_one_of_very_many(store):
    store.open(state_type=Wide).put_state("t", Wide())
    name = "a_field_with_a_long_name_7"
    store.open(state_type=Wide).update_state("t", set={name: -7})
    assert store.open(state_type=Wide).get_state("t").model_dump(exclude_unset=True) == {name: -7}


@pytest.mark.parametrize("kind", [Agent, Model])
def test_a_field_that_the_class_does_not_have_is_refused(checkpointer, kind):
    checkpointer.registry.register(kind)
    checkpointer.put_state("t", kind(messages=[]))
    with pytest.raises(clew.ConfigError, match="no field 'plam'"):
        checkpointer.update_state("t", set={"plam": "p"})


def test_a_pydantic_model_that_allows_more_may_be_given_more(store):
    class Open(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")
        x: int = 1

    checkpointer = store.open(state_type=Open)
    checkpointer.put_state("t", Open())
    checkpointer.update_state("t", set={"more": 2})
    assert checkpointer.get_state("t").model_dump(exclude_unset=True) == {"more": 2}


def test_a_process_that_does_not_know_the_class_changes_its_fields_too(store):
    store.open(state_type=Agent).put_state("t", Agent([text(n) for n in range(50)]))
    store.open().update_state("t", append={"messages": ["more"]})
    assert store.open(state_type=Agent).get_state("t").messages[-1] == "more"


def test_a_state_with_two_thousand_keys_is_changed(store):
    checkpointer = store.open()
    state: dict[str, Any] = {f"key{n}": text(n, 50) for n in range(2000)}
    checkpointer.put_state("t", state)
    for each in (checkpointer, store.open()):
        each.update_state("t", set={"key7": "changed", "new": 1}, remove=["key1999"], append={"list": [1]})
        state = {**state, "key7": "changed", "new": 1, "list": [*state.get("list", []), 1]}
        state.pop("key1999", None)
        assert each.get_state("t") == state
    assert store.open().get_state("t") == state


def test_a_given_checkpoint_is_changed_and_becomes_the_head(checkpointer):
    old = checkpointer.put_checkpoint("t", {"m": ["old"]})
    checkpointer.put_checkpoint("t", {"m": ["new"]})
    made = checkpointer.update_state(at(old), append={"m": ["more"]})
    assert made.metadata.parent_id == old.checkpoint_id
    assert checkpointer.get_state("t") == {"m": ["old", "more"]}
    with pytest.raises(clew.ConflictError, match="does not exist"):
        checkpointer.update_state({"thread_id": "t", "checkpoint_id": "nope"}, set={"a": 1})


def test_a_change_follows_the_head_that_another_moved(store):
    mine, other = store.open(), store.open()
    mine.put_state("t", {"m": [text(n) for n in range(20)]})
    other.update_state("t", append={"m": ["other"]})
    mine.update_state("t", append={"m": ["mine"]})
    other.put_state("t", {"m": ["all new"]})
    mine.update_state("t", append={"m": ["mine"]})
    assert other.get_state("t") == {"m": ["all new", "mine"]}


def test_many_changes_in_a_row_load_back_each(store):
    checkpointer = store.open()
    states: list[Any] = []
    state: dict[str, Any] = {"m": [], "n": 0}
    checkpointer.put_state("t", state)
    for number in range(120):
        new = [{"role": "user", "text": text(number, 30 + number * 7 % 900)}]
        checkpointer.update_state("t", set={"n": number}, append={"m": new})
        state = {"m": [*state["m"], *new], "n": number}
        states.append(state)
    cold = store.open()
    assert [each.state for each in cold.get_history("t", limit=120)] == states[::-1]
    cold.compact()
    assert store.open().get_state("t") == state
    checkpointer.put_state("t", {**state, "n": -1})
    assert cold.get_state("t") == {**state, "n": -1}


# The cost


@pytest.mark.parametrize("cold", [False, True], ids=["hot", "cold"])
def test_the_cost_of_a_change_does_not_grow_with_the_state(store, cold):
    costs, reads = {}, {}
    for size in (10, 10_000):
        first = store.open(SpyStorage)
        messages = [{"role": "user", "content": text((size, n), 100)} for n in range(size)]
        first.put_state(f"t{size}", {"messages": messages, "n": 0})
        checkpointer = store.open(SpyStorage) if cold else first
        spy = checkpointer.storage
        checkpointer.storage.commits.clear()
        spy.reads = 0
        checkpointer.update_state(f"t{size}", append={"messages": [{"role": "user", "content": text("new", 100)}]})
        (commit,) = checkpointer.storage.commits
        costs[size], reads[size] = written(commit), spy.reads
        assert len(store.open().get_state(f"t{size}")["messages"]) == size + 1
    assert costs[10_000] <= costs[10] + 600, costs
    assert costs[10_000] < 1200
    assert reads[10_000] == reads[10] <= 3


def test_ten_changes_of_a_large_state_write_only_the_changes(store):
    checkpointer = store.open(SpyStorage)
    checkpointer.put_state("t", {"messages": [text(n, 200) for n in range(5000)], "files": {"a": text("a", 50_000)}})
    checkpointer.storage.commits.clear()
    for number in range(10):
        checkpointer.update_state("t", append={"messages": [text(("new", number), 200)]}, set={"n": number})
    total = sum(map(written, checkpointer.storage.commits))
    assert total < 10 * 900, total


@pytest.mark.parametrize(
    ("before", "after"),
    [({"log": ["x" * 400] * 2}, {"log": ["x" * 400]}), ({"log": "none yet"}, {"log": []})],
    ids=["too large", "no list"],
)
def test_a_change_is_judged_by_the_head_and_not_by_what_this_process_knows_of_it(store, before, after):
    mine, theirs = store.open(max_state_bytes=1000), store.open(max_state_bytes=1000)
    mine.put_state("t", before)
    theirs.put_state("t", after)
    mine.update_state("t", append={"log": ["y" * 400]})
    assert mine.get_state("t") == {"log": [*after["log"], "y" * 400]}
    theirs.put_state("t", before)
    with pytest.raises((clew.StateTooLargeError, clew.ConfigError)):
        mine.update_state("t", append={"log": ["y" * 400]})
    assert mine.get_state("t") == before

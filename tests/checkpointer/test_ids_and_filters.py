"""Ids given by the caller, first checkpoints, filters by metadata and namespace, runs."""

from __future__ import annotations

import pytest

import clew
from tests.checkpointer.support import at, text


def test_the_caller_may_name_a_checkpoint(checkpointer):
    made = checkpointer.put_checkpoint("t", {"n": 1}, new_id="mine")
    assert made.checkpoint_id == "mine"
    assert checkpointer.get_state({"thread_id": "t", "checkpoint_id": "mine"}) == {"n": 1}
    assert checkpointer.update_state("t", set={"n": 2}, new_id="next").metadata.parent_id == "mine"


def test_an_id_that_is_there_is_replaced_in_its_place(checkpointer):
    checkpointer.put_checkpoint("t", {"n": 1}, new_id="a")
    second = checkpointer.put_checkpoint("t", {"n": 2}, new_id="b")
    again = checkpointer.put_checkpoint(
        at(second), {"n": "one"}, new_id="a", metadata={"again": True}, on_conflict="reject"
    )
    assert (again.metadata.sequence, again.metadata.parent_id) == (1, None)
    assert checkpointer.get_state("t") == {"n": 2}, "the head is the newest, not the last written"
    assert checkpointer.get_state({"thread_id": "t", "checkpoint_id": "a"}) == {"n": "one"}
    assert [each.metadata for each in checkpointer.list_checkpoints("t")] == [{}, {"again": True}]
    thrice = checkpointer.update_state(at(second), set={"n": "two"}, new_id="b")
    assert thrice.metadata.sequence == second.metadata.sequence
    assert checkpointer.get_state("t") == {"n": "two"}


def test_the_same_id_in_another_namespace_is_another_checkpoint(checkpointer):
    checkpointer.put_checkpoint("t", {"n": 1}, new_id="a")
    checkpointer.put_checkpoint({"thread_id": "t", "checkpoint_ns": "child"}, {"n": 2}, new_id="a")
    assert checkpointer.size("t") == 2


def test_a_beginning_has_no_parent_and_may_be_the_only_one(checkpointer):
    checkpointer.put_checkpoint("t", {"n": 1}, parent=None, on_conflict="reject")
    with pytest.raises(clew.ConflictError):
        checkpointer.put_checkpoint("t", {"n": 2}, parent=None, on_conflict="reject")
    other = checkpointer.put_checkpoint("t", {"n": 3}, parent=None)
    assert other.metadata.parent_id is None
    assert checkpointer.size("t") == 2


def test_a_change_takes_what_a_checkpoint_takes(checkpointer):
    first = checkpointer.put_checkpoint("t", {"said": []})
    made = checkpointer.update_state(
        {**at(first), "run_id": "r"},
        append={"said": ["hello"]},
        messages=[clew.Message(role="user", content="hello")],
        node_name="node",
        step=3,
        metadata={"why": "because"},
        on_conflict="reject",
    )
    found = checkpointer.get_checkpoint("t").metadata
    assert (found.checkpoint_id, found.node_name, found.step) == (made.checkpoint_id, "node", 3)
    assert (found.metadata, found.run_id) == ({"why": "because"}, "r")
    assert [each.content for each in checkpointer.list_messages("t")] == ["hello"]
    with pytest.raises(clew.ConflictError):
        checkpointer.update_state(at(first), set={"said": []}, on_conflict="reject")
    checkpointer.update_state(at(first), set={"said": ["branch"]})
    assert checkpointer.get_state("t") == {"said": ["branch"]}


@pytest.fixture
def told(checkpointer):
    """Thirty checkpoints in two namespaces, distinguished by metadata."""
    for number in range(30):
        config = {"thread_id": "t", "checkpoint_ns": "" if number % 3 else "child", "run_id": f"r{number % 2}"}
        metadata = {"even": number % 2 == 0, "number": number, "deep": {"list": [number % 5]}}
        checkpointer.put_checkpoint(config, {"n": number}, metadata=metadata)
    return checkpointer


def numbers(infos):
    return [each.metadata["number"] for each in infos]


def test_where_leaves_those_whose_metadata_has_these_values(told):
    assert numbers(told.list_checkpoints("t", where={"even": True}, limit=3)) == [28, 26, 22]
    assert numbers(told.list_checkpoints("t", where={"deep": {"list": [4]}}, limit=None)) == [29, 19, 14, 4]
    assert told.list_checkpoints("t", where={"number": 99}) == []
    assert len(told.list_checkpoints("t", where={"absent": None}, limit=None)) == 20
    assert numbers(told.list_checkpoints("t", where={"even": True}, run_id="r1")) == []
    hostile = "' OR '1'='1"
    assert told.list_checkpoints("t", where={hostile: hostile}) == []


def test_as_many_come_back_as_were_asked_for_however_few_match(checkpointer):
    for number in range(250):
        checkpointer.put_checkpoint("t", {"n": number}, metadata={"number": number, "rare": number % 50 == 0})
    assert numbers(checkpointer.list_checkpoints("t", where={"rare": True}, limit=4)) == [200, 150, 100, 50]
    oldest = checkpointer.list_checkpoints("t", where={"rare": True}, limit=4)[-1]
    assert numbers(checkpointer.list_checkpoints("t", where={"rare": True}, before=oldest.checkpoint_id)) == [0]


def test_every_namespace_can_be_listed_at_once_newest_first(told):
    assert numbers(told.list_checkpoints("t", namespaces="all", limit=5)) == [29, 28, 27, 26, 25]
    spaces = {each.namespace for each in told.list_checkpoints("t", namespaces="all", limit=None)}
    assert spaces == {"", "child"}


def test_history_takes_the_same_filters(told):
    found = told.get_history("t", 2, where={"even": True}, namespaces="all", run_id="r0")
    assert [each.state for each in found] == [{"n": 28}, {"n": 26}]
    older = told.get_history("t", 2, before=found[-1].checkpoint_id, where={"even": True}, namespaces="all")
    assert [each.state for each in older] == [{"n": 24}, {"n": 22}]


@pytest.mark.parametrize("wrong", [{"where": ["a"]}, {"namespaces": "some"}, {"where": "x"}])
def test_wrong_filters_are_refused(checkpointer, wrong):
    with pytest.raises(clew.ConfigError):
        checkpointer.list_checkpoints("t", **wrong)


def test_runs_are_deleted_in_every_thread_and_namespace(told):
    told.put_checkpoint({"thread_id": "other", "user_id": "alice", "run_id": "r1"}, {"n": 1})
    told.put_checkpoint({"thread_id": "other", "user_id": "alice", "run_id": "kept"}, {"n": 2})
    assert told.delete_runs([]) == 0
    assert told.delete_runs(["nobody's"]) == 0
    assert told.delete_runs(["r1", "nobody's"]) == 16
    assert told.size("t") == 15
    assert told.get_state({"thread_id": "other", "user_id": "alice"}) == {"n": 2}
    assert told.delete_runs(["r0"], config="t") == 15
    assert told.verify().ok
    with pytest.raises(clew.ConfigError):
        told.delete_runs("r1")


def test_a_cleanup_keeps_what_it_is_told_to(checkpointer):
    made = [checkpointer.put_checkpoint("t", {"n": number}) for number in range(5)]
    keep = [("", made[1].checkpoint_id)]
    report = checkpointer.cleanup(clew.RetentionPolicy(max_history=1), config="t", keep=keep)
    assert report.checkpoints == 3
    assert [each.state for each in checkpointer.get_history("t")] == [{"n": 4}, {"n": 1}]


def test_a_checkpoint_that_is_known_is_not_loaded_again(store):
    checkpointer = store.open()
    made = checkpointer.put_checkpoint("t", {"n": 1, "m": [text(n) for n in range(20)]})
    grown = checkpointer.update_state("t", set={"n": 2})
    other = store.open()
    for reader in (checkpointer, other):
        for known in (made, reader.get_checkpoint(at(made))):
            again = reader.get_checkpoint(at(made), known=known)
            assert again.state is clew.NOT_LOADED
            assert again.metadata == made.metadata
            assert again.version == made.version
        # The head is another checkpoint; one without a version never counts as known.
        assert reader.get_checkpoint("t", known=made).state["n"] == 2
        assert reader.get_checkpoint("t", known=reader.get_history("t", 1)[0]).state["n"] == 2
        assert reader.get_checkpoint("t", known=grown).state is clew.NOT_LOADED
    assert other.get_checkpoint("absent", known=made) is None


def test_a_version_is_of_one_state_in_one_life_of_a_thread(store):
    checkpointer, other = store.open(), store.open()
    made = checkpointer.put_checkpoint("t", {"n": 1}, new_id="same")
    other.put_checkpoint("t", {"n": 2}, new_id="same")
    assert checkpointer.get_checkpoint("t", known=made).state == {"n": 2}
    other.delete_thread("t")
    assert checkpointer.get_checkpoint("t", known=made) is None
    checkpointer.put_checkpoint("t", {"n": 1}, new_id="same")
    assert checkpointer.get_checkpoint("t", known=made).state == {"n": 1}

"""Attachments of checkpoints."""

from __future__ import annotations

import pytest

import clew
from tests.checkpointer.support import at


def test_what_is_attached_comes_back_by_key_in_the_order_of_keys(checkpointer):
    made = checkpointer.put_checkpoint("t", {"n": 1})
    checkpointer.put_attachments(at(made), {"b": {"deep": (1, 2)}, "a": b"bytes"})
    checkpointer.put_attachments(at(made), {"c": None})
    found = checkpointer.list_attachments(at(made))
    assert list(found.items()) == [("a", b"bytes"), ("b", {"deep": (1, 2)}), ("c", None)]


def test_the_same_key_is_replaced_or_with_keep_left_alone(checkpointer):
    made = checkpointer.put_checkpoint("t", {"n": 1})
    checkpointer.put_attachments(at(made), {"a": 1})
    checkpointer.put_attachments(at(made), {"a": 2})
    assert checkpointer.list_attachments(at(made)) == {"a": 2}
    checkpointer.put_attachments(at(made), {"a": 3, "b": 3}, keep=True)
    assert checkpointer.list_attachments(at(made)) == {"a": 2, "b": 3}


def test_without_an_id_the_head_is_asked(checkpointer):
    assert checkpointer.list_attachments("t") == {}
    first = checkpointer.put_checkpoint("t", {"n": 1})
    checkpointer.put_attachments(at(first), {"a": 1})
    assert checkpointer.list_attachments("t") == {"a": 1}
    checkpointer.put_state("t", {"n": 2})
    assert checkpointer.list_attachments("t") == {}


def test_each_namespace_has_its_own(checkpointer):
    for space in ("", "child"):
        made = checkpointer.put_checkpoint({"thread_id": "t", "checkpoint_ns": space}, {}, new_id="same")
        checkpointer.put_attachments(at(made), {"a": space})
    assert checkpointer.list_attachments({"thread_id": "t", "checkpoint_id": "same", "checkpoint_ns": "child"}) == {
        "a": "child"
    }


def test_they_may_come_before_their_checkpoint(checkpointer):
    checkpointer.put_attachments({"thread_id": "t", "checkpoint_id": "later"}, {"a": 1})
    checkpointer.put_checkpoint("t", {"n": 1}, new_id="later")
    assert checkpointer.list_attachments("t") == {"a": 1}


def test_they_go_with_their_checkpoint_in_forks_copies_and_deletions(checkpointer):
    made = checkpointer.put_checkpoint("t", {"n": 1})
    checkpointer.put_attachments(at(made), {"a": 1})
    assert checkpointer.list_attachments(checkpointer.fork("t")) == {"a": 1}
    assert checkpointer.list_attachments(checkpointer.copy_thread("t", "copy")) == {"a": 1}
    checkpointer.delete_checkpoint(at(made))
    assert checkpointer.list_attachments(at(made)) == {}


def test_another_user_neither_reads_nor_writes_them(checkpointer):
    mine = {"thread_id": "t", "user_id": "alice"}
    made = checkpointer.put_checkpoint(mine, {"n": 1})
    checkpointer.put_attachments(at(made, user_id="alice"), {"a": 1})
    assert checkpointer.list_attachments(at(made, user_id="bob")) == {}
    with pytest.raises(clew.PermissionDeniedError):
        checkpointer.put_attachments(at(made, user_id="bob"), {"a": 2})


def test_a_late_one_does_not_revive_a_deleted_thread(checkpointer):
    made = checkpointer.put_checkpoint("t", {"n": 1})
    checkpointer.delete_thread({"thread_id": "t", "user_id": clew.ANY_USER})
    with pytest.raises(clew.ThreadDeletedError):
        checkpointer.put_attachments(at(made), {"a": 1})
    assert checkpointer.get_thread("t") is None


@pytest.mark.parametrize("wrong", [["a"], {1: "x"}, {"": "x"}, "text"])
def test_wrong_input_is_refused(checkpointer, wrong):
    with pytest.raises(clew.ConfigError):
        checkpointer.put_attachments({"thread_id": "t", "checkpoint_id": "x"}, wrong)
    with pytest.raises(clew.ConfigError, match="checkpoint_id"):
        checkpointer.put_attachments("t", {"a": 1})
    with pytest.raises(clew.UnsupportedTypeError, match=r"attachments\['a'\]"):
        checkpointer.put_attachments({"thread_id": "t", "checkpoint_id": "x"}, {"a": object()})
    assert checkpointer.get_thread("t") is None


@pytest.mark.parametrize("flag", ["keep", "touch"])
@pytest.mark.parametrize("value", [[10**5000], 1, None, "yes"])
def test_flags_are_true_or_false(checkpointer, flag, value):
    made = checkpointer.put_checkpoint("t", {})
    with pytest.raises(clew.ConfigError, match=f"{flag} must be True or False"):
        checkpointer.put_attachments(made.config, {"a": 1}, **{flag: value})

"""Owners: only its owner can use a thread."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import clew
from clew.model.config import OwnConfig
from tests.checkpointer.support import text

ALICE = {"thread_id": "t", "user_id": "alice"}
STRANGERS = [
    pytest.param({"thread_id": "t", "user_id": "bob"}, id="another user"),
    pytest.param({"thread_id": "t"}, id="no user"),
    pytest.param("t", id="a plain string"),
    pytest.param({"thread_id": "t", "user_id": None}, id="none"),
    pytest.param({"thread_id": "t", "user_id": "Alice"}, id="another case"),
]


@pytest.fixture
def alices(checkpointer):
    """Alice's thread, read and written by this very checkpointer, whose memory must not leak."""
    checkpointer.put_checkpoint(
        ALICE, {"m": [text(n) for n in range(20)]}, messages=[clew.Message(message_id="m1", role="user", content="hi")]
    )
    checkpointer.put_thread(ALICE, clew.ThreadInfo(thread_id="t", thread_name="mine"))
    checkpointer.put_state_cache(ALICE, {"cached": True})
    checkpointer.get_state(ALICE)
    return checkpointer


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_strangers_reads_find_nothing(alices, stranger):
    head = alices.get_checkpoint(ALICE)
    named = {
        **(stranger if isinstance(stranger, dict) else {"thread_id": stranger}),
        "checkpoint_id": head.checkpoint_id,
    }
    for config in (stranger, named):
        assert alices.get_state(config) is None
        assert alices.get_checkpoint(config) is None
        assert alices.exists(config) is False
    assert alices.list_checkpoints(stranger) == []
    assert alices.get_history(stranger) == []
    assert alices.list_messages(stranger) == []
    assert alices.list_messages(stranger, search="hi") == []
    assert alices.search("hi", user_id=stranger.get("user_id") if isinstance(stranger, dict) else None) == []
    assert alices.get_message(stranger, "m1") is None
    assert alices.get_thread(stranger) is None
    assert alices.get_state_cache(stranger) is None
    assert alices.size(stranger) == 0
    user_id = stranger.get("user_id") if isinstance(stranger, dict) else None
    assert alices.list_threads({"user_id": user_id}) == []
    assert alices.stats(user_id).total_sessions == 0
    assert alices.verify(stranger).threads == 0


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_strangers_writes_raise_and_change_nothing(alices, stranger):
    head = alices.get_checkpoint(ALICE)
    user = {"user_id": stranger.get("user_id")} if isinstance(stranger, dict) else {}
    named = {"thread_id": "t", "checkpoint_id": head.checkpoint_id, **user}
    spoofed = clew.ThreadInfo(thread_id="t", user_id="alice", thread_name="stolen")
    for write in (
        lambda: alices.put_state(stranger, {"m": []}),
        lambda: alices.put_checkpoint(named, {"m": []}),
        lambda: alices.update_state(stranger, append={"m": ["x"]}),
        lambda: alices.clear_state(stranger),
        lambda: alices.delete_checkpoint(named),
        lambda: alices.put_messages(stranger, [clew.Message(message_id="m1", role="user", content="changed")]),
        lambda: alices.delete_message(stranger, "m1"),
        lambda: alices.put_thread(stranger, spoofed),
        lambda: alices.put_thread(stranger, clew.ThreadInfo(thread_id="t", thread_name="stolen")),
        lambda: alices.delete_thread(stranger),
        lambda: alices.lease(stranger).__enter__(),
    ):
        with pytest.raises(clew.PermissionDeniedError) as caught:
            write()
        assert caught.value.thread_id == "t"
    assert alices.get_checkpoint(ALICE) == head
    assert [each.content for each in alices.list_messages(ALICE)] == ["hi"]
    assert (alices.get_thread(ALICE).thread_name, alices.get_thread(ALICE).user_id) == ("mine", "alice")
    assert alices.get_state_cache(ALICE) == {"cached": True}


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_stranger_is_told_the_owner_rule_and_not_that_the_thread_is_missing(alices, stranger):
    head = alices.get_checkpoint(ALICE).checkpoint_id
    user = stranger.get("user_id") if isinstance(stranger, dict) else None
    named = {"thread_id": "t", "user_id": user, "checkpoint_id": head}
    with pytest.raises(clew.PermissionDeniedError) as by_a_write:
        alices.put_state(stranger, {"m": []})
    for call in (
        lambda: alices.update_state(named, append={"m": ["x"]}),
        lambda: alices.rewind(stranger),
        lambda: alices.rewind(stranger, turns=2, idempotency_key="k"),
        lambda: alices.rewind(named),
        lambda: alices.rewind(stranger, to=head),
        lambda: alices.rewind(named, to=head, on_conflict="reject"),
        lambda: alices.fork(stranger),
        lambda: alices.fork(stranger, "copy"),
        lambda: alices.fork(named, "copy"),
        lambda: alices.copy_thread(stranger, "copy"),
        lambda: alices.repair(stranger),
        lambda: alices.diff(stranger, stranger),
        lambda: alices.diff(named, stranger),
        lambda: alices.list_checkpoints(stranger, before=head),
        lambda: alices.get_history(stranger, before=head),
        lambda: alices.list_messages(stranger, before="m1"),
        lambda: alices.turn(named).__enter__(),
    ):
        with pytest.raises(clew.PermissionDeniedError) as caught:
            call()
        assert (str(caught.value), caught.value.facts) == (str(by_a_write.value), by_a_write.value.facts)
    assert [each.thread_id for each in alices.list_threads({"user_id": clew.ANY_USER})] == ["t"]


def test_what_is_missing_is_still_called_missing(alices):
    for config in ("nothing", {"thread_id": "nothing", "user_id": "bob"}, ALICE):
        with pytest.raises(clew.ConflictError, match="does not exist"):
            alices.rewind(config, to="no such")
    with pytest.raises(clew.ConflictError, match="does not exist"):
        alices.fork("nothing", "copy")
    with pytest.raises(clew.ConflictError, match="does not exist"):
        alices.copy_thread("nothing", "copy")
    with pytest.raises(clew.ConflictError, match="exists"):
        alices.fork({"thread_id": "t", "user_id": clew.ANY_USER}, "t2") and alices.fork(ALICE, "t2")
    with pytest.raises(clew.ConfigError, match="has 0 user messages"):
        alices.rewind("nothing")
    with pytest.raises(clew.ConfigError, match="neither a loadable checkpoint"):
        alices.repair("nothing")


def test_a_stranger_can_neither_see_nor_displace_what_the_owner_cached(alices):
    bob = {"thread_id": "t", "user_id": "bob"}
    alices.put_state_cache(bob, {"cached": "by bob"})
    assert alices.get_state_cache(ALICE) == {"cached": True}
    alices.put_state(ALICE, {"m": []})
    assert alices.get_state_cache(ALICE) == {"m": []}


def test_any_user_acts_for_everybody(alices):
    everybody = {"thread_id": "t", "user_id": clew.ANY_USER}
    assert alices.get_state(everybody) == alices.get_state(ALICE)
    alices.update_state(everybody, append={"m": ["x"]})
    assert alices.get_state(ALICE)["m"][-1] == "x"
    assert [each.thread_id for each in alices.list_threads({"user_id": clew.ANY_USER})] == ["t"]
    assert alices.stats().total_sessions == 1
    alices.delete_thread(everybody)
    assert alices.get_state(ALICE) is None


def test_an_owner_describes_a_thread_without_repeating_whose_it_is(checkpointer):
    checkpointer.put_thread(ALICE, clew.ThreadInfo(thread_id="t", thread_name="first"))
    checkpointer.put_thread(ALICE, {"thread_name": "second", "tags": ["x"]})
    found = checkpointer.get_thread(ALICE)
    assert (found.thread_name, found.tags, found.user_id) == ("second", ("x",), "alice")


def test_describing_a_thread_for_everybody_does_not_take_it_from_its_owner(alices):
    everybody = {"thread_id": "t", "user_id": clew.ANY_USER}
    alices.put_thread(everybody, clew.ThreadInfo(thread_id="t", thread_name="renamed"))
    assert alices.get_thread(ALICE).thread_name == "renamed"
    assert alices.get_state("t") is None


def test_only_any_user_gives_a_thread_to_another(alices):
    gift = clew.ThreadInfo(thread_id="t", user_id="bob")
    with pytest.raises(clew.PermissionDeniedError):
        alices.put_thread(ALICE, gift)
    with pytest.raises(clew.PermissionDeniedError):
        alices.put_thread({"thread_id": "t", "user_id": "bob"}, gift)
    alices.put_thread({"thread_id": "t", "user_id": clew.ANY_USER}, gift)
    assert alices.get_state(ALICE) is None
    assert alices.get_state({"thread_id": "t", "user_id": "bob"}) is not None


def test_an_unowned_thread_answers_to_everybody_and_cannot_be_taken(checkpointer):
    checkpointer.put_state("t", {"n": 1})
    bob = {"thread_id": "t", "user_id": "bob"}
    assert checkpointer.get_state(bob) == {"n": 1}
    checkpointer.update_state(bob, set={"n": 2})
    checkpointer.put_thread(bob, clew.ThreadInfo(thread_id="t", thread_name="ours"))
    with pytest.raises(clew.PermissionDeniedError):
        checkpointer.put_thread(bob, clew.ThreadInfo(thread_id="t", user_id="bob"))
    assert checkpointer.get_state("t") == {"n": 2}
    assert checkpointer.get_thread("t").user_id is None


def test_a_number_stands_for_its_digits_however_long(checkpointer):
    huge = 2**70
    checkpointer.put_state({"thread_id": "t", "user_id": huge}, 1)
    assert checkpointer.get_state({"thread_id": "t", "user_id": str(huge)}) == 1
    assert checkpointer.get_state({"thread_id": "t", "user_id": huge + 1}) is None
    assert checkpointer.get_thread({"thread_id": "t", "user_id": huge}).user_id == str(huge)


def test_what_a_deleted_user_left_is_not_the_next_users(checkpointer):
    checkpointer.put_checkpoint(ALICE, {"secret": 1}, messages=[clew.Message(role="user", content="secret")])
    checkpointer.put_state_cache(ALICE, {"secret": 1})
    checkpointer.delete_thread(ALICE)
    bob = {"thread_id": "t", "user_id": "bob"}
    checkpointer.put_state(bob, {"n": 1})
    assert checkpointer.get_history(bob)[0].state == {"n": 1}
    assert len(checkpointer.get_history(bob)) == 1
    assert checkpointer.list_messages(bob) == []
    assert checkpointer.get_state_cache(bob) == {"n": 1}


def test_a_fork_belongs_to_whom_forked_it(checkpointer):
    checkpointer.put_state(ALICE, {"n": 1})
    forked = checkpointer.fork(ALICE)
    assert forked["user_id"] == "alice"
    assert checkpointer.get_state(forked) == {"n": 1}
    assert checkpointer.get_state(forked["thread_id"]) is None


def test_no_fields_of_the_description_can_be_spoofed(checkpointer):
    checkpointer.put_checkpoint(ALICE, {"n": 1})
    before = checkpointer.get_thread(ALICE)
    spoofed = clew.ThreadInfo(
        thread_id="t", created_at=datetime(1999, 1, 1, tzinfo=UTC), checkpoint_count=99, message_count=99, size=99
    )
    checkpointer.put_thread(ALICE, spoofed)
    after = checkpointer.get_thread(ALICE)
    assert (after.created_at, after.checkpoint_count, after.message_count) == (before.created_at, 1, 0)
    with pytest.raises(clew.ConfigError):
        checkpointer.put_thread(ALICE, clew.ThreadInfo(thread_id="another"))


def test_a_misspelled_user_id_is_refused_with_the_key_that_was_meant(checkpointer):
    for call in (
        lambda config: checkpointer.put_state(config, {"pin": 1}),
        lambda config: checkpointer.get_state(config),
        lambda config: checkpointer.list_threads(config),
        lambda config: checkpointer.lease(config),
    ):
        with pytest.raises(clew.ConfigError, match=r"unknown key 'userid'; did you mean 'user_id'\?"):
            call({"thread_id": "x", "userid": "ana"})
    assert checkpointer.list_threads({"user_id": clew.ANY_USER}) == []


@pytest.mark.parametrize(
    "way", ["put_state", "fork", "copy_thread", "put_thread", "list_threads", "erase_user", "watch"]
)
def test_no_id_that_a_caller_passes_reaches_an_adapters_own_thread(way, checkpointer):
    own = OwnConfig("part", "name")
    thread_id, user_id = own["thread_id"], own["user_id"]
    checkpointer.put_messages(own, [{"role": "user", "content": "hello"}])
    checkpointer.put_state("t", {"n": 1})
    calls = {
        "put_state": [
            lambda: checkpointer.put_state(thread_id, {}),
            lambda: checkpointer.put_state(dict(own), {}),
            lambda: checkpointer.put_state({"thread_id": thread_id, "user_id": "ann"}, {}),
            lambda: checkpointer.put_state({"thread_id": "t", "user_id": user_id}, {}),
        ],
        "fork": [lambda: checkpointer.fork("t", thread_id)],
        "copy_thread": [lambda: checkpointer.copy_thread("t", thread_id)],
        "put_thread": [lambda: checkpointer.put_thread({"thread_id": "t", "user_id": clew.ANY_USER}, user_id=user_id)],
        "list_threads": [lambda: checkpointer.list_threads({"user_id": user_id})],
        "erase_user": [lambda: checkpointer.erase_user(user_id)],
        "watch": [lambda: checkpointer.watch({"user_id": user_id}), lambda: checkpointer.watch(dict(own))],
    }
    for call in calls[way]:
        with pytest.raises(clew.ConfigError, match="reserved"):
            call()
    assert [each.content for each in checkpointer.list_messages(own)] == ["hello"]
    operator = {"thread_id": thread_id, "user_id": clew.ANY_USER}
    assert len(checkpointer.list_messages(operator)) == 1
    checkpointer.delete_thread(operator)
    assert checkpointer.list_messages(own) == []

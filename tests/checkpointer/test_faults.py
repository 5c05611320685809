"""Every call is retried after a transient error, and a lost answer duplicates nothing."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import clew
from clew.checkpointer import retries
from clew.storage.wrapper import Kind
from clew.testing import Fault, FaultyStorage, at_random, script
from clew.testing.faults import FaultPoint
from tests.checkpointer.support import at, run, text


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    """Tests don't sleep."""

    async def pause(seconds):
        pass

    monkeypatch.setattr(retries, "pause", pause)


CALLS = {
    "put_state": lambda c: c.aput_state("t", {"n": 1}),
    "get_state": lambda c: c.aget_state("t"),
    "clear_state": lambda c: c.aclear_state("t"),
    "update_state": lambda c: c.aupdate_state("t", set={"n": 1}),
    "put_checkpoint": lambda c: c.aput_checkpoint("t", {"n": 1}, messages=[clew.Message(role="user")]),
    "list_checkpoints": lambda c: c.alist_checkpoints("t"),
    "get_history": lambda c: c.aget_history("t"),
    "exists": lambda c: c.aexists("t"),
    "fork": lambda c: c.afork("t", "forked"),
    "diff": lambda c: c.adiff("t", "t"),
    "put_state_cache": lambda c: c.aput_state_cache("t", 1),
    "get_state_cache": lambda c: c.aget_state_cache("t"),
    "warm": lambda c: c.awarm(None),
    "put_messages": lambda c: c.aput_messages("t", [clew.Message(role="user")]),
    "get_message": lambda c: c.aget_message("t", "m"),
    "list_messages": lambda c: c.alist_messages("t"),
    "delete_message": lambda c: c.adelete_message("t", "m"),
    "put_thread": lambda c: c.aput_thread("t", {"thread_name": "n"}),
    "get_thread": lambda c: c.aget_thread("t"),
    "list_threads": lambda c: c.alist_threads({}),
    "delete_thread": lambda c: c.adelete_thread("t"),
    "stats": lambda c: c.astats(),
    "size": lambda c: c.asize("t"),
    "cleanup": lambda c: c.acleanup(clew.RetentionPolicy(max_history=1)),
    "compact": lambda c: c.acompact(),
    "repair": lambda c: c.arepair("t"),
    "verify": lambda c: c.averify(),
    "erase_user": lambda c: c.aerase_user("alice"),
    "clear_all": lambda c: c.aclear_all(),
}


def prepare(checkpointer):
    checkpointer.get_state("t")
    for number in range(3):
        checkpointer.put_checkpoint("t", {"n": number, "m": [text(each) for each in range(number + 1)]})
    checkpointer.put_messages("t", [clew.Message(message_id="m", role="user", content="hi")])


@pytest.mark.parametrize("call", CALLS)
def test_every_call_is_tried_again_when_the_storage_fails_in_passing(store, call):
    steady = store.open()
    prepare(steady)
    faults: tuple[FaultPoint, ...] = ("before apply", "after apply", "before read")
    for sync, fault in itertools.product((False, True), faults):
        kind: Kind = "read" if "read" in fault else "apply"
        plan = script(itertools.cycle([fault, fault, None]), kinds=[kind])
        checkpointer = store.open(lambda storage, plan=plan: FaultyStorage(storage, plan))
        if sync:
            CALLS[call](_Sync(checkpointer))
        else:
            run(CALLS[call](checkpointer))
        steady.delete_thread("forked")
        prepare(steady)


class _Sync:
    """Calls the sync twin with the arguments that `CALLS` has for the async method."""

    def __init__(self, checkpointer):
        self._checkpointer = checkpointer

    def __getattr__(self, name):
        return getattr(self._checkpointer, name[1:])


@pytest.mark.parametrize("point", ["before apply", "after apply"])
def test_a_lost_answer_doubles_nothing(store, point):
    """Each commit fails twice; with `after apply`, it was applied both times."""
    checkpointer = store.open(lambda storage: FaultyStorage(storage, script(itertools.cycle([point, point, None]))))
    first = checkpointer.put_checkpoint("t", {"m": [text(0)]}, messages=[clew.Message(message_id="a", role="user")])
    for number in range(1, 6):
        checkpointer.update_state("t", append={"m": [text(number)]})
    checkpointer.put_messages("t", [clew.Message(role="user"), clew.Message(role="user")])
    last = checkpointer.put_checkpoint("t", {"m": [text(number) for number in range(7)]})
    forked = checkpointer.fork("t")
    branch = checkpointer.put_checkpoint(at(first), {"m": ["branch"]})
    assert len(checkpointer.storage.faults) >= 20
    cold = store.open()
    history = cold.get_history("t", limit=None)
    assert [each.state["m"] for each in history] == [
        ["branch"],
        *[[text(number) for number in range(count)] for count in range(7, 0, -1)],
    ]
    assert [each.metadata.parent_id for each in history] == [
        first.checkpoint_id,
        *[each.checkpoint_id for each in history[2:]],
        None,
    ]
    assert history[0] == branch
    assert history[1] == last
    assert cold.get_state(forked) == last.state
    assert cold.size(forked) == 1
    assert cold.get_thread("t").message_count == 3
    assert len(cold.list_messages("t", branches="all")) == 3
    assert cold.verify().ok


def test_a_rejecting_save_whose_answer_was_lost_is_not_its_own_conflict(store):
    base = store.open().put_checkpoint("t", 1)
    checkpointer = store.open(lambda storage: FaultyStorage(storage, script(["after apply"])))
    made = checkpointer.put_checkpoint(at(base), 2, on_conflict="reject")
    assert checkpointer.storage.faults == ["after apply"]
    assert store.open().get_checkpoint("t") == made
    assert store.open().size("t") == 2


def test_a_deletion_whose_answer_was_lost_is_done(store):
    store.open().put_state("t", 1)
    checkpointer = store.open(lambda storage: FaultyStorage(storage, script(["after apply"])))
    checkpointer.get_state("t")
    checkpointer.delete_thread("t")
    assert store.open().get_thread("t") is None


def test_a_thread_that_another_deleted_may_be_deleted_again(store):
    mine, other = store.open(), store.open()
    mine.put_state("t", 1)
    other.get_state("t")
    mine.delete_thread("t")
    other.delete_thread("t")
    assert other.get_thread("t") is None


def test_a_checkpoint_deleted_with_a_lost_answer_was_there(store):
    made = store.open().put_checkpoint("t", 1)
    checkpointer = store.open(lambda storage: FaultyStorage(storage, script(["after apply"])))
    assert checkpointer.delete_checkpoint(at(made)) is True


@pytest.mark.parametrize("seed", range(6))
def test_random_faults_change_no_answer(store, seed):
    faulty = store.open(lambda storage: FaultyStorage(storage, at_random(seed=seed, rate=0.3)))
    sound = clew.InMemoryCheckpointer()
    for checkpointer in (faulty, sound):
        state: Any = {"m": []}
        for number in range(25):
            state["m"] = [*state["m"], text(number)][-12:]
            checkpointer.put_state("t", state)
            if number % 4 == 0:
                checkpointer.update_state("t", append={"log": [number]})
                state = checkpointer.get_state("t")
            if number % 7 == 6:
                checkpointer.put_messages("t", [clew.Message(message_id=str(number), role="user")])
                checkpointer.cleanup(clew.RetentionPolicy(max_history=5))
            if number % 11 == 10:
                checkpointer.compact()
    assert faulty.storage.faults
    assert [each.state for each in store.open().get_history("t", limit=None)] == [
        each.state for each in sound.get_history("t", limit=None)
    ]
    assert [each.message_id for each in faulty.list_messages("t")] == [
        each.message_id for each in sound.list_messages("t")
    ]
    assert store.open().verify().ok


@pytest.mark.parametrize(("retry_for", "tries"), [(0, (1, 1)), (0.1, (3, 4)), (15, (17, 40))])
def test_a_storage_that_stays_away_is_given_up_on_with_its_own_error(store, retry_for, tries):
    prepare(store.open())
    checkpointer = store.open(
        lambda storage: FaultyStorage(storage, script(itertools.repeat("before apply"), kinds=["apply"])),
        retry_for=retry_for,
    )
    with pytest.raises(clew.TransientStorageError, match="on purpose"):
        checkpointer.put_state("t", {"n": "never"})
    at_least, at_most = tries
    assert at_least <= len(checkpointer.storage.faults) <= at_most
    assert store.open().get_state("t")["n"] == 2


def test_what_will_not_pass_is_not_tried_again(store):
    error = clew.StorageError("the disk is on fire")
    plan = script([Fault("before apply", error), Fault("before apply", error)])
    checkpointer = store.open(lambda storage: FaultyStorage(storage, plan))
    with pytest.raises(clew.StorageError, match="on fire"):
        checkpointer.put_state("t", 1)
    assert len(checkpointer.storage.faults) == 1


def test_a_lease_is_taken_again_after_a_lost_answer(store):
    checkpointer = store.open(lambda storage: FaultyStorage(storage, script(["after apply", "before apply"])))
    with checkpointer.lease("t"):
        checkpointer.put_state("t", 1)
    with store.open().lease("t"):
        pass

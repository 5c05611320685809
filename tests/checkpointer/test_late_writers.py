"""Late writers: a deleted thread stays deleted, and nobody overwrites what they have not seen."""

from __future__ import annotations

import random

import pytest

import clew
from clew.checkpointer.basis import KnownBases
from clew.model.records import Basis
from clew.storage.wrapper import StorageWrapper
from tests.checkpointer.support import at, run, text

STATE = {"m": [text(n) for n in range(10)]}
GROWN = {"m": [*STATE["m"], text("more")]}


@pytest.fixture
def two(store):
    """Two processes that both know the thread."""
    mine, theirs = store.open(), store.open()
    mine.put_state("t", STATE)
    assert theirs.get_state("t") == STATE
    return mine, theirs


WRITES = [
    pytest.param(lambda late, head: late.put_state("t", GROWN), id="put_state"),
    pytest.param(lambda late, head: late.put_checkpoint(at(head), GROWN), id="from a checkpoint"),
    pytest.param(lambda late, head: late.put_checkpoint(at(head), GROWN, on_conflict="reject"), id="reject"),
    pytest.param(lambda late, head: late.update_state("t", append={"m": ["x"]}), id="update_state"),
    pytest.param(lambda late, head: late.update_state(at(head), append={"m": ["x"]}), id="update a checkpoint"),
    pytest.param(lambda late, head: late.put_messages("t", [clew.Message(role="user")]), id="messages"),
    pytest.param(lambda late, head: late.put_thread("t", clew.ThreadInfo(thread_id="t")), id="description"),
]


@pytest.mark.parametrize("write", WRITES)
def test_a_late_writer_cannot_revive_a_deleted_thread(two, write):
    mine, late = two
    head = late.get_checkpoint("t")
    mine.delete_thread("t")
    for _ in range(2):
        with pytest.raises(clew.ThreadDeletedError) as caught:
            write(late, head)
        assert caught.value.thread_id == "t"
    assert mine.get_thread("t") is None
    assert mine.list_threads({}) == []


@pytest.mark.parametrize("write", WRITES)
def test_a_late_writer_does_not_write_into_the_threads_next_life(two, write):
    mine, late = two
    head = late.get_checkpoint("t")
    mine.delete_thread("t")
    mine.put_state("t", {"m": ["a new life"]})
    with pytest.raises(clew.ThreadDeletedError):
        write(late, head)
    assert [each.state for each in mine.get_history("t")] == [{"m": ["a new life"]}]
    assert mine.list_messages("t") == []


@pytest.fixture
def forgetful(two, monkeypatch):
    """The same, but the second has since evicted the thread from memory."""
    mine, late = two
    head = late.get_checkpoint("t")
    monkeypatch.setattr(KnownBases, "kept_whole", 4)
    for number in range(8):
        mine.put_messages(f"other {number}", [clew.Message(role="user")])
        assert late.list_messages(f"other {number}")
    assert late._engine.known.get(("t", None)) is None
    return mine, late, head


@pytest.mark.parametrize("write", WRITES)
def test_a_late_writer_that_has_met_many_others_cannot_revive_a_deleted_thread(forgetful, write):
    mine, late, head = forgetful
    mine.delete_thread("t")
    for _ in range(2):
        with pytest.raises(clew.ThreadDeletedError):
            write(late, head)
    assert mine.get_thread("t") is None
    assert late.get_state("t") is None
    late.put_state("t", {"m": ["begun anew"]})
    assert mine.get_state("t") == {"m": ["begun anew"]}


@pytest.mark.parametrize("write", WRITES)
def test_a_late_writer_that_has_met_many_others_does_not_write_into_the_threads_next_life(forgetful, write):
    mine, late, head = forgetful
    mine.delete_thread("t")
    mine.put_state("t", {"m": ["a new life"]})
    with pytest.raises(clew.ThreadDeletedError):
        write(late, head)
    assert [each.state for each in mine.get_history("t")] == [{"m": ["a new life"]}]


def test_a_writer_that_has_met_many_others_goes_on_where_nobody_deleted_anything(forgetful):
    mine, late, _ = forgetful
    late.put_state("t", GROWN)
    late.update_state("t", append={"m": ["x"]})
    assert mine.get_state("t") == {"m": [*GROWN["m"], "x"]}
    late.delete_thread("other 0")
    late.put_state("other 0", STATE)
    late.put_state("new", STATE)
    assert mine.get_state("other 0") == mine.get_state("new") == STATE


def test_what_was_met_is_never_mistaken_however_much_was_met_since(monkeypatch):
    monkeypatch.setattr(KnownBases, "kept_whole", 32)
    met, chance = KnownBases(), random.Random(7)
    known: dict[tuple[str, str | None], Basis | None] = {}
    for _ in range(4000):
        key = f"t{chance.randrange(900)}", chance.choice([None, "ana"])
        if chance.random() < 0.2:
            met.drop(key)
            known[key] = None
        else:
            known[key] = found = Basis(incarnation=f"{chance.random()}", epoch=0, next_value=0)
            met.put(key, found)
    other = Basis(incarnation="another", epoch=0, next_value=0)
    assert len(met._recent) <= 32 + sum(each is None for each in met._recent.values())
    for key, basis in known.items():
        assert met.get(key) in (None, basis)
        assert (met.get(key) is None and basis is not None) == met.is_digested(key)
        assert met.is_same(key, basis)
        assert met.is_same(key, other) == (basis is None)
        assert met.is_same(key, None) == (basis is None)
    assert met.is_same(("never met", None), other)
    assert not met.is_digested(("never met", None))


def test_a_writer_that_only_wrote_is_told_too(store):
    late, other = store.open(), store.open()
    late.put_state("t", STATE)
    other.delete_thread("t")
    with pytest.raises(clew.ThreadDeletedError, match="read it first"):
        late.put_state("t", GROWN)


def test_whoever_has_read_that_it_is_gone_may_begin_anew(two):
    mine, late = two
    mine.delete_thread("t")
    assert late.get_state("t") is None
    late.put_state("t", GROWN)
    assert mine.get_state("t") == GROWN
    assert len(mine.get_history("t")) == 1


def test_whoever_deleted_it_may_begin_anew_at_once(checkpointer):
    checkpointer.put_state("t", STATE)
    checkpointer.delete_thread("t")
    checkpointer.update_state("t", append={"m": ["x"]})
    assert checkpointer.get_state("t") == {"m": ["x"]}


def test_a_late_writer_with_a_user_is_told(store):
    mine, late = store.open(), store.open()
    config = {"thread_id": "t", "user_id": "alice"}
    mine.put_state(config, STATE)
    late.get_state(config)
    mine.erase_user("alice")
    with pytest.raises(clew.ThreadDeletedError):
        late.put_state(config, GROWN)
    assert mine.list_threads({"user_id": "alice"}) == []


def test_after_clearing_a_late_writer_saves_a_whole_state(two):
    mine, late = two
    mine.clear_state("t")
    late.put_state("t", GROWN)
    assert mine.get_state("t") == GROWN
    assert [each.state for each in mine.get_history("t")] == [GROWN]
    assert mine.verify().ok


def test_after_clearing_a_late_change_starts_from_nothing(two):
    mine, late = two
    mine.clear_state("t")
    late.update_state("t", append={"m": ["x"]})
    assert mine.get_state("t") == {"m": ["x"]}


def test_after_clearing_a_writer_from_a_cleared_checkpoint_is_told(two):
    mine, late = two
    head = late.get_checkpoint("t")
    mine.clear_state("t")
    with pytest.raises(clew.ConflictError):
        late.put_checkpoint(at(head), GROWN, on_conflict="reject")
    with pytest.raises(clew.ConflictError):
        late.update_state(at(head), append={"m": ["x"]})
    assert mine.get_state("t") is None


def test_the_cache_does_not_bring_back_a_cleared_or_deleted_state(two):
    mine, late = two
    for checkpointer in two:
        checkpointer.put_state_cache("t", {"cached": 1})
    mine.clear_state("t")
    assert mine.get_state_cache("t") is None
    assert late.get_state_cache("t") is None
    late.put_state("t", STATE)
    late.put_state_cache("t", {"cached": 2})
    mine.delete_thread("t")
    assert mine.get_state_cache("t") is None
    assert late.get_state_cache("t") is None


def test_the_cache_of_a_thread_without_a_state_does_not_survive_one_that_came_and_went(store):
    mine, other = store.open(), store.open()
    mine.put_messages("t", [clew.Message(role="user")])
    other.put_state_cache("t", {"cached": 1})
    assert other.get_state_cache("t") == {"cached": 1}
    mine.put_state("t", STATE)
    mine.clear_state("t")
    assert other.get_state_cache("t") is None


# Removals under a writer's feet


def test_a_change_to_a_checkpoint_that_was_cleaned_up_is_refused_not_half_made(store):
    """Its values are gone: a new checkpoint that refers to them would be damaged."""
    mine, other = store.open(), store.open()
    made = [mine.put_checkpoint("t", {"m": [text((n, each)) for each in range(5)]}) for n in range(3)]
    for checkpointer in (mine, other):
        checkpointer.get_state(at(made[0]))
    mine.cleanup(clew.RetentionPolicy(max_history=1))
    for checkpointer in (mine, other):
        with pytest.raises(clew.ConflictError):
            checkpointer.update_state(at(made[0]), append={"m": ["x"]})
        assert checkpointer.get_state("t") == made[2].state
    assert mine.verify().ok


def test_a_wide_state_that_was_cleaned_up_is_refused_too(store):
    mine, other = store.open(), store.open()
    made = [mine.put_checkpoint("t", {f"k{each}": text((n, each), 60) for each in range(1500)}) for n in range(2)]
    other.get_state(at(made[0]))
    mine.cleanup(clew.RetentionPolicy(max_history=1))
    with pytest.raises(clew.ConflictError):
        other.update_state(at(made[0]), set={"k1": "x"})
    other.update_state("t", set={"k1": "x"})
    assert mine.get_state("t") == {**made[1].state, "k1": "x"}


def test_a_change_does_not_take_values_of_the_threads_next_life(store):
    mine, other = store.open(), store.open()
    old = mine.put_checkpoint("t", {"m": [text(("old", n)) for n in range(20)]})
    other.delete_thread("t")
    other.put_state("t", {"m": [text(("new", n)) for n in range(20)]})
    with pytest.raises(clew.ConflictError):
        mine.update_state(at(old, user_id=clew.ANY_USER), append={"m": ["x"]})
    assert len(other.list_checkpoints("t")) == 1


def test_saves_go_on_over_cleanup_and_compaction_by_another(store):
    mine, other = store.open(), store.open()
    state: dict[str, list[str]] = {"m": []}
    for number in range(30):
        state["m"].append(text(number))
        state["m"] = state["m"][-10:]
        mine.put_state("t", state)
        if number % 7 == 3:
            other.cleanup(clew.RetentionPolicy(max_history=2))
            other.compact()
    assert mine.get_state("t") == store.open().get_state("t") == state
    assert other.verify().ok


@pytest.mark.parametrize(
    "read",
    [
        lambda late: late.list_messages("t"),
        lambda late: late.get_message("t", "m"),
        lambda late: late.get_thread("t"),
    ],
    ids=["list_messages", "get_message", "get_thread"],
)
def test_a_writer_that_read_no_state_is_told_too(store, read):
    mine, late = store.open(), store.open()
    mine.put_messages("t", [clew.Message(role="user", message_id="m", content="hello")])
    read(late)
    mine.delete_thread("t")
    with pytest.raises(clew.ThreadDeletedError):
        late.put_messages("t", [clew.Message(role="assistant", content="an answer")])
    assert mine.get_thread("t") is None


def test_a_reader_is_not_shown_what_the_threads_former_life_had_under_the_same_ids(store):
    def secret(owner):
        return {"m": [{"content": f"{owner}'s secret " + owner * 300}]}

    mine, theirs = store.open(), store.open()
    ana, bob = {"thread_id": "t", "user_id": "ana"}, {"thread_id": "t", "user_id": "bob"}
    mine.put_checkpoint(ana, secret("ana"), new_id="step-1")
    theirs.delete_thread(ana)
    theirs.put_checkpoint(bob, secret("bob"), new_id="step-1")
    assert mine.get_state(bob) == secret("bob")


class LosesAnAnswer(StorageWrapper):
    """Loses the answer to one commit, and runs a callback before the retry."""

    meanwhile = None

    async def apply(self, commits):
        outcomes = await self.inner.apply(commits)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
            raise clew.TransientStorageError("the answer was lost")
        return outcomes


def test_what_a_cleanup_took_before_a_commit_came_again_is_stored_anew(store):
    mine, theirs = store.open(LosesAnAnswer), store.open()

    async def clean_up():
        await theirs.acleanup(clew.RetentionPolicy(max_history=1))

    async def go():
        first = text("first", 2_000)
        await mine.aput_state("t", {"doc": first})
        await mine.aput_state("t", {"doc": text("second", 2_000)})
        mine.storage.meanwhile = clean_up
        await mine.aput_state("t", {"doc": text("third", 2_000)})
        await mine.aput_state("t", {"doc": first})
        assert await theirs.aget_state("t") == {"doc": first}
        assert (await theirs.averify()).ok

    run(go())

"""Late shipments: whatever replication has ever sent to a store may arrive there again, and changes nothing."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from clew.errors import ThreadDeletedError, TransientStorageError
from clew.model.commit import Applied, Removal
from clew.storage.memory import MemoryStorage
from clew.storage.replicated.shipper import shipped
from clew.testing.build import NOON, checkpoint, commit, deletion, message
from tests.replicated.support import Pair, assert_same, contents


class Recording(MemoryStorage):
    """Keeps the commits that other stores may have been sent from its journal, and those that it was sent."""

    def __init__(self):
        super().__init__()
        self.entries = []
        self.sent = []

    async def apply(self, commits):
        self.sent += [each for each in commits if each.after is not None]
        outcomes = await super().apply(commits)
        known = {each.position for each in self.entries}
        self.entries += [each for each in self._journal.values() if each.position not in known]
        return outcomes


@pytest.fixture(params=["sync", "async"])
def pair(request):
    with Pair(Recording, Recording, mode=request.param) as made:
        yield made


def lose_primary(pair, process):
    pair.down.add("primary")
    process.until(lambda: process.state.roles.active == "secondary")


def settle(pair, process):
    pair.down.clear()
    process.until(process.has_its_primary_back)
    pair.settle(process)
    assert_same(pair.primary, pair.secondary)


def assert_that_nothing_comes_back(pair):
    """Let everything arrive once more, in the order in which it was sent and in the other."""
    for source, target in ((pair.primary, pair.secondary), (pair.secondary, pair.primary)):
        late = [made for each in source.storage.entries if (made := shipped(each)) is not None]
        late += target.storage.sent
        before = contents(target)
        for each in (*late, *reversed(late)):
            (outcome,) = target.outcomes(each)
            assert not isinstance(outcome, Applied) or outcome.repeated, f"applied: {each}"
        assert contents(target) == before


def test_commits_of_a_deleted_thread(pair):
    process = pair.process()
    process.apply_all(
        commit("t", messages=[message("m1")]), commit("t", checkpoint=checkpoint("c1")), deletion("t"),
        commit("u", messages=[message("m1")]),
    )  # fmt: skip
    settle(pair, process)
    assert_that_nothing_comes_back(pair)
    assert process.thread_ids() == ["u"]


def test_commits_of_a_thread_that_is_created_and_deleted_again_and_again(pair):
    process = pair.process()
    for number in range(3):
        process.apply_all(commit("t", messages=[message(f"m{number}")]), deletion("t"))
        settle(pair, process)
        assert_that_nothing_comes_back(pair)
    process.apply(commit("t", messages=[message("last")]))
    settle(pair, process)
    assert_that_nothing_comes_back(pair)
    assert process.message_ids("t") == ["last"]


def test_commits_of_a_thread_that_was_deleted_before_the_other_store_had_it():
    with Pair(Recording, Recording, mode="async") as pair:
        process = pair.process()
        process.apply(commit("u", messages=[message("m")]))
        pair.settle(process)
        pair.down.add("secondary")
        process.until(lambda: not process.status().secondary_healthy)
        process.apply_all(commit("t", messages=[message("m1")]), deletion("t"))
        settle(pair, process)
        assert_that_nothing_comes_back(pair)
        process.apply_all(commit("t", messages=[message("m2")]))
        settle(pair, process)
        assert_that_nothing_comes_back(pair)
        assert process.message_ids("t") == ["m2"]


def test_commits_of_a_thread_that_the_secondary_deletes_while_it_serves(pair):
    process = pair.process()
    process.apply(commit("t", messages=[message("m1")]))
    pair.settle(process)
    lose_primary(pair, process)
    process.retry(deletion("t"))
    process.retry(commit("u", messages=[message("m1")]))
    process.retry(deletion("u"))
    settle(pair, process)
    assert_that_nothing_comes_back(pair)
    assert process.thread_ids() == []


def test_commits_of_a_thread_that_the_secondary_never_had_and_that_it_drops():
    with Pair(Recording, Recording, mode="sync") as pair:
        process = pair.process()
        process.apply(commit("u", messages=[message("m")]))
        pair.down.add("secondary")
        with pytest.raises(TransientStorageError):
            process.apply(commit("t", messages=[message("m1")]))
        pair.down.clear()
        lose_primary(pair, process)
        # The lease ends the chain of the thread, which the secondary does not have.
        process.run(process.storage.lease("t", None, holder="me", now=NOON, ttl=60))
        settle(pair, process)
        assert_that_nothing_comes_back(pair)
        assert process.thread_ids() == ["u"]


def test_commits_of_a_thread_whose_deletion_was_merged(pair):
    process = pair.process()
    process.apply(commit("t", messages=[message("m1")]))
    pair.settle(process)
    if pair.settings["mode"] == "async":
        # Both stores get commits that the other does not have.
        pair.down.add("secondary")
        process.until(lambda: not process.status().secondary_healthy)
        process.apply(commit("t", messages=[message("m2")]))
        pair.down.clear()
    lose_primary(pair, process)
    process.retry(commit("t", messages=[message("m3")]))
    process.retry(commit("t", remove=Removal(thread=True)))
    settle(pair, process)
    assert_that_nothing_comes_back(pair)
    assert process.thread_ids() == []


def test_a_retry_in_the_other_store_creates_a_deleted_thread_as_another_one():
    with Pair(mode="sync") as pair:
        slow, other = pair.process(), pair.process()
        created = commit("t", messages=[message("m1")])
        # The slow process sends it to the primary, and does not get the answer.
        begun = asyncio.run(slow.replicated._incarnations.propose(created, pair.primary.storage, "primary"))
        known = other.apply(replace(created, begin=begun)).basis
        other.apply(deletion("t"))
        lose_primary(pair, slow)
        slow.apply(created)
        assert slow.thread_ids() == ["t"]
        pair.down.clear()
        other.until(other.has_its_primary_back)
        (late,) = other.outcomes(commit("t", messages=[message("m2")], basis=known))
        assert isinstance(late, ThreadDeletedError)

"""Leases: one holder at a time, and tokens that fence off earlier holders."""

from __future__ import annotations

import pytest

from clew.errors import LeaseError, PermissionDeniedError
from clew.model.commit import Removal
from clew.model.config import ANY_USER, User
from clew.model.records import LeaseRecord
from clew.storage.protocol import LONGEST_TTL
from clew.testing.build import NOON, commit, deletion, fields, fork_of, later, message
from clew.testing.contract.base import ContractPart, full_commit
from clew.testing.driver import DrivenStorage


class LeaseContract(ContractPart):
    def test_a_free_lease_is_taken(self, store: DrivenStorage) -> None:
        lease = store.lease("me", ttl=30)
        assert lease == LeaseRecord(thread_id="t", holder="me", token=lease.token, since=NOON, expires_at=later(30))
        assert lease.token > 0

    def test_a_lease_does_not_create_its_thread(self, store: DrivenStorage) -> None:
        store.lease("me")
        assert store.thread() is None and store.stats().by_thread == {}

    def test_another_holder_is_told_who_has_it(self, store: DrivenStorage) -> None:
        mine = store.lease("me", ttl=30)
        assert store.lease("you", now=later(29.999999)) == mine

    def test_the_holder_renews_it_and_keeps_the_token(self, store: DrivenStorage) -> None:
        first = store.lease("me", ttl=30)
        again = store.lease("me", now=later(20), ttl=30)
        assert (again.token, again.since, again.expires_at) == (first.token, NOON, later(50))
        assert store.lease("you", now=later(40)) == again

    @pytest.mark.parametrize("holder", ["me", "you"])
    @pytest.mark.parametrize("seconds", [30, 30.000001, 1000])
    def test_an_expired_lease_is_taken_with_a_greater_token(
        self, store: DrivenStorage, holder: str, seconds: float
    ) -> None:
        first = store.lease("me", ttl=30)
        second = store.lease(holder, now=later(seconds), ttl=30)
        assert (second.holder, second.since, second.expires_at) == (holder, later(seconds), later(seconds + 30))
        assert second.token > first.token

    def test_a_lease_that_was_given_back_is_free(self, store: DrivenStorage) -> None:
        first = store.lease("me")
        store.lease("me", ttl=0, now=later(1))
        second = store.lease("you", now=later(1))
        assert second.holder == "you" and second.token > first.token

    def test_only_the_holder_can_give_a_lease_back(self, store: DrivenStorage) -> None:
        mine = store.lease("me")
        store.lease("you", ttl=0, now=later(1))
        assert store.lease("you", now=later(2)) == mine

    def test_giving_back_what_nobody_has_does_nothing(self, store: DrivenStorage) -> None:
        store.lease("me", ttl=0)
        assert store.lease("you").holder == "you"

    def test_leases_of_two_threads_are_separate(self, store: DrivenStorage) -> None:
        first, second = store.lease("me", "t"), store.lease("you", "u")
        assert (first.holder, second.holder) == ("me", "you")
        assert store.lease("you", "t", now=later(1)) == first

    def test_a_thread_named_like_a_lease_is_a_thread_of_its_own(self, store: DrivenStorage) -> None:
        for name in ("x", "lock:x", "lease:x", "x:lease", "{x}"):
            assert store.lease(f"holder of {name}", name).holder == f"holder of {name}"

    def test_tokens_grow_from_thread_to_thread_and_over_deletions(self, store: DrivenStorage) -> None:
        tokens = []
        for number in range(6):
            store.apply(commit(messages=[message("m1")]))
            tokens.append(store.lease(f"holder {number}").token)
            store.apply(deletion())
            tokens.append(store.lease("me", f"other {number}").token)
        assert tokens == sorted(set(tokens))

    def test_the_last_holder_writes_under_its_token(self, store: DrivenStorage) -> None:
        token = store.lease("me").token
        store.apply(commit(fence=token, messages=[message("m1")]))
        assert store.message_ids() == ["m1"]

    def test_an_earlier_holder_is_fenced_off(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        old = store.lease("me", ttl=30).token
        new = store.lease("you", now=later(31)).token
        store.refused(commit(fence=old, messages=[message("m2")]), LeaseError)
        store.apply(commit(fence=new, messages=[message("m3")]))
        assert store.message_ids() == ["m1", "m3"]

    def test_an_expired_lease_is_good_until_somebody_takes_it(self, store: DrivenStorage) -> None:
        token = store.lease("me", ttl=30).token
        store.apply(commit(fence=token, messages=[message("m1")], at=later(1000)))
        assert store.message_ids() == ["m1"]

    @pytest.mark.parametrize("ttl", [0, 30])
    def test_who_has_not_got_the_lease_does_not_change_the_fence(self, store: DrivenStorage, ttl: float) -> None:
        token = store.lease("me", ttl=30).token
        store.lease("you", ttl=ttl, now=later(1))
        store.apply(commit(fence=token, messages=[message("m1")]))

    def test_a_fence_of_a_thread_without_a_lease_is_refused(self, store: DrivenStorage) -> None:
        token = store.lease("me", "other").token
        store.apply(full_commit())
        store.refused(commit(fence=token, messages=[message("m2")]), LeaseError)
        store.refused(commit(fence=0, messages=[message("m2")]), LeaseError)

    def test_commits_without_a_fence_are_not_held_up(self, store: DrivenStorage) -> None:
        store.lease("me")
        store.apply(commit(messages=[message("m1")]))
        assert store.message_ids() == ["m1"]

    def test_deleting_a_thread_ends_its_lease(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        token = store.lease("me").token
        store.apply(deletion())
        store.refused(commit(fence=token, messages=[message("m1")]), LeaseError)
        new = store.lease("you", now=later(1))
        assert new.holder == "you" and new.token > token

    @pytest.mark.parametrize("user", ["bob", None])
    @pytest.mark.parametrize("ttl", [0, 30])
    def test_others_cannot_lease_a_thread_that_has_an_owner(self, store: DrivenStorage, user: User, ttl: float) -> None:
        store.apply(full_commit(user="ann"))
        with pytest.raises(PermissionDeniedError):
            store.lease("me", user=user, ttl=ttl)
        assert store.lease("you", user="ann").holder == "you"
        assert store.lease("me", user=ANY_USER).holder == "you"

    def test_a_clock_that_goes_backwards_does_not_free_a_lease(self, store: DrivenStorage) -> None:
        mine = store.lease("me", ttl=30)
        assert store.lease("you", now=later(-1000)) == mine

    def test_a_lease_may_be_shorter_than_a_second(self, store: DrivenStorage) -> None:
        assert store.lease("me", ttl=0.25).expires_at == later(0.25)
        assert store.lease("you", now=later(0.2)).holder == "me"
        assert store.lease("you", now=later(0.25)).holder == "you"

    # Spaces

    @pytest.mark.parametrize("stranger", ["bob", None, ANY_USER])
    def test_a_lease_on_a_thread_that_does_not_exist_holds_up_nobody_elses_thread(
        self, store: DrivenStorage, stranger: User
    ) -> None:
        theirs = store.lease("theirs", user=stranger, ttl=LONGEST_TTL)
        assert store.lease("hers", user="ann").holder == "hers"
        store.apply(commit(user="ann", messages=[message("m1")]))
        assert store.lease("another", user="ann", now=later(31)).holder == "another"
        store.refused(commit(user=ANY_USER, fence=theirs.token, messages=[message("m2")]), LeaseError)

    def test_a_lease_that_was_taken_before_the_thread_was_created_holds_after(self, store: DrivenStorage) -> None:
        mine = store.lease("mine", user="ann")
        store.apply(commit(user="ann", fence=mine.token, messages=[message("m1")]))
        assert store.lease("another", user="ann", now=later(1)) == mine
        assert store.lease("anybody", user=ANY_USER, now=later(1)) == mine
        store.apply(commit(user="ann", fence=mine.token, messages=[message("m2")]))

    def test_a_lease_on_a_thread_that_nobody_owns_is_everybodys(self, store: DrivenStorage) -> None:
        early = store.lease("early", user="bob")
        store.apply(commit(user=None, messages=[message("m1")]))
        mine = store.lease("mine", user="ann")
        assert store.lease("yours", user="bob", now=later(1)) == mine
        assert store.lease("anybody", user=ANY_USER, now=later(1)) == mine
        store.refused(commit(user="bob", fence=early.token, messages=[message("m2")]), LeaseError)
        store.apply(commit(user="bob", fence=mine.token, messages=[message("m2")]))

    @pytest.mark.parametrize("entered", [None, b"entry"], ids=["", "journaled"])
    def test_deleting_a_thread_leaves_the_leases_of_others(
        self, journaling: DrivenStorage, entered: bytes | None
    ) -> None:
        store = journaling
        theirs = store.lease("theirs", user="bob", ttl=300)
        store.apply(full_commit(user="ann", journal=entered))
        hers = store.lease("hers", user="ann", ttl=300)
        store.apply(commit(user="ann", remove=Removal(thread=True), journal=entered))
        assert store.lease("another", user="bob", now=later(1)) == theirs
        assert store.lease("another", user="ann", now=later(1)).token > hers.token
        store.apply(commit(user="bob", fence=theirs.token, messages=[message("m1")]))

    def test_giving_a_thread_to_another_owner_ends_its_leases(self, store: DrivenStorage) -> None:
        early = store.lease("early", user="bob", ttl=300)
        store.apply(full_commit(user="ann"))
        hers = store.lease("hers", user="ann", ttl=300)
        store.apply(commit(user=ANY_USER, thread=fields(user_id="bob")))
        for old in (early, hers):
            store.refused(commit(user="bob", fence=old.token, messages=[message("m2")]), LeaseError)
        theirs = store.lease("theirs", user="bob", now=later(1))
        assert (theirs.holder, theirs.token > hers.token) == ("theirs", True)
        store.apply(commit(user=ANY_USER, thread=fields(user_id="ann")))
        store.refused(commit(user="ann", fence=hers.token, messages=[message("m2")]), LeaseError)

    def test_describing_a_thread_leaves_its_lease(self, store: DrivenStorage) -> None:
        store.apply(full_commit(user="ann"))
        hers = store.lease("hers", user="ann")
        store.apply(commit(user=ANY_USER, thread=fields("another name", user_id="ann")))
        store.apply(commit(user="ann", fence=hers.token, thread=fields("a third", user_id="ann")))
        assert store.lease("another", user="ann", now=later(1)) == hers

    def test_a_thread_that_is_made_for_another_user_begins_without_leases(self, store: DrivenStorage) -> None:
        store.apply(full_commit("source", user="ann"))
        for made in (
            commit("described", user=ANY_USER, thread=fields(user_id="ann")),
            commit("fork", user=ANY_USER, fork=fork_of("source")),
        ):
            early = store.lease("early", made.thread_id, user=ANY_USER, ttl=300)
            store.apply(made)
            assert store.lease("hers", made.thread_id, user="ann").holder == "hers"
            store.apply(commit(made.thread_id, user="ann", remove=Removal(thread=True)))
            assert store.lease("late", made.thread_id, user=None).token > early.token

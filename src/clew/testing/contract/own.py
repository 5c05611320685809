"""Own records: Clew's internal records, which no thread or user id can reach."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace

from clew.storage.protocol import Own
from clew.testing.build import deletion
from clew.testing.contract.base import ContractPart, full_commit
from clew.testing.driver import DrivenStorage


class OwnContract(ContractPart):
    def test_there_is_no_own_record_before_one_is_put(self, store: DrivenStorage) -> None:
        assert store.own(Own.CLEANUP) is None

    @pytest.mark.parametrize("data", [b"", b"\0", bytes(range(256)) * 40])
    def test_an_own_record_is_as_it_was_put(self, store: DrivenStorage, data: bytes) -> None:
        assert store.put_own(Own.CLEANUP, data)
        assert store.own(Own.CLEANUP) == data

    def test_each_own_record_is_by_itself(self, journaling: DrivenStorage) -> None:
        # A replicated storage uses these records itself, and does not journal.
        assert journaling.put_own(Own.CLEANUP, b"one")
        assert journaling.put_own(Own.SHIPPING, b"two")
        assert (journaling.own(Own.CLEANUP), journaling.own(Own.SHIPPING)) == (b"one", b"two")

    def test_an_own_record_takes_the_place_of_the_one_that_is_named(self, store: DrivenStorage) -> None:
        assert store.put_own(Own.CLEANUP, b"one")
        assert store.put_own(Own.CLEANUP, b"two", instead_of=b"one")
        assert store.own(Own.CLEANUP) == b"two"

    def test_an_own_record_that_somebody_else_changed_stays(self, store: DrivenStorage) -> None:
        assert not store.put_own(Own.CLEANUP, b"late", instead_of=b"gone")
        assert store.own(Own.CLEANUP) is None
        assert store.put_own(Own.CLEANUP, b"one")
        assert not store.put_own(Own.CLEANUP, b"other")
        assert store.put_own(Own.CLEANUP, b"two", instead_of=b"one")
        assert not store.put_own(Own.CLEANUP, b"late", instead_of=b"one")
        assert store.own(Own.CLEANUP) == b"two"

    def test_putting_an_own_record_again_says_the_same_and_changes_nothing(self, store: DrivenStorage) -> None:
        assert store.put_own(Own.CLEANUP, b"one")
        assert store.put_own(Own.CLEANUP, b"one")
        assert store.put_own(Own.CLEANUP, b"two", instead_of=b"one")
        assert store.put_own(Own.CLEANUP, b"two", instead_of=b"one")
        assert store.own(Own.CLEANUP) == b"two"

    def test_of_several_who_change_an_own_record_at_once_one_wins(self, store: DrivenStorage) -> None:
        store.put_own(Own.CLEANUP, b"before")

        async def change(number: int) -> bool:
            return await store.storage.put_own(Own.CLEANUP, b"%d" % number, instead_of=b"before")

        done = store.at_once([partial(change, number) for number in range(8)])
        assert done.count(True) == 1
        assert store.own(Own.CLEANUP) == b"%d" % done.index(True)

    def test_own_records_are_no_threads_and_threads_are_no_own_records(self, store: DrivenStorage) -> None:
        nothing = store.everything()
        store.put_own(Own.CLEANUP, b"kept")
        assert store.everything() == nothing
        named = ["cleanup", "own:cleanup", "own:cleanup}", "clew:cleanup"]
        for thread_id in named:
            assert store.thread(thread_id) is None
            store.apply(full_commit(thread_id, user=thread_id))
            assert store.lease("somebody", thread_id).holder == "somebody"
        assert sorted(store.thread_ids()) == sorted(named)
        store.apply_all(*(replace(deletion(thread_id), user=thread_id) for thread_id in named))
        assert store.own(Own.CLEANUP) == b"kept"

    def test_own_records_stay_out_of_the_journal(self, journaling: DrivenStorage) -> None:
        journaling.put_own(Own.CLEANUP, b"one")
        assert journaling.journal() == []

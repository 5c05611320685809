"""The value log: numbers without gaps or reuse, merged and dropped by rows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from clew.errors import ConflictError
from clew.model.commit import Removal
from clew.model.records import Basis, Range, ValueRow
from clew.storage.protocol import StaleBasisError
from clew.testing.build import checkpoint, commit, fields, row
from clew.testing.contract.base import ContractPart, full_commit
from clew.testing.driver import DrivenStorage


def five_rows(store: DrivenStorage) -> Basis:
    """Return a store with values 0 to 9 in rows of two, and checkpoint `c1`, which needs them all."""
    for first in range(0, 8, 2):
        store.apply(commit(values=row(first, 2)))
    basis = store.apply(commit(values=row(8, 2), checkpoint=checkpoint("c1", covers=[(0, 10)]))).basis
    assert basis is not None
    return basis


def ranges_of(rows: tuple[ValueRow, ...]) -> list[Range]:
    return [(found.first, found.end) for found in rows]


class ValueContract(ContractPart):
    def test_values_come_back_as_they_were_written(self, store: DrivenStorage) -> None:
        written = row(0, 3, data=b"\0\xff" * 1000)
        basis = store.apply(commit(values=written)).basis
        assert store.values().rows == (written,)
        assert store.values().basis == basis
        assert basis is not None and basis.next_value == 3

    def test_the_values_of_a_thread_that_is_not_there_have_no_basis(self, store: DrivenStorage) -> None:
        page = store.values("nowhere")
        assert (page.basis, page.rows, page.fixed_before) == (None, (), 0)

    @pytest.mark.parametrize("first", [0, 2, 4, 100])
    def test_values_must_be_numbered_on_from_the_last(self, store: DrivenStorage, first: int) -> None:
        store.apply(full_commit())
        store.refused(commit(values=row(first)), StaleBasisError)
        assert store.values().rows == (row(0, 3),)

    def test_values_of_a_new_thread_are_numbered_from_nought(self, store: DrivenStorage) -> None:
        store.refused(commit(values=row(1)), StaleBasisError)
        assert store.thread() is None

    def test_values_of_two_threads_are_separate(self, store: DrivenStorage) -> None:
        store.apply_all(commit("t", values=row(0, data=b"t")), commit("u", values=row(0, data=b"u")))
        assert store.values("t").rows[0].data == b"t" and store.values("u").rows[0].data == b"u"

    def test_since_gives_the_rows_that_reach_past_it(self, store: DrivenStorage) -> None:
        five_rows(store)
        for since, first in [(0, 0), (1, 0), (2, 2), (7, 6), (9, 8), (10, 10), (99, 10)]:
            expected = [(number, number + 2) for number in range(first, 10, 2)]
            assert ranges_of(store.values(since=since).rows) == expected

    def test_ranges_give_the_rows_that_overlap_them(self, store: DrivenStorage) -> None:
        five_rows(store)
        expected: dict[tuple[Range, ...], list[int]] = {
            (): [],
            ((0, 1),): [0],
            ((1, 3),): [0, 2],
            ((2, 4),): [2],
            ((8, 10), (0, 2)): [0, 8],
            ((0, 4), (1, 3), (3, 4)): [0, 2],
            ((5, 5),): [],
            ((10, 20),): [],
            ((0, 10),): [0, 2, 4, 6, 8],
        }
        for ranges, firsts in expected.items():
            assert [found.first for found in store.values(ranges=ranges).rows] == firsts

    def test_digests_can_be_read_without_the_data(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        (found,) = store.values(data=False).rows
        assert found == row(0, 3, data=b"")
        assert store.values(ranges=((0, 1),), data=False).rows == (found,)

    def test_a_state_comes_with_the_rows_that_it_covers(self, store: DrivenStorage) -> None:
        five_rows(store)
        store.apply(commit(checkpoint=checkpoint("c2", covers=[(3, 5), (9, 10)])))
        store.apply(commit(checkpoint=checkpoint("c3")))
        assert ranges_of(store.page(checkpoint_id="c2", detail="state").rows) == [(2, 4), (4, 6), (8, 10)]
        assert store.page(checkpoint_id="c2", detail="body").rows == ()
        assert store.page(checkpoint_id="c3", detail="state").rows == ()

    def test_several_states_come_with_each_row_once_in_order(self, store: DrivenStorage) -> None:
        five_rows(store)
        store.apply(commit(checkpoint=checkpoint("c2", covers=[(8, 9), (0, 1)])))
        store.apply(commit(checkpoint=checkpoint("c3", covers=[(4, 5), (0, 2)])))
        assert ranges_of(store.page(limit=2, detail="state").rows) == [(0, 2), (4, 6), (8, 10)]
        assert ranges_of(store.page(detail="state").rows) == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]

    def test_a_long_log_is_read_whole(self, store: DrivenStorage) -> None:
        store.outcomes(*(commit(values=row(number)) for number in range(1500)))
        store.apply(commit(checkpoint=checkpoint("c1", covers=[(0, 1500)])))
        assert store.page(detail="state").rows == tuple(row(number) for number in range(1500))

    def test_many_ranges_can_be_covered(self, store: DrivenStorage) -> None:
        store.outcomes(*(commit(values=row(number)) for number in range(1200)))
        store.apply(commit(checkpoint=checkpoint("c1", covers=[(number, number + 1) for number in range(0, 1200, 2)])))
        assert [found.first for found in store.page(detail="state").rows] == [*range(0, 1200, 2)]
        assert store.checkpoint("c1").covers[-1] == (1198, 1199)

    def test_merged_rows_take_the_place_of_those_they_cover(self, store: DrivenStorage) -> None:
        before = five_rows(store)
        merged = (row(0, 4, data=b"zero to three"), row(6, 4, data=b"six to nine"))
        assert store.apply(commit(merge=merged, basis=before)).basis == before
        assert store.values().rows == (merged[0], row(4, 2), merged[1])
        assert store.page(detail="state").rows == store.values().rows

    def test_a_row_can_be_merged_with_one_that_was_merged_before(self, store: DrivenStorage) -> None:
        five_rows(store)
        store.apply_all(commit(merge=[row(0, 4)]), commit(merge=[row(0, 10)]))
        assert store.values().rows == (row(0, 10),)

    def test_a_row_can_be_written_anew_by_itself(self, store: DrivenStorage) -> None:
        five_rows(store)
        store.apply(commit(merge=[row(2, 2, data=b"packed")]))
        assert store.values(ranges=((2, 3),)).rows == (row(2, 2, data=b"packed"),)

    @pytest.mark.parametrize(("first", "count"), [(1, 3), (0, 3), (1, 1), (8, 4), (10, 2), (0, 100)])
    def test_a_merge_must_keep_to_the_borders_of_rows(self, store: DrivenStorage, first: int, count: int) -> None:
        five_rows(store)
        before = store.everything()
        store.refused(commit(merge=[row(0, 4) if first >= 4 else row(6, 4), row(first, count)]), ConflictError)
        assert store.everything() == before

    def test_a_merge_over_values_that_were_dropped_is_refused(self, store: DrivenStorage) -> None:
        five_rows(store)
        store.apply(commit(remove=Removal(values=((2, 4),))))
        store.refused(commit(merge=[row(0, 6)]), ConflictError)
        store.apply(commit(merge=[row(4, 6)]))

    def test_a_merge_into_a_thread_that_is_not_there_is_refused(self, store: DrivenStorage) -> None:
        store.refused(commit(merge=[row(0, 2)]), ConflictError)
        assert store.thread() is None

    def test_a_writer_may_append_after_a_merge_that_it_did_not_see(self, store: DrivenStorage) -> None:
        before = five_rows(store)
        store.apply(commit(merge=[row(0, 10)]))
        store.apply(commit(basis=before, values=row(10), checkpoint=checkpoint("c2", covers=[(1, 11)])))
        assert ranges_of(store.page(limit=1, detail="state").rows) == [(0, 10), (10, 11)]

    def test_rows_wholly_inside_a_removed_range_are_dropped(self, store: DrivenStorage) -> None:
        before = five_rows(store)
        after = store.apply(commit(remove=Removal(values=((1, 4), (6, 9))))).basis
        assert ranges_of(store.values().rows) == [(0, 2), (4, 6), (8, 10)]
        assert after is not None and (after.epoch, after.next_value) == (before.epoch + 1, 10)

    def test_a_range_that_holds_no_whole_row_drops_nothing(self, store: DrivenStorage) -> None:
        five_rows(store)
        store.apply(commit(remove=Removal(values=((1, 3), (9, 99)))))
        assert len(store.values().rows) == 5

    def test_naming_values_counts_the_epoch_up_because_a_merge_may_empty_them(self, store: DrivenStorage) -> None:
        before = five_rows(store)
        after = store.apply(commit(remove=Removal(values=((1, 3),)))).basis
        assert after == replace(before, epoch=before.epoch + 1)

    def test_numbers_of_dropped_values_are_not_given_again(self, store: DrivenStorage) -> None:
        five_rows(store)
        store.apply(commit(remove=Removal(values=((0, 10),))))
        assert store.values().rows == ()
        store.refused(commit(values=row(8)), StaleBasisError)
        store.refused(commit(values=row(0)), StaleBasisError)
        store.apply(commit(values=row(10)))
        assert store.values().rows == (row(10),)

    def test_values_are_not_taken_out_once_the_thread_has_moved_on(self, store: DrivenStorage) -> None:
        five_rows(store)
        removal = Removal(values=((0, 4),), as_of=store.values().sequence)
        store.apply(commit(checkpoint=checkpoint("c2", covers=[(0, 2)])))
        store.refused(commit(remove=removal), StaleBasisError)
        assert len(store.values().rows) == 5
        store.apply(commit(remove=Removal(values=((2, 4),), as_of=store.values().sequence)))
        assert [found.first for found in store.values().rows] == [0, 4, 6, 8]

    def test_what_goes_as_of_a_moment_goes_with_checkpoints_and_what_is_added_or_not_at_all(
        self, store: DrivenStorage
    ) -> None:
        five_rows(store)
        store.apply(commit(checkpoint=checkpoint("c2", covers=[(8, 10)])))
        seen = store.values()
        removal = Removal(checkpoints=(("", "c1"),), values=((0, 6),), as_of=seen.sequence)
        late = commit(remove=Removal(as_of=seen.sequence), thread=fields("late"))
        store.apply(commit(remove=removal, merge=[row(6, 4)]))
        assert [found.checkpoint_id for found in store.checkpoints()] == ["c2"]
        assert store.values().rows == (row(6, 4),)
        store.refused(late, StaleBasisError)
        now = store.values()
        after = store.apply(commit(remove=Removal(as_of=now.sequence), thread=fields("in time"))).basis
        assert after == now.basis
        assert [found.text for found in store.threads()] == ["in time"]

    def test_values_can_be_dropped_and_added_in_one_commit(self, store: DrivenStorage) -> None:
        five_rows(store)
        store.apply(commit(remove=Removal(values=((0, 8),)), values=row(10)))
        assert store.values().rows == (row(8, 2), row(10))

    def test_rows_can_be_dropped_and_merged_in_one_commit(self, store: DrivenStorage) -> None:
        five_rows(store)
        store.apply(commit(remove=Removal(values=((0, 6),)), merge=[row(6, 4)]))
        assert store.values().rows == (row(6, 4),)

    def test_a_row_that_is_dropped_is_not_there_to_be_merged(self, store: DrivenStorage) -> None:
        five_rows(store)
        before = store.everything()
        store.refused(commit(remove=Removal(values=((0, 6),)), merge=[row(4, 6)]), ConflictError)
        assert store.everything() == before

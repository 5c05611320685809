"""The hot tier: reads, cached rows, eviction."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from clew.errors import ClewError
from clew.model.commit import Removal
from clew.model.config import ANY_USER
from clew.model.queries import CheckpointPage, CheckpointQuery, ThreadQuery, ValuePage, ValueQuery
from clew.storage.cached import entries
from clew.storage.cached.coverage import HeldRow, largest, missing, overlapping
from clew.testing import FakeClock
from clew.testing.build import checkpoint, commit, deletion, fork_of, row
from tests.storage.cached_support import Both, in_loop, put, ranges, turns

# Reads


@in_loop
async def test_written_rows_are_read_from_the_hot_tier():
    both = Both()
    await put(both.storage, *turns(3))
    other = both.opened()
    assert await both.state(other) == await both.truth()
    assert both.cold.asked == ["body"]
    assert (await both.status()).writes == 3
    assert other.hot.status.hits == 1


@in_loop
async def test_rows_that_the_hot_tier_lacks_are_read_from_the_cold_one_and_cached():
    both = Both()
    await both.cold.apply(turns(3))
    for _ in range(2):
        assert await both.state() == await both.truth()
    assert both.cold.asked == ["body", "values", "body"]
    status = await both.status()
    assert (status.misses, status.fills, status.hits) == (1, 3, 1)


@in_loop
async def test_only_the_missing_ranges_are_read_from_the_cold_storage():
    both = Both()
    await put(both.storage, *turns(2))
    await both.cold.apply(turns(2, first=2))
    asked: list[ValueQuery] = []
    values = both.cold.inner.values

    async def noted(query: ValueQuery) -> ValuePage:
        asked.append(query)
        return await values(query)

    both.cold.inner.values = noted  # type: ignore[method-assign]
    assert await both.state() == await both.truth()
    assert [each.ranges for each in asked] == [((2, 4),)]


@in_loop
async def test_a_known_state_loads_no_values():
    both = Both()
    await both.cold.apply(turns(3))
    assert (await both.state(known="c2")).rows == ()
    assert both.cold.asked == ["body"]
    assert ranges((await both.state(known="c1")).rows) == [(0, 1), (1, 2), (2, 3)]


@in_loop
async def test_queries_without_a_limit_read_the_cold_storage():
    both = Both()
    await put(both.storage, *turns(3))
    await both.state(limit=None)
    assert both.cold.asked == ["state"]


@in_loop
async def test_another_users_thread_is_not_read():
    both = Both()
    mine = [replace(each, user="ann") for each in turns(2)]
    await put(both.storage, *mine)
    found = await both.storage.checkpoints(CheckpointQuery(thread_id="t", user="bob", detail="state"))
    assert found == CheckpointPage(basis=None)


@in_loop
async def test_merging_by_a_process_without_the_cache_changes_nothing():
    both = Both()
    await put(both.storage, *turns(4))
    await both.cold.apply([commit(merge=[row(0, 4, data=b"together")])])
    assert ranges((await both.state()).rows) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    # Missing values then come in the rows that exist now.
    await both.cold.apply(turns(1, first=4))
    await both.kept.apply(
        [
            entries.removal_commit("t", [(both_id.namespace, both_id.checkpoint_id)], commit().at)
            for both_id in (await both.entries())[:1]
        ]
    )
    assert ranges((await both.state()).rows) == [(0, 4), (4, 5)]


@in_loop
async def test_rows_merged_through_the_cache_are_read_from_it():
    both = Both()
    await put(both.storage, *turns(4), commit(merge=[row(0, 4, data=b"together")]))
    assert (await both.state(both.opened())).rows == (row(0, 4, data=b"together"),)


@in_loop
async def test_a_fork_and_its_source_are_read_correctly_while_both_go_on():
    both = Both()
    await put(both.storage, *turns(2), commit("f", fork=fork_of("t", "c1")))
    await put(both.storage, *turns(1, first=2))
    await put(both.storage, commit("f", values=row(2, data=b"other"), checkpoint=checkpoint("x", covers=[(0, 3)])))
    for _ in range(2):
        page = await both.storage.checkpoints(CheckpointQuery(thread_id="f", user=ANY_USER, detail="state"))
        assert [each.data for each in page.rows] == [b"turn 0", b"turn 1", b"other"]
    assert [each.data for each in (await both.state()).rows] == [b"turn 0", b"turn 1", b"turn 2"]


@in_loop
async def test_a_thread_that_is_created_again_has_no_rows_of_the_old_one():
    both = Both()
    await put(both.storage, *turns(2))
    # By a process with another hot tier, so the old rows stay here.
    await both.cold.apply([deletion(), commit(values=row(0, data=b"new"), checkpoint=checkpoint("n", covers=[(0, 1)]))])
    assert [each.data for each in (await both.state()).rows] == [b"new"]


@in_loop
async def test_values_that_are_removed_between_two_reads_make_a_whole_read():
    both = Both()
    await both.cold.apply(turns(3))

    async def collected() -> None:
        await both.cold.inner.apply(
            [
                commit(
                    checkpoint=checkpoint("small", covers=[(2, 3)]),
                    remove=Removal(checkpoints=(("", "c0"), ("", "c1"), ("", "c2")), values=((0, 2),)),
                )
            ]
        )

    both.cold.before["values"] = collected
    page = await both.state()
    assert page == await both.truth()
    assert ranges(page.rows) == [(2, 3)]


@in_loop
async def test_a_row_of_a_later_epoch_is_not_used_for_an_earlier_checkpoint():
    both = Both()
    await put(both.storage, *turns(2, size=2))
    before = await both.state()
    # Another process removes a value that is needed here, and caches the rest of its row.
    hollow = row(0, 2, data=b"hollow")
    await both.cold.apply(
        [commit(remove=Removal(checkpoints=(("", "c0"), ("", "c1")), values=((0, 1),)), merge=[hollow])]
    )
    basis = before.basis
    assert basis is not None
    later = [HeldRow(hollow, basis.epoch + 1)]
    await both.kept.apply([deletion()])
    await both.kept.apply([made for made, _ in entries.row_commits("t", basis.incarnation, later, commit().at)])
    found = await both.storage.hot.lookup("t", basis, [(0, 2)])
    assert found is not None
    assert found.rows == []
    assert found.missing == [(0, 2)]
    found = await both.storage.hot.lookup("t", replace(basis, epoch=basis.epoch + 1), [(0, 2)])
    assert found is not None
    assert [each.row for each in found.rows] == [hollow]


# Cached rows and their cost


@in_loop
async def test_the_cost_of_a_commit_does_not_depend_on_the_size_of_the_thread():
    both = Both()
    made = [
        commit(
            values=row(number, data=bytes(1000)),
            checkpoint=checkpoint(f"c{number}", covers=[(0, number + 1)]),
        )
        for number in range(300)
    ]
    await put(both.storage, *made)
    sent = [len(each.checkpoint.body) for each in both.hot.commits if each.checkpoint]
    assert len(sent) == 300
    assert max(sent) < 1100
    assert (await both.status()).writes == 300


@in_loop
async def test_readers_merge_small_entries_and_remove_superfluous_ones():
    both = Both()
    await put(both.storage, *turns(100))
    assert len(await both.entries()) == 100
    assert await both.state() == await both.truth()
    assert len(await both.entries()) == 1
    await put(both.storage, *turns(40, first=100), commit(merge=[row(100, 40, data=b"together")]))
    assert await both.state() == await both.truth()
    assert len(await both.entries()) == 1
    assert await both.state() == await both.truth()
    assert (await both.status()).hits == 3


@in_loop
async def test_a_large_entry_is_not_rewritten():
    both = Both()
    large = commit(values=row(0, data=bytes(100_000)), checkpoint=checkpoint("c", covers=[(0, 1)]))
    await put(both.storage, large, *turns(50, first=1))
    before = {each.checkpoint_id for each in await both.entries()}
    await both.state()
    after = {each.checkpoint_id for each in await both.entries()}
    assert len(after) == 2
    assert len(after & before) == 1


@pytest.mark.parametrize("count", [entries.BLOCK + 1, 3 * entries.BLOCK])
@in_loop
async def test_a_row_that_reaches_into_other_blocks_is_found_from_there(count: int):
    both = Both()
    await put(both.storage, commit(values=row(0, 5)))
    wide = row(5, count)
    await put(both.storage, commit(values=wide))
    await put(both.storage, commit(checkpoint=checkpoint("end", covers=[(count, count + 5)])))
    assert (await both.state(both.opened())).rows == (wide,)
    assert both.cold.asked == ["body"]
    stored = [len(each.body) for each in await both.entries()]
    assert sum(stored) < len(wide.data) + len(wide.digests) + 1000


@in_loop
async def test_a_state_in_too_many_blocks_is_read_from_the_cold_storage():
    both = Both()
    await put(both.storage, *turns(1), commit(checkpoint=checkpoint("all", covers=[(0, 1 << 40)])))
    assert await both.state() == await both.truth()
    assert both.cold.asked == ["body", "state"]


@in_loop
async def test_removing_a_thread_its_state_or_values_drops_it_from_the_hot_tier():
    for removal in (Removal(thread=True), Removal(state=True), Removal(values=((0, 1),))):
        both = Both()
        await put(both.storage, *turns(2))
        assert await both.threads() == ["t"]
        await put(both.storage, commit(remove=removal))
        assert await both.threads() == []
    both = Both()
    await put(both.storage, *turns(2), commit(remove=Removal(checkpoints=(("", "c0"),))))
    assert await both.threads() == ["t"]


@in_loop
async def test_rows_in_the_same_commit_as_a_removal_are_cached():
    both = Both()
    await put(both.storage, *turns(2))
    again = commit(remove=Removal(state=True), values=row(2), checkpoint=checkpoint("n", covers=[(2, 3)]))
    await put(both.storage, again)
    assert (await both.state()).rows == (row(2),)
    assert both.cold.asked == ["body"]


@in_loop
async def test_a_refused_commit_does_not_reach_the_hot_tier():
    both = Both()
    await put(both.storage, *turns(1))
    (refused,) = await both.storage.apply([commit(values=row(7))])
    assert isinstance(refused, ClewError)
    assert len(both.hot.commits) == 1


@in_loop
async def test_damaged_rows_of_the_cold_storage_are_not_cached():
    both = Both()
    both.storage = both.opened(intact=lambda data: data != b"turn 1")
    await both.cold.apply(turns(3))
    for _ in range(2):
        assert await both.state() == await both.truth()
    assert both.cold.asked == ["body", "values", "body", "values"]


@in_loop
async def test_the_least_recently_used_threads_are_evicted():
    clock = FakeClock()
    both = Both(max_threads=3, touch_every=1, clock=clock)
    for number in range(5):
        clock.advance(1)
        await put(both.storage, *turns(1, thread_id="t" if number == 0 else f"t{number}"))
        clock.advance(1)
        await both.state()
    assert await both.threads() == ["t", "t4", "t3"]
    assert (await both.status()).evicted == 2


@in_loop
async def test_sweeps_are_rare():
    both = Both(max_threads=160)
    listed = 0
    threads = both.kept.threads

    async def counted(query: ThreadQuery) -> Any:
        nonlocal listed
        listed += 1
        return await threads(query)

    both.kept.threads = counted  # type: ignore[method-assign]
    for number in range(400):
        await put(both.storage, *turns(1, thread_id=f"t{number}"))
        assert len(both.kept._threads) <= 160 + 160 / 16 + 1
    assert listed <= 400 / 10


@in_loop
async def test_threads_that_were_not_used_for_the_ttl_are_evicted():
    clock = FakeClock()
    both = Both(ttl=160, touch_every=20, clock=clock)
    await put(both.storage, *turns(1), *turns(1, thread_id="other"))
    for _ in range(10):
        clock.advance(30)
        await both.state()
    assert await both.threads() == ["t"]
    assert (await both.status()).evicted == 1


# Coverage


def held(*spans: tuple[int, int]) -> list[HeldRow]:
    return [HeldRow(row(first, end - first), 0) for first, end in spans]


@pytest.mark.parametrize(
    ("spans", "chosen"),
    [
        ([], []),
        ([(0, 2), (2, 4)], [(0, 2), (2, 4)]),
        ([(2, 4), (0, 2), (0, 4)], [(0, 4)]),
        ([(0, 1), (5, 9), (6, 7), (5, 6), (1, 2)], [(0, 1), (1, 2), (5, 9)]),
        ([(0, 2), (0, 2)], [(0, 2)]),
        ([(0, 2), (1, 3)], None),
    ],
)
def test_the_largest_rows_are_chosen(spans, chosen):
    found = largest(held(*spans))
    assert (None if found is None else ranges([each.row for each in found])) == chosen


@pytest.mark.parametrize(
    ("spans", "asked", "needed", "lacking"),
    [
        ([], [(0, 3)], [], [(0, 3)]),
        ([(0, 3)], [(0, 3)], [(0, 3)], []),
        ([(0, 3), (3, 5)], [(1, 2), (4, 9)], [(0, 3), (3, 5)], [(5, 9)]),
        ([(2, 4), (6, 8)], [(0, 10)], [(2, 4), (6, 8)], [(0, 2), (4, 6), (8, 10)]),
        ([(0, 10)], [(1, 2), (3, 4), (9, 12)], [(0, 10)], [(10, 12)]),
        ([(5, 6), (20, 30)], [(0, 5), (6, 20)], [], [(0, 5), (6, 20)]),
    ],
)
def test_overlapping_rows_and_missing_ranges(spans, asked, needed, lacking):
    rows = [each.row for each in held(*spans)]
    assert ranges(overlapping(rows, asked)) == needed
    assert missing(rows, asked) == lacking

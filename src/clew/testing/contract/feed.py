"""The feed: what each commit changed, in order, for watchers."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from msgspec.structs import replace

from clew.model.commit import Removal
from clew.model.config import ANY_USER
from clew.model.feed import FeedEntry, FeedPage, FeedParts, FeedQuery
from clew.testing.build import attachment, checkpoint, commit, deletion, fields, fork_of, later, message, row
from clew.testing.contract.base import ContractPart, chain, full_commit
from clew.testing.driver import DrivenStorage

_HANGS = 60.0
"""Seconds after which a test that waits has failed."""


def now(store: DrivenStorage) -> str:
    """Return the current position."""
    return store.feed().position


def since(store: DrivenStorage, position: str) -> list[FeedEntry]:
    """Return all entries after `position`, page by page."""
    found: list[FeedEntry] = []
    while True:
        page = store.feed(after=position)
        assert not page.gap
        found += page.entries
        position = page.position
        if not page.more:
            return found


class FeedContract(ContractPart):
    def test_the_feed_begins_with_the_position_of_now(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        page = store.feed()
        assert page == FeedPage(position=page.position)
        assert store.feed(after=page.position).entries == ()

    def test_the_feed_tells_what_each_commit_brought(self, store: DrivenStorage) -> None:
        position = now(store)
        store.apply(full_commit(user="ana"))
        store.apply(commit(user="ana", checkpoint=checkpoint("c2")))
        store.apply(commit(user="ana", checkpoint=checkpoint("s1", namespace="sub")))
        store.apply(commit(user="ana", messages=[message("m2"), message("m1", "again")]))
        store.apply(commit(user="ana", thread=fields("other", user_id="ana")))
        first, *_ = found = since(store, position)
        assert [each.parts for each in found] == [
            FeedParts(checkpoint=("", "c1"), messages=("m1",), described=True),
            FeedParts(checkpoint=("", "c2")),
            FeedParts(checkpoint=("sub", "s1")),
            FeedParts(messages=("m2", "m1")),
            FeedParts(described=True),
        ]
        assert {(each.thread_id, each.owner, each.incarnation) for each in found} == {("t", "ana", first.incarnation)}
        assert [each.sequence for each in found] == [1, 2, 3, 4, 5]

    def test_the_next_saves_of_a_writer_who_knows_the_thread_are_in_the_feed(self, store: DrivenStorage) -> None:
        """These are the most frequent commits, for which a storage may have a faster path."""
        basis = store.apply(commit(commit_id="c0", user="ana", values=row(0), checkpoint=checkpoint("c0"))).basis
        position = now(store)
        for number in range(1, 4):
            assert basis is not None
            new, values = checkpoint(f"c{number}"), row(basis.next_value)
            saved = commit(commit_id=f"c{number}", user="ana", basis=basis, values=values, checkpoint=new)
            basis = store.apply(saved).basis
        found = since(store, position)
        assert [each.parts for each in found] == [FeedParts(checkpoint=("", f"c{number}")) for number in range(1, 4)]
        assert [(each.thread_id, each.owner, each.sequence) for each in found] == [("t", "ana", at) for at in (2, 3, 4)]

    def test_a_checkpoint_that_is_replaced_is_in_the_feed_again(self, store: DrivenStorage) -> None:
        store.apply(commit(checkpoint=checkpoint("c1")))
        position = now(store)
        store.apply(commit(checkpoint=checkpoint("c1", body=b"other")))
        assert [each.parts.checkpoint for each in since(store, position)] == [("", "c1")]

    def test_removals_are_in_the_feed_with_their_ids(self, store: DrivenStorage) -> None:
        store.apply_all(full_commit(), *chain(4)[1:])
        position = now(store)
        store.apply(commit(remove=Removal(checkpoints=(("", "c1"), ("", "c2")), messages=("m1",))))
        store.apply(commit(remove=Removal(state=True)))
        named, cleared = since(store, position)
        assert named.parts == FeedParts(gone_checkpoints=(("", "c1"), ("", "c2")), gone_messages=("m1",))
        assert cleared.parts == FeedParts(cleared=True)

    def test_a_deletion_is_in_the_feed(self, store: DrivenStorage) -> None:
        store.apply(full_commit(user="ana"))
        position = now(store)
        store.apply(deletion(user="ana"))
        (entry,) = since(store, position)
        assert (entry.thread_id, entry.owner, entry.parts) == ("t", "ana", FeedParts(deleted=True))

    def test_a_thread_that_is_begun_anew_has_another_incarnation_in_the_feed(self, store: DrivenStorage) -> None:
        position = now(store)
        store.apply_all(commit(checkpoint=checkpoint("c1")), deletion(), commit(checkpoint=checkpoint("c2")))
        store.apply(commit(remove=Removal(thread=True), checkpoint=checkpoint("c3")))
        first, gone, second, third = since(store, position)
        assert first.incarnation == gone.incarnation
        assert len({first.incarnation, second.incarnation, third.incarnation}) == 3
        assert third.parts == FeedParts(checkpoint=("", "c3"), deleted=True)
        assert [first.sequence, second.sequence, third.sequence] == [1, 1, 1]

    def test_a_fork_is_in_the_feed(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        position = now(store)
        store.apply(commit("fork", fork=fork_of("t")))
        (entry,) = since(store, position)
        assert (entry.thread_id, entry.parts) == ("fork", FeedParts(checkpoint=("", "copy"), described=True))

    def test_a_change_of_owner_names_the_former_one(self, store: DrivenStorage) -> None:
        store.apply(full_commit(user="ana"))
        position = now(store)
        store.apply(commit(user=ANY_USER, thread=fields(user_id="ben")))
        store.apply(commit(user=ANY_USER, thread=fields(user_id=None)))
        store.apply(commit(user=ANY_USER, thread=fields(user_id="ben")))
        found = since(store, position)
        assert [(each.owner, each.parts.former) for each in found] == [("ben", "+ana"), (None, "+ben"), ("ben", "-")]

    def test_a_thread_that_another_user_begins_anew_names_the_former_owner(self, store: DrivenStorage) -> None:
        store.apply(full_commit(user="ana"))
        position = now(store)
        gone, given = Removal(thread=True), fields(user_id="ben")
        store.apply(commit(user=ANY_USER, remove=gone, checkpoint=checkpoint("c1"), thread=given))
        (entry,) = since(store, position)
        assert (entry.owner, entry.parts.former, entry.parts.deleted) == ("ben", "+ana", True)

    def test_the_feed_leaves_out_what_nobody_sees(self, store: DrivenStorage) -> None:
        store.apply_all(commit(values=row(0)), commit(values=row(1)))
        position = now(store)
        basis = store.values().basis
        store.apply(commit(basis=basis, merge=[row(0, 2)]))
        store.apply(commit(attachments=[attachment("c1", "k")]))
        store.apply(commit(remove=Removal(messages=("unknown",))))
        store.apply(deletion("unknown"))
        assert since(store, position) == []

    def test_a_repeated_commit_is_in_the_feed_once(self, store: DrivenStorage) -> None:
        position = now(store)
        once = commit(checkpoint=checkpoint("c1"))
        store.apply_all(once, once)
        assert len(since(store, position)) == 1

    def test_a_refused_commit_is_not_in_the_feed(self, store: DrivenStorage) -> None:
        store.apply(full_commit(user="ana"))
        position = now(store)
        store.outcomes(commit(user="ben", checkpoint=checkpoint("c2")), commit(user="ana", messages=[message("m2")]))
        assert [each.parts for each in since(store, position)] == [FeedParts(messages=("m2",))]

    def test_clocks_do_not_order_the_feed(self, store: DrivenStorage) -> None:
        position = now(store)
        for number, seconds in enumerate((50, 10, 90, -1000)):
            store.apply(commit(f"t{number % 2}", at=later(seconds), checkpoint=checkpoint(f"c{number}")))
        named = [each.parts.checkpoint for each in since(store, position)]
        assert named == [("", "c0"), ("", "c1"), ("", "c2"), ("", "c3")]

    def test_the_feed_goes_on_from_each_position(self, store: DrivenStorage) -> None:
        position = now(store)
        for number in range(12):
            store.apply(commit(f"t{number % 3}", checkpoint=checkpoint(f"c{number}")))
        found = since(store, position)
        assert len(found) == 12
        for number, entry in enumerate(found):
            assert [each.parts for each in since(store, entry.position)] == [each.parts for each in found[number + 1 :]]

    def test_the_feed_comes_in_pages(self, store: DrivenStorage) -> None:
        position = now(store)
        store.apply_all(*chain(7))
        found: list[FeedEntry] = []
        sizes = []
        while True:
            page = store.feed(after=position, limit=3)
            found += page.entries
            sizes.append(len(page.entries))
            position = page.position
            if not page.more:
                break
        assert [each.parts.checkpoint for each in found] == [("", f"c{number}") for number in range(1, 8)]
        assert max(sizes) <= 3

    def test_the_feed_ends_at_a_later_position(self, store: DrivenStorage) -> None:
        start = now(store)
        store.apply_all(*chain(3))
        middle = now(store)
        store.apply_all(*chain(5)[3:])
        first = store.feed(after=start, until=middle)
        assert [each.sequence for each in first.entries] == [1, 2, 3]
        assert [each.sequence for each in since(store, first.position)] == [4, 5]
        assert store.feed(after=first.entries[1].position, until=middle).entries == first.entries[2:]

    @pytest.mark.parametrize("position", ["", "nonsense", "0-0", "a.b.c", "9" * 60, "x.1"])
    def test_an_unknown_position_is_a_gap(self, store: DrivenStorage, position: str) -> None:
        store.apply(full_commit())
        page = store.feed(after=position)
        assert (page.gap, page.entries) == (True, ())
        store.apply(commit(checkpoint=checkpoint("c2")))
        assert [each.parts.checkpoint for each in since(store, page.position)] == [("", "c2")]

    def test_concurrent_commits_are_in_the_feed_once_and_in_order(self, store: DrivenStorage) -> None:
        position = now(store)
        seen: list[FeedEntry] = []

        async def write(number: int) -> None:
            for step in range(6):
                await store.storage.apply([commit(f"t{number}", checkpoint=checkpoint(f"c{number}-{step}"))])

        async def read() -> None:
            after = position
            while len(seen) < 48:
                page = await store.storage.feed(FeedQuery(after=after, limit=5, wait=1.0))
                assert not page.gap
                seen.extend(page.entries)
                after = page.position

        async def both() -> None:
            async with asyncio.timeout(_HANGS):
                await asyncio.gather(read(), *(write(number) for number in range(8)))

        store.run(both())
        for number in range(8):
            mine = [each for each in seen if each.thread_id == f"t{number}"]
            assert [each.sequence for each in mine] == [1, 2, 3, 4, 5, 6]

    def test_a_reader_that_waits_gets_the_next_entry(self, store: DrivenStorage) -> None:
        position = now(store)

        async def waiting() -> FeedPage:
            after = position
            async with asyncio.timeout(_HANGS):
                while True:
                    page = await store.storage.feed(FeedQuery(after=after, wait=5.0))
                    if page.entries:
                        return page
                    after = page.position

        async def both() -> FeedPage:
            reader = asyncio.ensure_future(waiting())
            await asyncio.sleep(0)
            await store.storage.apply([commit(checkpoint=checkpoint("c1"))])
            return await reader

        assert [each.parts.checkpoint for each in store.run(both()).entries] == [("", "c1")]

    def test_a_reader_that_waits_in_vain_gets_an_empty_page(self, store: DrivenStorage) -> None:
        position = now(store)
        page = store.feed(after=position, wait=0.01)
        assert (page.entries, page.gap) == ((), False)

    def test_watching_changes_nothing_else(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        before = store.everything()
        now(store)
        assert store.everything() == before

    def test_many_readers_get_the_same(self, store: DrivenStorage) -> None:
        position = now(store)
        store.apply_all(*chain(3))
        pages = store.at_once([partial(store.storage.feed, FeedQuery(after=position)) for _ in range(8)])
        # Positions may differ: they can also say which transactions of others were running.
        first, *others = [[replace(entry, position="") for entry in page.entries] for page in pages]
        assert len(first) == 3
        assert all(other == first for other in others)
        assert all(store.feed(after=page.position).entries == () for page in pages)

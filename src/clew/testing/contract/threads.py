"""Threads: descriptions, order, counts and totals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from typing import Any

from msgspec.structs import replace

from clew.model.commit import Removal
from clew.model.config import ANY_USER
from clew.model.queries import StorageStats, Totals
from clew.model.records import MOST_TOKENS
from clew.testing.build import (
    attachment,
    checkpoint,
    commit,
    deletion,
    fields,
    fork_of,
    labels_of,
    later,
    message,
    messages,
    row,
)
from clew.testing.contract.base import ContractPart, Stored, chain, full_commit
from clew.testing.driver import DrivenStorage


class ThreadContract(ContractPart):
    def test_a_thread_comes_back_as_it_was_described(self, store: DrivenStorage) -> None:
        described = fields("a Name", data=b"\0data", run_id="r1", user_id="ann")
        store.apply(commit(user="ann", thread=described, at=later(1)))
        found = store.known()
        assert (found.thread_id, found.user_id, found.text, found.data, found.run_id) == (
            "t", "ann", "a name", b"\0data", "r1",
        )  # fmt: skip
        assert (found.created_at, found.updated_at, found.forked_from, found.head) == (later(1), later(1), None, None)
        assert (found.checkpoint_count, found.message_count, found.size) == (0, 0, 0)

    def test_any_commit_makes_a_thread(self, store: DrivenStorage) -> None:
        store.apply(commit("a", messages=[message("m1")]))
        store.apply(commit("b", checkpoint=checkpoint("c1")))
        store.apply(commit("c", attachments=[attachment("c1", "k")]))
        store.apply(commit("d", values=row(0)))
        store.apply(commit("e", thread=fields()))
        assert sorted(store.thread_ids()) == ["a", "b", "c", "d", "e"]
        assert (store.known("a").text, store.known("a").data, store.known("a").run_id) == ("", b"", None)

    def test_the_fields_are_replaced_as_a_whole(self, store: DrivenStorage) -> None:
        store.apply(commit(thread=fields("old", data=b"old", run_id="r1")))
        store.apply(commit(thread=fields("", data=b"", run_id=None)))
        found = store.known()
        assert (found.text, found.data, found.run_id) == ("", b"", None)

    def test_other_commits_leave_the_fields_alone(self, store: DrivenStorage) -> None:
        store.apply(commit(thread=fields("name", run_id="r1")))
        store.apply(commit(checkpoint=checkpoint("c1", run_id="r2"), messages=[message("m1", run_id="r3")]))
        assert (store.known().text, store.known().run_id) == ("name", "r1")

    def test_a_thread_remembers_when_it_was_made_and_last_written(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=[message("m1")], at=later(1)))
        for seconds, removal in ((2, None), (5, Removal(messages=("m1",)))):
            store.apply(commit(messages=[] if removal else [message("m2")], remove=removal, at=later(seconds)))
            assert (store.known().created_at, store.known().updated_at) == (later(1), later(seconds))

    def test_the_time_of_the_last_write_never_goes_backwards(self, store: DrivenStorage) -> None:
        store.apply_all(full_commit(at=later(10)), commit(messages=[message("m2")], at=later(-99)))
        assert (store.known().created_at, store.known().updated_at) == (later(10), later(10))

    def test_a_repeated_commit_is_not_activity(self, store: DrivenStorage) -> None:
        made = full_commit(at=later(1))
        store.apply_all(made, replace(made, at=later(9)))
        assert store.known().updated_at == later(1)

    def test_threads_come_with_the_last_active_first(self, store: DrivenStorage) -> None:
        for seconds, name in enumerate("abcda"):
            store.apply(commit(name, messages=[message(f"m{seconds}")], at=later(seconds)))
        assert store.thread_ids() == ["a", "d", "c", "b"]
        store.apply(commit("b", remove=Removal(messages=("m1",)), at=later(9)))
        assert store.thread_ids() == ["b", "a", "d", "c"]

    def test_of_equally_active_threads_the_later_made_comes_first(self, store: DrivenStorage) -> None:
        names = ["m", "z", "a", "10", "9"]
        store.apply_all(*(full_commit(name) for name in names))
        store.apply(commit("a", messages=[message("m2")]))
        assert store.thread_ids() == names[::-1]
        store.apply_all(deletion("z"), full_commit("z"))
        assert store.thread_ids() == ["z", "9", "10", "a", "m"]

    def test_threads_are_read_in_pages(self, store: DrivenStorage) -> None:
        store.apply_all(*(full_commit(name, at=later(seconds)) for seconds, name in enumerate("abcde")))
        for offset, limit in product((0, 1, 3, 4, 5), (None, 0, 1, 2, 9)):
            expected = list("edcba")[offset:][:limit]
            assert store.thread_ids(offset=offset, limit=limit) == expected
            assert store.thread_ids(offset=offset, limit=limit, search="name") == expected
            assert store.thread_ids(offset=offset, limit=limit, user=None) == expected

    def test_threads_are_searched_by_their_text(self, store: DrivenStorage) -> None:
        for name in ("Garden plans", "Tax return", "Garden chairs"):
            store.apply(commit(name, thread=fields(name)))
        assert sorted(store.thread_ids(search="garden")) == ["Garden chairs", "Garden plans"]
        assert store.thread_ids(search="garden", offset=1, limit=1) == ["Garden plans"]
        assert store.thread_ids(thread_id="Tax return", search="tax") == ["Tax return"]
        assert store.thread_ids(thread_id="Tax return", search="garden") == []

    def test_threads_are_read_after_a_place_in_the_order(self, store: DrivenStorage) -> None:
        # Two are equally active.
        for name, seconds in (("a", 0), ("b", 1), ("c", 1), ("d", 3)):
            store.apply(commit(name, user="ann", thread=fields("name", user_id="ann"), at=later(seconds)))
        store.apply(commit("other", user="bob", messages=messages("x"), at=later(0.5)))
        everything = ["d", "c", "b", "a"]
        for place, name in enumerate(everything):
            record = store.known(name)
            for limit, search in product((None, 1), (None, "name")):
                asked = {"before": (record.updated_at, name), "limit": limit, "search": search}
                assert store.thread_ids(user="ann", **asked) == everything[place + 1 :][:limit]
        assert store.thread_ids(before=(later(1), "b")) == ["other", "a"]
        assert store.thread_ids(before=(later(1), "gone")) == ["c", "b", "other", "a"]
        assert store.thread_ids(before=(later(2), "c"), offset=1) == ["b", "other", "a"]
        assert store.thread_ids(before=(later(-1), "a")) == []

    def test_a_place_in_the_order_stays_while_others_write(self, store: DrivenStorage) -> None:
        store.apply_all(*(full_commit(name, at=later(seconds)) for seconds, name in enumerate("abcde")))
        assert store.thread_ids(limit=2) == ["e", "d"]
        store.apply_all(
            commit("d", messages=[message("new")], at=later(9)), commit("f", messages=[message("m")], at=later(10))
        )
        assert store.thread_ids(before=(later(3), "d"), limit=2) == ["c", "b"]
        assert store.thread_ids(before=(later(1), "b")) == ["a"]

    def test_threads_are_found_by_all_of_some_labels(self, store: DrivenStorage) -> None:
        store.apply(commit("a", user="ann", thread=fields("A name", user_id="ann", labels=["red", "big"]), at=later(1)))
        store.apply(commit("b", user="ann", thread=fields("b", user_id="ann", labels=["red"]), at=later(2)))
        store.apply(commit("c", user="bob", thread=fields("c", user_id="bob", labels=["red", "big"]), at=later(3)))
        store.apply(full_commit("d", at=later(4)))
        assert store.thread_ids(labels=labels_of("red")) == ["c", "b", "a"]
        assert store.thread_ids(labels=labels_of("red", "big")) == ["c", "a"]
        assert store.thread_ids(labels=labels_of("red"), user="ann") == ["b", "a"]
        assert store.thread_ids(labels=labels_of("red"), user="ann", limit=1) == ["b"]
        assert store.thread_ids(labels=labels_of("red"), user="ann", offset=1) == ["a"]
        assert store.thread_ids(labels=labels_of("red"), user="ann", before=(later(2), "b")) == ["a"]
        assert store.thread_ids(labels=labels_of("red"), search="name") == ["a"]
        assert store.thread_ids(labels=labels_of("red", "green")) == store.thread_ids(labels=labels_of("green")) == []
        assert store.thread_ids(thread_id="a", labels=labels_of("red")) == ["a"]
        assert store.thread_ids(thread_id="a", labels=labels_of("green")) == []
        assert store.thread_ids(labels=labels_of("red"), user=None) == []
        assert store.known("a").labels == labels_of("red", "big")

    def test_labels_are_replaced_with_the_description_and_go_with_the_thread(self, store: DrivenStorage) -> None:
        store.apply(commit(thread=fields(labels=["red", "big"])))
        store.apply(commit(checkpoint=checkpoint("c1"), messages=[message("m1")]))
        assert store.known().labels == labels_of("red", "big")
        store.apply(commit("f", fork=fork_of("t", "c1")))
        assert store.thread_ids(labels=labels_of("red", "big"), thread_id="f") == ["f"]
        store.apply(commit(thread=fields(labels=["red", "new"])))
        assert store.thread_ids(labels=labels_of("big")) == ["f"]
        assert store.thread_ids(labels=labels_of("new")) == ["t"]
        store.apply(deletion("t"))
        store.apply(full_commit("t"))
        assert (store.known().labels, store.thread_ids(labels=labels_of("red"))) == ((), ["f"])

    def test_a_thread_that_is_not_there_is_not_found(self, store: DrivenStorage) -> None:
        assert store.thread("nowhere") is None
        assert store.threads() == []

    def test_a_thread_tells_its_head_without_the_state(self, store: DrivenStorage) -> None:
        store.apply_all(full_commit(), commit(checkpoint=checkpoint("c2", covers=[(0, 3)]), at=later(3)))
        assert store.known().head == replace(store.checkpoint("c2"), body=b"", covers=())

    def test_the_head_of_a_thread_is_in_the_main_namespace_if_there_is_one(self, store: DrivenStorage) -> None:
        def head() -> tuple[str, str]:
            found = store.known().head
            assert found is not None
            return found.namespace, found.checkpoint_id

        store.apply(commit(checkpoint=checkpoint("c1", namespace="b")))
        store.apply(commit(checkpoint=checkpoint("c2", namespace="a")))
        assert head() == ("a", "c2")
        store.apply(commit(checkpoint=checkpoint("c3")))
        store.apply(commit(checkpoint=checkpoint("c4", namespace="b")))
        assert head() == ("", "c3")
        store.apply(commit(remove=Removal(checkpoints=(("", "c3"),))))
        assert head() == ("b", "c4")

    def test_counts_are_of_what_is_there(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(3), *chain(2, namespace="sub"), commit(messages=messages("a", "b", "c")))
        store.apply(
            commit(remove=Removal(checkpoints=(("", "c1"),), messages=("m0",)), messages=[message("m1", "again")])
        )
        assert (store.known().checkpoint_count, store.known().message_count) == (4, 2)

    def test_the_size_is_that_of_the_stored_bytes(self, store: DrivenStorage) -> None:
        kept: dict[str, Stored] = {}

        def is_stored(**parts: Stored | None) -> bool:
            """Return whether the thread's size is right after `parts` are added and removed."""
            kept.update({name: part for name, part in parts.items() if part is not None})
            for name in [name for name, part in parts.items() if part is None]:
                del kept[name]
            return store.known().size == self.stored("t", *kept.values())

        made = checkpoint("c1", metadata=b"12345", body=b"123", size=999)
        store.apply(commit(checkpoint=made))
        assert is_stored(checkpoint=made)
        store.apply(commit(values=row(0, 2, data=b"123456")))
        assert is_stored(values=row(0, 2, data=b"123456"))
        store.apply(commit(messages=[message("m1", "né", data=b"1234")]))
        assert is_stored(message=message("m1", "né", data=b"1234"))
        store.apply(commit(attachments=[attachment("c1", "key", b"12345")]))
        assert is_stored(attachment=attachment("c1", "key", b"12345"))
        store.apply(commit(thread=fields("name", data=b"not counted")))
        assert is_stored()
        made = checkpoint("c1", metadata=b"", body=b"1234")
        store.apply(commit(checkpoint=made))
        assert is_stored(checkpoint=made)
        shorter: dict[str, Any] = {"message": message("m1", "", data=b"1"), "attachment": attachment("c1", "key", b"")}
        store.apply(commit(messages=[shorter["message"]], attachments=[shorter["attachment"]]))
        assert is_stored(**shorter)
        store.apply_all(commit(values=row(2, data=b"1")), commit(merge=[row(0, 2, data=b"12")]))
        assert is_stored(values=row(0, 2, data=b"12"), more=row(2, data=b"1"))
        store.apply(commit(remove=Removal(values=((0, 2),))))
        assert is_stored(values=None)
        assert store.stats().by_thread["t"].bytes == store.known().size
        store.apply(commit(remove=Removal(state=True)))
        assert is_stored(checkpoint=None, attachment=None, more=None)
        store.apply(commit(remove=Removal(messages=("m1",))))
        assert store.known().size == 0

    def test_removing_a_checkpoint_gives_its_bytes_back(self, store: DrivenStorage) -> None:
        store.apply(commit(checkpoint=checkpoint("c1"), attachments=[attachment("c1", "k")]))
        store.apply(commit(remove=Removal(checkpoints=(("", "c1"),))))
        assert store.known().size == 0

    def test_an_empty_store_has_no_totals(self, store: DrivenStorage) -> None:
        assert replace(store.stats(), stored_bytes=0) == StorageStats()

    def test_totals_are_by_thread(self, store: DrivenStorage) -> None:
        store.apply_all(
            *chain(2), *chain(1, namespace="sub"), commit(messages=[message("m1", tool_calls=2), message("m2")])
        )
        store.apply(commit("u", thread=fields()))
        assert store.stats().by_thread == {
            "t": Totals(messages=2, tool_calls=2, checkpoints=3, bytes=store.known().size),
            "u": Totals(),
        }
        assert store.stats().stored_bytes >= 0

    def test_tokens_are_summed_by_thread_and_by_day(self, store: DrivenStorage) -> None:
        written = [message("m1", tokens=(10, 2)), message("m2"), message("m3", created_at=later(86_400), tokens=(5, 1))]
        store.apply(commit(user="ann", messages=written))
        store.apply(commit("u", user="bob", messages=[message("m1", tokens=(100, 0))]))
        store.apply(commit(user="ann", checkpoint=checkpoint("c1"), messages=[message("m2", tokens=(MOST_TOKENS, 3))]))

        def tokens(totals: Mapping[str, Totals]) -> dict[str, tuple[int, int]]:
            return {name: (total.input_tokens, total.output_tokens) for name, total in totals.items()}

        assert tokens(store.stats("ann").by_thread) == {"t": (MOST_TOKENS + 15, 6)}
        assert tokens(store.stats().by_thread) == {"t": (MOST_TOKENS + 15, 6), "u": (100, 0)}
        assert tokens(store.stats("ann").by_day) == {"2026-01-31": (MOST_TOKENS + 10, 5), "2026-02-01": (5, 1)}
        store.apply(commit(user="ann", remove=Removal(messages=("m2",))))
        assert tokens(store.stats("ann").by_thread) == {"t": (15, 3)}
        store.apply(commit("f", user="ann", fork=fork_of("t", "c1")))
        assert tokens(store.stats("ann").by_thread) == {"t": (15, 3), "f": (15, 3)}
        assert store.stats("ann").by_thread["t"].total_tokens == 18

    def test_totals_are_by_utc_day_of_what_was_made(self, store: DrivenStorage) -> None:
        evening = datetime(2026, 1, 31, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
        old = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
        store.apply(
            commit(at=evening, checkpoint=checkpoint("c1"), messages=[message("m1", tool_calls=1, created_at=old)])
        )
        store.apply(commit("u", at=later(0), checkpoint=checkpoint("c1"), messages=[message("m1", created_at=evening)]))
        by_day = {day: dataclasses.replace(total, bytes=0) for day, total in store.stats().by_day.items()}
        assert by_day == {
            "1969-12-31": Totals(messages=1, tool_calls=1),
            "2026-01-31": Totals(checkpoints=1),
            "2026-02-01": Totals(checkpoints=1, messages=1),
        }

    def test_totals_follow_what_is_removed(self, store: DrivenStorage) -> None:
        store.apply_all(
            full_commit(), full_commit("u"), deletion("u"), commit(remove=Removal(state=True, messages=("m1",)))
        )
        assert store.stats().by_thread == {"t": Totals()}
        assert store.stats().by_day == {}

    def test_totals_are_of_the_asked_user(self, store: DrivenStorage) -> None:
        for name in ("ann", "bob", None):
            store.apply(full_commit(f"of {name}", user=name))
        assert list(store.stats("ann").by_thread) == ["of ann"]
        assert list(store.stats(None).by_thread) == ["of None"]
        assert sorted(store.stats(ANY_USER).by_thread) == ["of None", "of ann", "of bob"]
        assert [total.messages for total in store.stats("ann").by_day.values()] == [1]
        assert [total.messages for total in store.stats(ANY_USER).by_day.values()] == [3]
        assert (store.stats("eve").by_thread, store.stats("eve").by_day) == ({}, {})

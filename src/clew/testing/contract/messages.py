"""Messages: ordered, replaced in place, read in pages."""

from __future__ import annotations

from itertools import product
from typing import Any

from clew.model.commit import Removal
from clew.model.records import MOST_TOKENS
from clew.testing.build import attachment, checkpoint, commit, later, message, messages
from clew.testing.contract.base import ContractPart
from clew.testing.driver import DrivenStorage


class MessageContract(ContractPart):
    def test_a_message_comes_back_as_it_was_written(self, store: DrivenStorage) -> None:
        written = [
            message("m1", "Héllo\0🧵", tool_calls=3, run_id="r1", created_at=later(0.000001), data=bytes(range(256))),
            message("m2", "", run_id="", data=b""),
            message("m3", "x" * 300_000),
        ]
        store.apply(commit(messages=written))
        assert store.messages() == written

    def test_messages_come_in_the_order_they_were_added(self, store: DrivenStorage) -> None:
        names = ["m", "z", "a", "10", "9", "Z"]
        for number, name in enumerate(names):
            store.apply(
                commit(messages=[message(name, created_at=later(-number)), message(name + "2")], at=later(-number))
            )
        assert store.message_ids() == [each for name in names for each in (name, name + "2")]

    def test_a_known_message_is_replaced_in_its_place(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages("a", "b", "c")))
        new = message("m1", "new", tool_calls=2, run_id="r", created_at=later(5), data=b"new data")
        store.apply(commit(messages=[message("m3", "d"), new]))
        assert store.message_ids() == ["m0", "m1", "m2", "m3"]
        assert store.messages(message_id="m1") == [new]
        assert store.known().message_count == 4

    def test_of_two_with_the_same_id_in_one_commit_the_last_is_kept(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=[message("m1", "first"), message("m2"), message("m1", "second")]))
        assert [(each.message_id, each.text) for each in store.messages()] == [("m1", "second"), ("m2", "hello")]
        assert store.known().message_count == 2

    def test_one_message_can_be_asked_for(self, store: DrivenStorage) -> None:
        store.apply_all(commit(messages=messages("a", "b")), commit("u", messages=messages("other")))
        assert store.messages(message_id="m1") == [message("m1", "b")]
        assert store.messages(message_id="m9") == []
        assert store.messages("u", message_id="m1") == []

    def test_a_thread_that_is_not_there_has_no_messages(self, store: DrivenStorage) -> None:
        assert store.messages("nowhere") == []

    def test_a_thread_without_messages_has_none(self, store: DrivenStorage) -> None:
        store.apply(commit(attachments=[attachment("c1", "k")]))
        assert store.messages() == store.messages(search="") == store.messages(search="x") == []

    def test_messages_are_read_in_pages(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages(*("a text" for _ in range(5)))))
        everything = [f"m{number}" for number in range(5)]
        for offset, limit, search in product((0, 2, 3, 4, 5, 99), (None, 0, 2, 99), (None, "", "text")):
            expected = everything[offset:][:limit]
            assert store.message_ids(offset=offset, limit=limit, search=search) == expected

    def test_pages_lose_no_message_when_all_times_are_equal(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages(*map(str, range(107)))))
        pages = [store.message_ids(offset=offset, limit=10) for offset in range(0, 120, 10)]
        assert [each for page in pages for each in page] == [f"m{number}" for number in range(107)]

    def test_the_newest_messages_come_in_order(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages(*("a text" for _ in range(5)))))
        everything = [f"m{number}" for number in range(5)]
        for offset, limit, search in product((0, 2, 4, 5, 99), (None, 0, 2, 99), (None, "text")):
            expected = everything[::-1][offset:][:limit][::-1]
            assert store.message_ids(offset=offset, limit=limit, search=search, newest=True) == expected

    def test_messages_are_read_before_and_after_another(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages(*("a text" for _ in range(6)))))
        store.apply(commit(remove=Removal(messages=("m3",)), messages=[message("m1", "a new text")]))
        everything = ["m0", "m1", "m2", "m4", "m5"]
        bounds = (None, "m0", "m2", "m5")
        for after, before, limit, search, newest in product(bounds, bounds, (None, 2), (None, "text"), (False, True)):
            start = everything.index(after) + 1 if after else 0
            stop = everything.index(before) if before else None
            page = everything[start:stop]
            expected = page if limit is None else page[-limit:] if newest else page[:limit]
            asked: dict[str, Any] = {
                "after": after,
                "before": before,
                "limit": limit,
                "search": search,
                "newest": newest,
            }
            assert store.message_ids(**asked) == expected

    def test_a_cursor_stays_at_its_message_while_others_are_added_and_removed(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages(*map(str, range(6)))))
        assert store.message_ids(limit=2, newest=True) == ["m4", "m5"]
        store.apply(commit(remove=Removal(messages=("m0", "m3")), messages=[message("m9")]))
        assert store.message_ids(before="m4", limit=2, newest=True) == ["m1", "m2"]
        assert store.message_ids(after="m5") == ["m9"]

    def test_an_unknown_cursor_finds_no_messages(self, store: DrivenStorage) -> None:
        store.apply_all(commit(messages=messages("a", "b")), commit("u", messages=[message("elsewhere")]))
        for name in ("nothing", "elsewhere"):
            assert store.message_ids(after=name) == store.message_ids(before=name) == []
            assert store.message_ids(before=name, newest=True) == store.message_ids(after=name, search="a") == []

    def test_one_message_is_found_within_the_cursors_only(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages("a", "b", "c")))
        assert store.message_ids(message_id="m1", after="m0", before="m2") == ["m1"]
        assert store.message_ids(message_id="m1", after="m1") == store.message_ids(message_id="m1", before="m1") == []

    def test_a_message_keeps_its_tokens(self, store: DrivenStorage) -> None:
        written = [message("m1", tokens=(7, 0)), message("m2", tokens=(0, MOST_TOKENS)), message("m3", tokens=(300, 5))]
        store.apply(commit(messages=written))
        assert store.messages() == written
        assert store.messages(search="hello") == written
        store.apply(commit(messages=[message("m1"), message("m2", tokens=(1, 2))]))
        assert store.messages() == [message("m1"), message("m2", tokens=(1, 2)), written[2]]

    def test_messages_of_two_threads_are_separate(self, store: DrivenStorage) -> None:
        store.apply_all(commit("t", messages=messages("in t")), commit("u", messages=messages("in u")))
        assert [each.text for each in store.messages("t")] == ["in t"]
        assert store.messages("u", search="in t") == []

    def test_a_message_tells_the_sequence_number_at_which_it_was_added(self, store: DrivenStorage) -> None:
        store.apply(commit(checkpoint=checkpoint("c1"), messages=[message("m1", "found")]))
        store.apply(commit(messages=[message("m2", "found")]))
        store.apply(commit(messages=[message("m1", "found, and changed"), message("m3", "found")]))
        assert store.message_sequences() == {"m1": 1, "m2": 2, "m3": 3}
        assert store.message_sequences(search="found") == {"m1": 1, "m2": 2, "m3": 3}
        assert store.message_sequences(message_id="m2") == {"m2": 2}

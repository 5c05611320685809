"""Search across threads: exact, newest first, in pages, and only in the user's own threads."""

from __future__ import annotations

from clew.model.commit import Removal
from clew.model.config import ANY_USER
from clew.model.message import folded
from clew.testing.build import checkpoint, commit, deletion, fields, fork_of, later, message, messages
from clew.testing.contract.base import ContractPart
from clew.testing.contract.search import FOUND, NOT_FOUND
from clew.testing.driver import DrivenStorage


class CrossSearchContract(ContractPart):
    def test_messages_of_all_threads_are_found_newest_first(self, store: DrivenStorage) -> None:
        for seconds, name in ((3, "a"), (1, "b"), (2, "c")):
            said = [message("early", "the plan", created_at=later(seconds)), message("other", "nothing")]
            store.apply(commit(name, messages=[*said, message("late", "a plan", created_at=later(seconds + 5))]))
        newest = ["a/late", "c/late", "b/late", "a/early", "c/early", "b/early"]
        assert store.hits("plan") == newest
        assert store.hits("the plan") == newest[3:]
        assert store.hits("plan", limit=2) == newest[:2]
        assert store.hits("plan", limit=0) == store.hits("plans") == []

    def test_the_order_is_by_time_then_thread_then_message(self, store: DrivenStorage) -> None:
        for name in ("b", "ä", "a", "Z", "東"):
            store.apply(commit(name, messages=[message(each, "same") for each in ("m2", "m10", "m1")]))
        ids = ["m2", "m10", "m1"]
        assert store.hits("same") == [f"{name}/{each}" for name in ("東", "ä", "b", "a", "Z") for each in ids]

    def test_a_found_message_is_whole_and_tells_thread_and_owner(self, store: DrivenStorage) -> None:
        said = message("m1", "hello", tool_calls=2, run_id="r", created_at=later(-7.25), data=b"data")
        store.apply(commit("t", user="ann", messages=[said]))
        (found,) = store.search("ell", user="ann")
        assert (found.thread_id, found.user_id, found.message) == ("t", "ann", said)
        assert found.place == (later(-7.25), "t", "m1")

    def test_pages_lose_and_repeat_nothing(self, store: DrivenStorage) -> None:
        for number in range(12):
            said = [message(f"m{each}", "word", created_at=later(number // 4 + each % 2)) for each in range(3)]
            store.apply(commit(f"t{number}", messages=said))
        everything = store.hits("word")
        assert len(everything) == 36
        for size in (1, 4, 5, 35, 36):
            pages, before = [], None
            while page := store.search("word", limit=size, before=before):
                pages += [f"{each.thread_id}/{each.message.message_id}" for each in page]
                before = page[-1].place
            assert pages == everything

    def test_writes_between_pages_neither_hide_nor_repeat_others(self, store: DrivenStorage) -> None:
        for number in range(6):
            store.apply(commit(f"t{number}", messages=[message("m", "word", created_at=later(number))]))
        first = store.search("word", limit=2)
        assert [each.thread_id for each in first] == ["t5", "t4"]
        store.apply(commit("new", messages=[message("m", "word", created_at=later(9))]))
        store.apply(commit("t2", messages=[message("again", "word", created_at=later(10))], at=later(10)))
        store.apply(deletion("t4"))
        assert store.hits("word", limit=2, before=first[-1].place) == ["t3/m", "t2/m"]

    def test_a_place_need_not_be_that_of_a_message(self, store: DrivenStorage) -> None:
        store.apply(commit("t", messages=[message("m", "word", created_at=later(1))]))
        assert store.hits("word", before=(later(1), "t", "m")) == []
        assert store.hits("word", before=(later(1), "t", "n")) == ["t/m"]
        assert store.hits("word", before=(later(1), "s", "z")) == []
        assert store.hits("word", before=(later(2), "", "")) == ["t/m"]

    def test_users_find_only_messages_of_their_own_threads(self, store: DrivenStorage) -> None:
        for owner in ("ann", "bob", None):
            store.apply(commit(f"of {owner}", user=owner, messages=[message("m", "secret")]))
        assert store.hits("secret", user="ann") == ["of ann/m"]
        assert store.hits("secret", user="eve") == store.hits("secret", user="An") == []
        assert store.hits("secret", user=None) == ["of None/m"]
        assert store.hits("secret", user=ANY_USER) == ["of bob/m", "of ann/m", "of None/m"]

    def test_a_search_follows_the_owner_of_a_thread(self, store: DrivenStorage) -> None:
        store.apply(commit(user="ann", messages=[message("m", "secret")], thread=fields(user_id="ann")))
        store.apply(commit(user=ANY_USER, thread=fields(user_id="bob"), at=later(1)))
        assert store.hits("secret", user="ann") == store.hits("secret", user=None) == []
        assert store.hits("secret", user="bob") == ["t/m"]

    def test_what_is_replaced_or_removed_is_not_found(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages("old words", "old words", "old words")))
        store.apply(commit(messages=[message("m1", "new words", created_at=later(1))]))
        store.apply(commit(remove=Removal(messages=("m2",))))
        assert store.hits("old") == ["t/m0"]
        assert store.hits("new") == ["t/m1"]
        assert store.hits("words") == ["t/m1", "t/m0"]

    def test_a_deleted_thread_is_not_found_and_the_next_one_is(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages("secret words")))
        store.apply(deletion())
        assert store.hits("words") == []
        store.apply(commit(messages=messages("other words")))
        assert store.hits("secret") == []
        assert store.hits("words") == ["t/m0"]

    def test_messages_of_a_fork_are_found_in_both_threads(self, store: DrivenStorage) -> None:
        store.apply(commit(checkpoint=checkpoint("c1"), messages=[message("m", "shared")]))
        store.apply(commit("f", fork=fork_of("t")))
        assert store.hits("shared") == ["t/m", "f/m"]
        store.apply(deletion("t"))
        assert store.hits("shared") == ["f/m"]

    def test_text_is_found_across_threads_by_any_part_of_it_and_by_nothing_else(self, store: DrivenStorage) -> None:
        texts = {f"§{number:02}": text for number, (text, _) in enumerate([*FOUND, *NOT_FOUND])}
        store.apply_all(*(commit(name, messages=[message("m", text)]) for name, text in texts.items()))
        for _, needle in (*FOUND, *NOT_FOUND):
            sought = folded(needle)
            expected = [f"{name}/m" for name, text in sorted(texts.items(), reverse=True) if sought in folded(text)]
            assert store.hits(sought) == expected, needle

    def test_among_many_messages_each_is_found(self, store: DrivenStorage) -> None:
        expect = self.fill(store)
        self.check(store, expect)

    def test_a_store_that_was_reclaimed_finds_the_same(self, store: DrivenStorage) -> None:
        """Some storages bring their index up to date then: before and after, they find the same."""
        expect = self.fill(store)
        store.run(store.storage.reclaim())
        self.check(store, expect)
        expect |= self.fill(store, prefix="later", start=9_000)
        self.check(store, expect)

    def fill(self, store: DrivenStorage, prefix: str = "t", start: int = 0) -> dict[str, str]:
        """Write many messages. Returns their texts by `thread/message`, newest last."""
        texts: dict[str, str] = {}
        for number in range(40):
            said = []
            for each in range(50):
                place = start + 50 * number + each
                rare = f"zebra {place}" if place % 397 == 5 else "horse"
                said.append(message(f"m{each:02}", f"Message {place:05}: {rare} 東京{place}", created_at=later(place)))
                texts[f"{prefix}{number:02}/m{each:02}"] = said[-1].text
            store.apply(commit(f"{prefix}{number:02}", user=["ann", "bob", None][number % 3], messages=said))
        return texts

    def check(self, store: DrivenStorage, texts: dict[str, str]) -> None:
        newest = list(texts)[::-1]
        for needle in ("zebra", "z", "message", "京19", "horse 東京17", "nothing", "%"):
            expected = [each for each in newest if needle in texts[each]]
            assert store.hits(needle) == expected, needle
            assert store.hits(needle, limit=7) == expected[:7], needle
        first = store.search("message", limit=30)
        matching = [each for each in newest if "message" in texts[each]]
        assert store.hits("message", limit=30, before=first[-1].place) == matching[30:60]
        owned = [each for each in newest if "zebra" in texts[each] and int(each.partition("/")[0][-2:]) % 3 == 1]
        assert store.hits("zebra", user="bob") == owned
        assert store.hits("zebra", user="bob", limit=2) == owned[:2]
        changed = newest[len(newest) // 2]
        thread_id, _, message_id = changed.partition("/")
        store.apply(commit(thread_id, user=ANY_USER, messages=[message(message_id, "a quagga", created_at=later(-1))]))
        assert store.hits("quagga") == [changed]
        assert changed not in store.hits("message")
        store.apply(commit(thread_id, user=ANY_USER, remove=Removal(messages=(message_id,))))
        assert store.hits("quagga") == []
        texts.pop(changed)

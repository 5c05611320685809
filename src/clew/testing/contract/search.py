"""Search: a substring of the case-folded text, in any language, alike on every storage."""

from __future__ import annotations

import pytest

from clew.model.commit import Removal
from clew.model.config import ANY_USER
from clew.model.message import folded
from clew.testing.build import checkpoint, commit, deletion, fields, fork_of, later, message, messages
from clew.testing.contract.base import ContractPart
from clew.testing.driver import DrivenStorage

FOUND = [
    ("The Quick Brown Fox", "QUICK"),
    ("The Quick Brown Fox", "k b"),
    ("crème brûlée au café", "CAFÉ"),
    ("cafe\u0301", "café"),
    ("Straße", "STRASSE"),
    ("ΟΔΥΣΣΕΥΣ", "οδυσσευς"),
    ("İstanbul", "i\u0307stanbul"),
    ("Привет, мир", "ПРИВЕТ"),
    ("東京都に行く", "京都"),
    ("東京都に行く", "京"),
    ("你好世界", "世界"),
    ("안녕하세요 여러분", "하세"),
    ("مرحبا بالعالم", "بالع"),
    ("שלום עולם", "עולם"),
    ("नमस्ते दुनिया", "दुनि"),
    ("สวัสดีชาวโลก", "ชาว"),
    ("emoji 🧵🧶 in text", "🧵🧶"),
    ("emoji 🧵🧶 in text", "🧶"),
    ("100% sure", "0% s"),
    ("snake_case", "e_c"),
    ("back\\slash", "k\\s"),
    ('it\'s "quoted"', '"quoted"'),
    ("it's", "'"),
    ("nul\0inside", "l\0i"),
    ("nul\0inside", "inside"),
    ("\0", "\0"),
    ("a.b*c?[d]", ".b*c?[d]"),
    ("this AND that OR (NEAR)", "and that or (near)"),
    ("-minus +plus ^caret", "-minus +plus ^"),
    ("line\nbreak\ttab", "e\nb"),
    ("two  spaces", "o  s"),
    (" lead and trail ", " lead"),
    ("ab", "ab"),
    ("a", "a"),
    ("x" * 10_000 + "needle", "xneedle"),
]
NOT_FOUND = [
    ("100 percent", "%"),
    ("abc", "a_c"),
    ("abc", "a%c"),
    ("abc", "*"),
    ("abc", "."),
    ("abc", "\\"),
    ("abc", "abcd"),
    ("abc", "ac"),
    ("abc", "\0"),
    ("abc\0def", "abcdef"),
    ("two words", "words two"),
    ("two words", "twowords"),
    ("cafe", "café"),
    ("", "a"),
    ("東京", "京東"),
]


class SearchContract(ContractPart):
    def test_text_is_found_by_any_part_of_it_and_by_nothing_else(self, store: DrivenStorage) -> None:
        texts = {f"§{number}": text for number, (text, _) in enumerate([*FOUND, *NOT_FOUND])}
        store.apply_all(
            *(
                commit(name, messages=[message("other", "nothing; ¡¿"), message("m1", text)], thread=fields(text))
                for name, text in texts.items()
            )
        )
        for number, (text, needle) in enumerate([*FOUND, *NOT_FOUND]):
            name, sought = f"§{number}", folded(needle)
            found = number < len(FOUND)
            assert store.message_ids(name, search=sought) == ["m1"] * found, (text, needle)
            assert store.thread_ids(thread_id=name, search=sought) == [name] * found, (text, needle)
            expected = {each for each, text in texts.items() if sought in folded(text) or sought in folded(each)}
            assert set(store.thread_ids(search=sought)) == expected, needle

    @pytest.mark.parametrize(("text", "needle"), [*FOUND[2:5], FOUND[-1], *NOT_FOUND[:2]], ids=range(6))
    def test_the_only_thread_is_found_by_its_text(self, store: DrivenStorage, text: str, needle: str) -> None:
        store.apply(commit(messages=[message("m1", text)], thread=fields(text)))
        found = (text, needle) in FOUND
        assert store.message_ids(search=folded(needle)) == ["m1"] * found
        assert store.thread_ids(search=folded(needle)) == ["t"] * found

    def test_an_empty_needle_finds_everything(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages("a", "", "\0")))
        assert store.message_ids(search="") == ["m0", "m1", "m2"]
        assert store.thread_ids(search="") == ["t"]

    def test_only_the_text_is_searched(self, store: DrivenStorage) -> None:
        written = message("needle", "hay", run_id="needle", data=b"needle")
        store.apply(commit(messages=[written], thread=fields("hay", data=b"needle", run_id="needle")))
        assert store.messages(search="needle") == [] == store.threads(search="needle")

    def test_a_search_follows_what_is_replaced_and_removed(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages("old words", "old words", "old words")))
        store.apply(commit(messages=[message("m1", "new words")]))
        store.apply(commit(remove=Removal(messages=("m2",))))
        assert store.message_ids(search="old") == ["m0"]
        assert store.message_ids(search="new") == ["m1"]
        assert store.message_ids(search="words") == ["m0", "m1"]

    def test_a_search_keeps_the_order_and_pages(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages(*("odd" if number % 2 else "even" for number in range(20)))))
        odd = [f"m{number}" for number in range(1, 20, 2)]
        assert store.message_ids(search="odd") == odd
        assert store.message_ids(search="odd", offset=3, limit=4) == odd[3:7]
        assert store.message_ids(search="odd", offset=9, limit=4) == odd[9:]
        assert store.message_ids(search="odd", offset=10) == []

    def test_a_search_can_be_about_one_message(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages("one", "two")))
        assert store.message_ids(search="two", message_id="m1") == ["m1"]
        assert store.message_ids(search="two", message_id="m0") == []

    def test_a_search_stays_in_its_thread(self, store: DrivenStorage) -> None:
        for name in ("s", "t", "u"):
            store.apply(commit(name, messages=[message(name, "the same words")]))
        assert store.message_ids("t", search="same") == ["t"]

    def test_a_deleted_thread_is_not_found_in_the_one_that_came_after(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages("secret words")))
        store.apply(commit(remove=Removal(thread=True)))
        store.apply(commit(messages=messages("other words")))
        assert store.message_ids(search="secret") == []
        assert store.message_ids(search="words") == ["m0"]

    def test_a_search_over_threads_follows_names_forks_and_deletions(self, store: DrivenStorage) -> None:
        for seconds, name in enumerate("abc"):
            described = fields(f"Trip to Lisbon {name}")
            store.apply(commit(name, checkpoint=checkpoint("c1"), thread=described, at=later(seconds)))
        store.apply(commit("b", thread=fields("Journey to Porto"), at=later(3)))
        assert store.thread_ids(search="trip") == ["c", "a"]
        assert store.thread_ids(search="porto") == ["b"]
        store.apply(commit("f", fork=fork_of("b"), at=later(4)))
        store.apply(commit("b", thread=fields(), at=later(5)))
        assert store.thread_ids(search="porto") == ["f"]
        store.apply_all(deletion("f"), deletion("a"))
        store.apply(commit("a", messages=[message("m1")], at=later(6)))
        assert store.thread_ids(search="porto") == []
        assert store.thread_ids(search="trip") == ["c"]

    def test_a_thread_is_found_by_its_id_too(self, store: DrivenStorage) -> None:
        store.apply_all(*(commit(name, messages=[message("m1")]) for name in ("Straße-1", "other")))
        for needle in ("strasse", "SSE-", "1", "aß"):
            assert store.thread_ids(search=folded(needle)) == ["Straße-1"]
        assert store.thread_ids(search="1other") == store.thread_ids(search="rother") == []

    def test_a_search_over_threads_finds_only_the_users_own(self, store: DrivenStorage) -> None:
        for seconds, owner in enumerate(("ann", "bob", None)):
            described = fields("the plan", user_id=owner)
            store.apply(commit(f"of {owner}", user=owner, thread=described, at=later(seconds)))
        assert store.thread_ids(search="plan", user="ann") == ["of ann"]
        assert store.thread_ids(search="plan", user=None) == ["of None"]
        assert store.thread_ids(search="plan") == ["of None", "of bob", "of ann"]
        store.apply(commit("of None", user=ANY_USER, thread=fields("the plan", user_id="ann"), at=later(9)))
        assert store.thread_ids(search="plan", user="ann") == ["of None", "of ann"]
        assert store.thread_ids(search="plan", user=None) == []

    def test_one_of_many_threads_is_found_like_one_of_few(self, store: DrivenStorage) -> None:
        many = [f"thread-{number:04d}" for number in range(700)]
        for start in range(0, 700, 100):
            store.apply_all(
                *(
                    commit(many[number], thread=fields("even 東京" if number % 2 else "odd"), at=later(number))
                    for number in range(start, start + 100)
                )
            )
        newest = many[::-1]
        assert store.thread_ids(search="thread-0007") == ["thread-0007"]
        assert store.thread_ids(search="0069") == ["thread-0069"]
        assert store.thread_ids(search="-069", limit=3, offset=1) == ["thread-0698", "thread-0697", "thread-0696"]
        assert store.thread_ids(search="東", limit=3) == [each for each in newest if int(each[-1]) % 2][:3]
        assert store.thread_ids(search="d-00", offset=95) == newest[-5:]
        assert store.thread_ids(search="thread", limit=2, offset=650) == newest[650:652]
        assert store.thread_ids(search="thread-0700") == store.thread_ids(search="q") == []
        store.apply_all(*(deletion(name) for name in many[1:100]))
        assert store.thread_ids(search="thread-00") == ["thread-0000"]

    def test_a_large_thread_is_searched_like_a_small_one(self, store: DrivenStorage) -> None:
        texts = [
            f"Message number {number}: {'zebra' if number % 1000 == 7 else 'horse'} 東京{number}"
            for number in range(6000)
        ]
        many = messages(*texts)
        for start in range(0, 6000, 1500):
            store.apply(commit(messages=many[start : start + 1500]))
        zebras = [f"m{number}" for number in range(7, 6000, 1000)]
        assert store.message_ids(search="zebra") == zebras
        assert store.message_ids(search="zebra", offset=2, limit=2) == zebras[2:4]
        assert store.message_ids(search="京5999") == ["m5999"]
        for needle in ("z", "ze", "zeb"):
            assert store.message_ids(search=needle) == zebras
        for needle in ("e", "se", "rse", "number 59"):
            assert store.message_ids(search=needle) == [each.message_id for each in many if needle in each.text]
        assert store.message_ids(search="%") == store.message_ids(search="\0") == []
        store.apply(
            commit(messages=[message("m7", "a zebu"), message("new", "a zebra")], remove=Removal(messages=("m1007",)))
        )
        assert store.message_ids(search="zebra") == [*zebras[2:], "new"]
        assert store.message_ids(search="zeb") == ["m7", *zebras[2:], "new"]
        assert len(store.messages(search="")) == 6000

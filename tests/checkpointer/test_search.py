"""Search across threads: the public method."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

import clew
from clew.checkpointer.snippets import AROUND, snippet
from clew.model.message import folded
from clew.storage.protocol import COPYING
from clew.testing.build import commit as clew_commit
from clew.testing.build import message as clew_message

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def said(text, minute=0, name=None, role="user"):
    named = {} if name is None else {"message_id": name}
    return clew.Message(role=role, content=text, created_at=NOON + timedelta(minutes=minute), **named)


def found(hits):
    return [(hit.thread_id, hit.message.text()) for hit in hits]


def put(checkpointer, thread, user, *messages):
    checkpointer.put_messages({"thread_id": thread, "user_id": user}, list(messages))


def test_the_messages_of_all_threads_of_a_user_are_found_newest_first(checkpointer):
    put(checkpointer, "trip", "ana", said("A hotel in Lisbon", 1), said("nothing", 2), said("lisbon again", 5))
    put(checkpointer, "work", "ana", said("Lisbon office", 3))
    put(checkpointer, "other", "bob", said("Lisbon, too", 4))
    hits = checkpointer.search("LISBON", user_id="ana")
    assert found(hits) == [("trip", "lisbon again"), ("work", "Lisbon office"), ("trip", "A hotel in Lisbon")]
    assert {hit.user_id for hit in hits} == {"ana"}
    assert [hit.snippet[hit.start : hit.end] for hit in hits] == ["lisbon", "Lisbon", "Lisbon"]


def test_strangers_find_nothing(checkpointer):
    put(checkpointer, "t", "alice", said("the secret word"))
    put(checkpointer, "open", None, said("the public word"))
    for stranger in ("bob", "Alice", "ALICE", "alic", "alice2", "*", "%", "-"):
        assert checkpointer.search("word", user_id=stranger) == []
    assert found(checkpointer.search("word")) == [("open", "the public word")]
    assert found(checkpointer.search("word", user_id="alice")) == [("t", "the secret word")]
    assert len(checkpointer.search("word", user_id=clew.ANY_USER)) == 2


def test_pages_go_on_from_a_hit_or_its_position(checkpointer):
    for number in range(7):
        put(checkpointer, f"t{number % 3}", "ana", said(f"word {number}", number))
    everything = checkpointer.search("word", user_id="ana")
    assert [hit.message.text() for hit in everything] == [f"word {number}" for number in range(6, -1, -1)]
    pages, before = [], None
    while page := checkpointer.search("word", user_id="ana", limit=2, before=before):
        put(checkpointer, "t0", "ana", said("word, and newer", 60))
        pages += page
        before = page[-1] if len(pages) < 4 else page[-1].position
    assert pages == everything


def test_a_hit_survives_a_round_trip_through_a_dict(checkpointer):
    put(checkpointer, "t", "ana", said("Grüße aus Köln"))
    (hit,) = checkpointer.search("KÖLN", user_id="ana")
    assert clew.SearchHit.from_dict(json.loads(json.dumps(hit.to_dict()))) == hit
    assert hit.to_dict()["message"]["content"] == "Grüße aus Köln"


def test_calls_and_results_of_tools_are_found(checkpointer):
    call = clew.Message(role="assistant", tool_calls=({"name": "weather", "args": {"city": "Lisbon"}},))
    put(checkpointer, "t", None, call)
    (hit,) = checkpointer.search("lisb")
    assert hit.message.tool_calls == call.tool_calls
    assert hit.snippet[hit.start : hit.end] == "Lisb"


def test_what_is_deleted_is_never_found(checkpointer):
    put(checkpointer, "t", "ana", said("one word", 1, "m1"), said("two words", 2, "m2"))
    put(checkpointer, "u", "ana", said("three words", 3))
    checkpointer.delete_message({"thread_id": "t", "user_id": "ana"}, "m1")
    assert found(checkpointer.search("word", user_id="ana")) == [("u", "three words"), ("t", "two words")]
    checkpointer.delete_thread({"thread_id": "u", "user_id": "ana"})
    assert found(checkpointer.search("word", user_id="ana")) == [("t", "two words")]
    checkpointer.erase_user("ana")
    assert checkpointer.search("word", user_id="ana") == checkpointer.search("word", user_id=clew.ANY_USER) == []


def test_messages_of_all_branches_are_found(checkpointer):
    first = checkpointer.put_checkpoint("t", {"n": 1}, messages=[said("word: question", 1)])
    checkpointer.put_checkpoint("t", {"n": 2}, messages=[said("word: answer", 2)])
    again = {"thread_id": "t", "checkpoint_id": first.checkpoint_id}
    checkpointer.put_checkpoint(again, {"n": 3}, messages=[said("word: other answer", 3)])
    texts = [text for _, text in found(checkpointer.search("word"))]
    assert texts == ["word: other answer", "word: answer", "word: question"]


@pytest.mark.parametrize("text", ["", None, 7, b"word"])
def test_a_search_needs_a_text(checkpointer, text):
    with pytest.raises(clew.ConfigError, match="search"):
        checkpointer.search(text)


@pytest.mark.parametrize(
    "before", ["", "x", "[]", '["2026-05-01", "t", "m"]', '["2026-05-01T12:00:00+00:00", 1, 2]', "3", 3, {"a": 1}]
)
def test_a_position_that_no_hit_has_is_refused(checkpointer, before):
    with pytest.raises(clew.ConfigError, match="before must be a hit or the position of one"):
        checkpointer.search("word", before=before)


@pytest.mark.parametrize("limit", [-1, True, "2", 1.5])
def test_a_limit_is_a_whole_number(checkpointer, limit):
    with pytest.raises(clew.ConfigError, match="limit"):
        checkpointer.search("word", limit=limit)


def test_a_saved_message_is_found_at_once_by_another_process(store):
    one, other = store.open(), store.open()
    if other.storage.capabilities.durable:
        put(one, "t", "ana", said("the first word"))
        assert len(other.search("word", user_id="ana")) == 1
        put(other, "t", "ana", said("another word", 1))
        assert len(one.search("word", user_id="ana")) == 2


def test_async_searches_and_saves_run_together(store):
    checkpointer = store.open()

    async def save(number):
        await checkpointer.aput_messages({"thread_id": f"t{number}", "user_id": "ana"}, [said("word", number)])
        return await checkpointer.asearch("word", user_id="ana", limit=None)

    async def main():
        async with checkpointer:
            return await asyncio.gather(*(save(number) for number in range(10)))

    for number, hits in enumerate(asyncio.run(main())):
        assert f"t{number}" in {hit.thread_id for hit in hits}


def test_a_damaged_message_is_stepped_over_and_the_page_is_full(sqlite):
    checkpointer = sqlite.open()
    for number in range(6):
        put(checkpointer, "t", None, said(f"word {number}", number))
    checkpointer.release()
    with sqlite3.connect(sqlite.path) as connection:
        connection.execute("UPDATE messages SET data = x'00' WHERE text = CAST('word 4' AS BLOB)")
        connection.execute("UPDATE messages SET created_at = 1 << 62 WHERE text = CAST('word 2' AS BLOB)")
    connection.close()
    texts = [hit.message.text() for hit in sqlite.open().search("word", limit=3)]
    assert texts == ["word 5", "word 3", "word 1"]


TEXTS = [
    ("The Quick Brown Fox", "quick", "Quick"),
    ("Die Straße ist lang", "STRASSE", "Straße"),
    ("Maßstab", "s", "ß"),
    ("cafe\u0301 noir", "café", "cafe\u0301"),
    ("İstanbul", "stan", "stan"),
    ("ﬁne ﬁsh", "fish", "ﬁsh"),
    ("\u1112\u1161\u11ab\u1100\u1173\u11af", "글", "\u1100\u1173\u11af"),
    ("नमस्ते दुनिया", "दुनि", "दुनि"),
    ("🧵🧶", "🧶", "🧶"),
    ("x" * 5_000 + "Ä needle", "ä n", "Ä n"),
]


@pytest.mark.parametrize(("text", "needle", "match"), TEXTS, ids=range(len(TEXTS)))
def test_a_snippet_shows_the_match_in_its_original_spelling(text, needle, match):
    part, start, end = snippet(text, folded(needle))
    assert part[start:end] == match
    assert part in text
    assert len(part) <= 2 * AROUND + len(match)


def test_a_snippet_of_a_text_that_lacks_the_needle_is_its_beginning():
    assert snippet("some text", "other") == ("some text", 0, 0)


def test_messages_of_a_copy_that_is_not_complete_are_hidden(store):
    checkpointer = store.open()
    put(checkpointer, "t", None, said("word"))
    commit = clew_commit("draft", user=COPYING, messages=[clew_message("m", "word")])
    checkpointer.run(checkpointer.storage.apply([commit]), "apply")
    assert [hit.thread_id for hit in checkpointer.search("word", user_id=clew.ANY_USER)] == ["t"]

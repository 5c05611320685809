"""The conversation record, and whole threads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

import clew
from clew import ConfigError, Message, ThreadInfo
from tests.checkpointer.support import run


def ids(messages):
    return [each.message_id for each in messages]


def say(*texts, **fields):
    return [Message(message_id=f"m{n}", role="user", content=text, **fields) for n, text in enumerate(texts)]


def test_a_message_comes_back_as_it_was(checkpointer):
    message = Message(
        message_id="m",
        role="assistant",
        content=[{"type": "text", "text": "hi"}, {"type": "image", "data": b"\x00\xff"}],
        tool_calls=({"id": "1", "args": {"x": (1, 2)}},),
        metadata={"n": {1, 2}, "nul": "\0"},
        created_at=datetime(2026, 3, 29, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
        run_id="r",
    )
    checkpointer.put_messages("t", [message])
    assert checkpointer.get_message("t", "m") == message
    assert checkpointer.list_messages("t") == [message] == checkpointer.get_messages("t")
    assert checkpointer.get_message("t", "absent") is None
    assert checkpointer.get_message("absent", "m") is None


def test_the_async_methods_do_the_same(store):
    async def go():
        checkpointer = store.open()
        await checkpointer.aput_messages("t", say("a", "b"))
        assert ids(await checkpointer.alist_messages("t")) == ids(await checkpointer.aget_messages("t")) == ["m0", "m1"]
        assert (await checkpointer.aget_message("t", "m1")).content == "b"
        assert await checkpointer.adelete_message("t", "m0") is True
        assert await checkpointer.adelete_message("t", "m0") is False
        assert ids(await checkpointer.alist_messages("t")) == ["m1"]

    run(go())


def test_a_known_id_replaces_the_message_in_its_place(checkpointer):
    checkpointer.put_messages("t", say("a", "b", "c"))
    checkpointer.put_messages("t", [Message(message_id="m1", role="user", content="B", metadata={"edited": True})])
    assert [(each.message_id, each.content) for each in checkpointer.list_messages("t")] == [
        ("m0", "a"),
        ("m1", "B"),
        ("m2", "c"),
    ]
    assert checkpointer.get_message("t", "m1").metadata == {"edited": True}
    assert checkpointer.get_thread("t").message_count == 3
    assert checkpointer.list_messages("t", search="b") != []
    assert checkpointer.list_messages("t", search="a b") == []


def test_saving_the_whole_conversation_again_duplicates_nothing(checkpointer):
    for _ in range(3):
        checkpointer.put_checkpoint("t", {}, messages=say("a", "b"))
    assert ids(checkpointer.list_messages("t")) == ["m0", "m1"]


def test_an_id_twice_in_one_batch_keeps_the_last(checkpointer):
    checkpointer.put_messages("t", [Message(message_id="m", role="user", content=text) for text in ("one", "two")])
    assert [each.content for each in checkpointer.list_messages("t")] == ["two"]
    assert checkpointer.get_thread("t").message_count == 1


def test_the_same_id_in_two_threads_is_two_messages(checkpointer):
    checkpointer.put_messages("t", say("mine"))
    checkpointer.put_messages("u", say("yours"))
    assert checkpointer.get_message("t", "m0").content == "mine"


def test_a_batch_is_written_whole_or_not_at_all(checkpointer):
    bad = [*say("a", "b"), Message(message_id="bad", role="user", metadata={"x": object()})]
    with pytest.raises(clew.UnsupportedTypeError, match=r"messages\[2\]\.metadata\.x"):
        checkpointer.put_messages("t", bad)
    with pytest.raises(clew.UnsupportedTypeError):
        checkpointer.put_checkpoint("t", {"n": 1}, messages=bad)
    assert checkpointer.list_messages("t") == []
    assert checkpointer.get_thread("t") is None
    checkpointer.put_checkpoint("t", {"n": 1}, messages=say("ok"))
    assert ids(checkpointer.list_messages("t")) == ["m0"]


def test_metadata_of_the_call_is_added_to_each_messages_own(checkpointer):
    first, second = say("a", "b", metadata={"own": 1})
    checkpointer.put_messages({"thread_id": "t", "run_id": "r"}, [first], metadata={"own": 2, "more": 3})
    checkpointer.put_messages("t", [second])
    assert checkpointer.get_message("t", "m0").metadata == {"own": 1, "more": 3}
    assert checkpointer.get_message("t", "m0").run_id == "r"
    assert checkpointer.get_message("t", "m1").metadata == {"own": 1}
    assert first.metadata == {"own": 1}


def test_paging_with_equal_times_loses_nothing(checkpointer):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    checkpointer.put_messages("t", [Message(message_id=f"m{n}", role="user", created_at=now) for n in range(120)])
    found, offset = [], 0
    while page := checkpointer.list_messages("t", offset=offset, limit=7):
        found += ids(page)
        offset += len(page)
    assert found == [f"m{n}" for n in range(120)]
    assert len(checkpointer.list_messages("t")) == 120
    assert len(checkpointer.list_messages("t", limit=None)) == 120


def test_the_order_is_that_of_arrival_whatever_their_times_say(checkpointer):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(5):
        checkpointer.put_messages(
            "t", [Message(message_id=f"m{number}", role="u", created_at=now - timedelta(days=number))]
        )
    assert ids(checkpointer.list_messages("t")) == ["m0", "m1", "m2", "m3", "m4"]


SEARCHES = [
    ("café", ["m0", "m1"]),
    ("CAFÉ", ["m0", "m1"]),
    ("cafe\u0301", ["m0", "m1"]),
    ("caf", ["m0", "m1", "m2"]),
    ("%", ["m3"]),
    ("100%", ["m3"]),
    ("_", ["m4"]),
    ("a_b", ["m4"]),
    ("🧵", ["m5"]),
    ("STRASSE", ["m6"]),
    ("straße", ["m6"]),
    ("привет", ["m7"]),
    ("日本", ["m8"]),
    ('"', ["m9"]),
    ("role", []),
    ("\\", ["m10"]),
    ("'", ["m11"]),
    ("*", ["m12"]),
    ("nul\0in", ["m13"]),
    ("two\nlines", ["m14"]),
    ("block text", ["m15"]),
]


@pytest.mark.parametrize("many", [0, 4500], ids=["small", "indexed"])
def test_searching_finds_a_piece_of_text_in_any_language_and_takes_every_character_plainly(store, many):
    texts = [
        "Café au lait",
        "CAFÉ",
        "cafe",
        "100% sure",
        "a_b",
        "a 🧵 of",
        "Straße",
        "ПРИВЕТ",
        "日本語",
        'say "hi"',
        "C:\\x",
    ]
    texts += ["it's", "a*b", "nul\0inside", "two\nlines"]
    checkpointer = store.open()
    checkpointer.put_messages("t", say(*texts))
    block = [{"type": "text", "text": "Block Text"}, {"type": "image", "data": "zzzz"}]
    checkpointer.put_messages("t", [Message(message_id="m15", role="user", content=block)])
    checkpointer.put_messages("t", [Message(role="user", content=f"filler {n}") for n in range(many)])
    for needle, expected in SEARCHES:
        assert ids(checkpointer.list_messages("t", search=needle)) == expected, needle
    assert checkpointer.list_messages("t", search="zzzz") == []
    assert ids(checkpointer.list_messages("t", search="caf", offset=1, limit=1)) == ["m1"]
    assert len(checkpointer.list_messages("t", search="", limit=None)) == len(texts) + 1 + many


def test_a_deleted_message_is_not_found_any_more(checkpointer):
    checkpointer.put_messages("t", say("needle", "hay"))
    checkpointer.delete_message("t", "m0")
    assert checkpointer.list_messages("t", search="needle") == []
    checkpointer.put_messages("t", say("needle again"))
    assert ids(checkpointer.list_messages("t")) == ["m1", "m0"]


# Threads


def test_a_thread_that_only_has_a_state_is_listed(checkpointer):
    made = checkpointer.put_checkpoint({"thread_id": "t", "user_id": "alice"}, {"n": 1}, node_name="x")
    (thread,) = checkpointer.list_threads({"user_id": "alice"})
    assert (thread.thread_id, thread.user_id, thread.checkpoint_count) == ("t", "alice", 1)
    assert thread.head.checkpoint_id == made.checkpoint_id
    assert thread.head.node_name == "x"
    assert checkpointer.get_threads({"user_id": "alice"}) == [thread]
    assert checkpointer.get_thread({"thread_id": "t", "user_id": "alice"}) == thread


def test_threads_are_listed_by_their_last_activity_in_pages_that_lose_nothing(store, clock):
    checkpointer = store.open(clock=clock)
    for number in range(12):
        checkpointer.put_state(f"t{number}", number)
    clock.advance(1)
    checkpointer.put_messages("t3", say("active again"))
    pages = [checkpointer.list_threads({}, offset=offset, limit=5) for offset in (0, 5, 10, 15)]
    found = [each.thread_id for page in pages for each in page]
    assert found[0] == "t3"
    assert sorted(found) == sorted(f"t{number}" for number in range(12))


def test_upkeep_is_no_activity(store, clock):
    checkpointer = store.open(clock=clock)
    checkpointer.put_state("old", 1)
    clock.advance(1)
    checkpointer.put_state("new", 1)
    clock.advance(1)
    checkpointer.compact("old")
    assert [each.thread_id for each in checkpointer.list_threads({})] == ["new", "old"]


def test_searching_threads_looks_at_ids_names_and_tags(checkpointer):
    checkpointer.put_thread("one", ThreadInfo(thread_id="one", thread_name="Über 100%"))
    checkpointer.put_thread("two", ThreadInfo(thread_id="two", tags=("Billing",)))
    checkpointer.put_thread("three", ThreadInfo(thread_id="three", metadata={"hidden": "x"}))

    def found(needle):
        return {each.thread_id for each in checkpointer.list_threads({}, search=needle)}

    assert found("ÜBER") == {"one"}
    assert found("%") == {"one"}
    assert found("_") == set()
    assert found("billing") == {"two"}
    assert found("THREE") == {"three"}
    assert found("hidden") == set()


def test_a_thread_that_nobody_described_is_found_by_its_id(checkpointer):
    checkpointer.put_state("Project-7", {})
    assert [each.thread_id for each in checkpointer.list_threads({}, search="project")] == ["Project-7"]


def test_a_description_keeps_the_fields_that_are_not_given(checkpointer):
    checkpointer.put_thread("t", ThreadInfo(thread_id="t", thread_name="a", tags=("x",), metadata={"k": 1}, run_id="r"))
    checkpointer.put_thread("t", {"thread_name": "b"})
    found = checkpointer.get_thread("t")
    assert (found.thread_name, found.tags, found.metadata, found.run_id) == ("b", ("x",), {"k": 1}, "r")


def test_deleting_a_thread_leaves_nothing_of_it(store):
    checkpointer = store.open()
    checkpointer.put_checkpoint("t", {"a": 1}, messages=say("secret"))
    checkpointer.put_thread("t", ThreadInfo(thread_id="t", thread_name="secret"))
    checkpointer.put_state_cache("t", 1)
    checkpointer.delete_thread("t")
    checkpointer.delete_thread("t")
    for each in (checkpointer, store.open()):
        assert each.get_state("t") is None
        assert each.get_state_cache("t") is None
        assert each.list_messages("t") == []
        assert each.get_thread("t") is None
        assert each.list_threads({"user_id": clew.ANY_USER}) == []
        assert each.stats().total_sessions == 0
        assert each.size() == 0


def test_a_new_thread_under_an_old_name_has_no_past(checkpointer):
    checkpointer.put_checkpoint("t", {"a": 1}, messages=say("old"))
    checkpointer.delete_thread("t")
    checkpointer.put_checkpoint("t", {"b": 2}, messages=say("new"))
    assert [each.state for each in checkpointer.get_history("t")] == [{"b": 2}]
    assert [each.content for each in checkpointer.list_messages("t")] == ["new"]


def test_calls_of_tools_are_found_by_name_and_arguments(checkpointer):
    call = {
        "id": "call-1",
        "type": "tool_call",
        "name": "book_table",
        "args": {"music": "Fado", "for": [2, {"day": "Sat"}]},
    }
    checkpointer.put_messages(
        "t",
        [clew.Message(message_id="a", role="assistant", tool_calls=(call,)), clew.Message(message_id="b", role="user")],
    )
    for needle, found in (("TABLE", 1), ("fado", 1), ("sat", 1), ("call-1", 0), ("tool_call", 0), ("music", 0)):
        assert [each.message_id for each in checkpointer.list_messages("t", search=needle)] == ["a"] * found, needle
    assert checkpointer.list_messages("t")[0].text() == ""
    assert checkpointer.verify().ok


@pytest.mark.parametrize("role", ["", "damaged"])
@pytest.mark.parametrize("make", [lambda **fields: fields, lambda **fields: Message(**fields)], ids=["dict", "message"])
def test_no_message_is_stored_with_a_role_that_says_nothing_or_marks_damage(local, role, make):
    memory = local.open()
    message = make(role=role, content="hi")
    calls = [
        lambda: memory.put_messages("t", [message]),
        lambda: memory.put_checkpoint("t", {}, messages=[message]),
        lambda: memory.update_state("t", set={"a": 1}, messages=[message]),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match=r"messages\[0\]\.role .* 'user', 'assistant', 'system' or 'tool'"):
            call()
    with memory.turn("t", begin={}) as turn:
        with pytest.raises(ConfigError, match="role"):
            turn.say(message)
        turn.say({"role": "critic", "content": "roles of your own stay possible"})
    assert [each.role for each in memory.list_messages("t")] == ["critic"]

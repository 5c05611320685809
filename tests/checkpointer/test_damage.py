"""Damage: one damaged record is reported by name and hides no other."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from typing import Any

import pytest

import clew
from clew.codec.registry import DEFAULT_REGISTRY
from clew.codec.state import StateCodec
from tests.checkpointer.support import at, text

SECTIONS = [("value_rows", "data"), ("checkpoints", "body")]


def state(name, number):
    """States that share nothing, so that each has its own value row."""
    return {"n": number, "m": [text((name, number, each)) for each in range(8)]}


@pytest.fixture
def damaged(sqlite):
    """Return a function that makes a store of two threads and damages one cell of its file."""

    def damage(table, column, flip=lambda data: flipped(data, len(data) // 2), row=2):
        checkpointer = sqlite.open()
        made = {}
        for name in ("t", "other"):
            for number in range(4):
                message = clew.Message(message_id=f"{name}{number}", role="user", content=f"message {number}")
                made[name, number] = checkpointer.put_checkpoint(
                    name, state(name, number), metadata={"n": number}, messages=[message]
                )
            checkpointer.put_thread(name, clew.ThreadInfo(thread_id=name, thread_name=f"name of {name}"))
        checkpointer.release()
        connection = sqlite3.connect(sqlite.path)
        (rowid, data) = connection.execute(f"SELECT rowid, {column} FROM {table} ORDER BY rowid").fetchall()[row]
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (flip(bytes(data)), rowid))
        connection.commit()
        connection.close()
        return sqlite.open(), made

    return damage


def flipped(data, position, mask=0x55):
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]


FLIPS = [
    pytest.param(lambda data: flipped(data, 0), id="first byte"),
    pytest.param(
        lambda data: flipped(data, 1, 0x80),
        id="version",
    ),
    pytest.param(lambda data: flipped(data, 1, 0x01), id="codec"),
    pytest.param(lambda data: flipped(data, 3), id="checksum"),
    pytest.param(lambda data: flipped(data, len(data) // 2), id="middle"),
    pytest.param(lambda data: flipped(data, len(data) - 1), id="last byte"),
    pytest.param(lambda data: data[: len(data) // 2], id="cut in half"),
    pytest.param(lambda data: b"", id="emptied"),
    pytest.param(lambda data: data + b"\0", id="longer"),
    pytest.param(lambda data: bytes(len(data)), id="zeroes"),
]


@pytest.mark.parametrize("flip", FLIPS)
@pytest.mark.parametrize(("table", "column"), SECTIONS)
def test_a_damaged_checkpoint_is_named_and_the_others_load(damaged, table, column, flip):
    checkpointer, made = damaged(table, column, flip)
    bad = made["t", 2]
    for read in (
        lambda: checkpointer.get_checkpoint(at(bad)),
        lambda: checkpointer.get_state(at(bad)),
        lambda: checkpointer.get_history("t"),
        lambda: checkpointer.diff(at(bad), "t"),
    ):
        with pytest.raises(clew.CorruptRecordError, match=r"damaged.*and repair makes") as caught:
            read()
        assert (caught.value.thread_id, caught.value.checkpoint_id) == ("t", bad.checkpoint_id)
    for key, each in made.items():
        if key != ("t", 2):
            assert checkpointer.get_state(at(each)) == state(*key)
    assert len(checkpointer.list_checkpoints("t")) == 4
    assert len(checkpointer.list_messages("t")) == 4
    report = checkpointer.verify()
    assert [(each.thread_id, each.checkpoint_id, each.message_id) for each in report.damage] == [
        ("t", bad.checkpoint_id, None)
    ]
    assert (report.threads, report.checkpoints, report.messages, report.ok) == (2, 8, 8, False)


def test_a_damaged_head_does_not_cost_the_history_that_it_can_be_repaired_from(damaged):
    checkpointer, _ = damaged("checkpoints", "body", row=3)
    limit = checkpointer.get_thread("t").size - 10
    report = checkpointer.cleanup(clew.RetentionPolicy(max_bytes=limit), config="t")
    assert (report.checkpoints, report.over_limit) == (0, 1)


@pytest.mark.parametrize(("table", "column"), SECTIONS)
def test_a_thread_with_a_damaged_head_is_repaired_from_its_messages(damaged, table, column):
    checkpointer, made = damaged(table, column, row=3)
    with pytest.raises(clew.CorruptRecordError):
        checkpointer.get_state("t")
    repaired = checkpointer.repair("t")
    assert repaired.metadata.node_name == "repair"
    assert repaired.state["n"] == 2
    assert [each["content"] for each in repaired.state["messages"]] == [f"message {number}" for number in range(4)]
    assert checkpointer.get_state("t") == repaired.state
    assert checkpointer.get_checkpoint("t").metadata.parent_id == made["t", 3].checkpoint_id
    assert len(checkpointer.verify().damage) == 1
    checkpointer.delete_checkpoint(at(made["t", 3]))
    assert checkpointer.verify().ok


def test_what_was_repaired_does_not_rely_on_the_damaged_values(damaged, sqlite):
    checkpointer, made = damaged("value_rows", "data", row=3)
    for number in range(3):
        checkpointer.delete_checkpoint(at(made["t", number]))
    whole = made["t", 3].state
    sqlite.open().repair("t", rebuild=lambda last, messages: whole)
    assert sqlite.open().get_state("t") == whole


def test_a_repair_may_be_told_how(damaged):
    checkpointer, _ = damaged("checkpoints", "body", row=3)
    repaired = checkpointer.repair("t", rebuild=lambda last, messages: {"last": last["n"], "said": len(messages)})
    assert checkpointer.get_state("t") == repaired.state == {"last": 2, "said": 4}


def test_a_thread_of_which_no_checkpoint_is_left_is_repaired_from_messages_alone(store):
    checkpointer = store.open()
    checkpointer.put_messages("t", [clew.Message(message_id="m", role="user", content="hi")])
    assert checkpointer.repair("t").state["messages"][0]["content"] == "hi"
    assert checkpointer.get_state("t")["messages"][0]["message_id"] == "m"


def test_work_goes_on_in_a_thread_with_damage(damaged):
    checkpointer, made = damaged("value_rows", "data", row=1)
    checkpointer.put_state("t", state("t", 9))
    checkpointer.update_state("t", append={"m": ["x"]})
    checkpointer.compact()
    checkpointer.cleanup(clew.RetentionPolicy(max_history=4))
    assert checkpointer.get_state("t")["m"][-1] == "x"
    assert [each.checkpoint_id for each in checkpointer.verify().damage] in ([made["t", 1].checkpoint_id], [])
    assert checkpointer.get_state("other") == state("other", 3)


def test_a_change_to_a_damaged_checkpoint_is_refused_by_name(sqlite):
    checkpointer = sqlite.open()
    made = checkpointer.put_checkpoint("t", {f"k{n}": text(n, 60) for n in range(1500)})
    checkpointer.release()
    with sqlite3.connect(sqlite.path) as connection:
        connection.execute("UPDATE value_rows SET data = zeroblob(length(data))")
    connection.close()
    with pytest.raises(clew.CorruptRecordError) as caught:
        sqlite.open().update_state("t", set={"k1": 1})
    assert caught.value.checkpoint_id == made.checkpoint_id
    assert len(sqlite.open().list_checkpoints("t")) == 1


@pytest.mark.parametrize("flip", [each for each in FLIPS if each.id != "emptied"])
def test_a_damaged_message_is_named_and_the_others_are_there(damaged, flip):
    checkpointer, _ = damaged("messages", "data", flip)
    with pytest.raises(clew.CorruptRecordError) as caught:
        checkpointer.get_message("t", "t2")
    assert (caught.value.thread_id, caught.value.message_id) == ("t", "t2")
    assert checkpointer.get_message("t", "t3").content == "message 3"
    assert [(each.thread_id, each.message_id) for each in checkpointer.verify().damage] == [("t", "t2")]
    assert checkpointer.get_state("t") == state("t", 3)
    assert [each["message_id"] for each in checkpointer.repair("t").state["messages"]] == ["t0", "t1", "t3"]
    assert checkpointer.delete_message("t", "t2") is True
    assert checkpointer.verify().ok
    assert len(checkpointer.list_messages("t")) == 3


def test_a_damaged_message_does_not_hide_its_page(damaged):
    checkpointer, _ = damaged("messages", "data")
    assert {each.message_id for each in checkpointer.list_messages("t")} >= {"t0", "t1", "t3"}


def test_damaged_metadata_is_listed_by_verify(damaged):
    checkpointer, made = damaged("checkpoints", "metadata")
    bad = made["t", 2]
    with pytest.raises(clew.CorruptRecordError) as caught:
        checkpointer.get_checkpoint(at(bad))
    assert caught.value.checkpoint_id == bad.checkpoint_id
    assert [each.checkpoint_id for each in checkpointer.verify().damage] == [bad.checkpoint_id]


@pytest.mark.parametrize(("table", "column", "row"), [("checkpoints", "metadata", 3), ("threads", "data", 0)])
def test_damaged_metadata_hides_no_other_checkpoint_and_no_other_thread(damaged, table, column, row):
    checkpointer, _ = damaged(table, column, row=row)
    assert len(checkpointer.list_checkpoints("t")) == 4
    assert {each.thread_id for each in checkpointer.list_threads({})} == {"t", "other"}


def test_a_damaged_description_is_listed_by_verify(damaged):
    checkpointer, _ = damaged("threads", "data", row=0)
    assert [each.thread_id for each in checkpointer.verify().damage] == ["t"]


def test_a_damaged_list_of_values_is_a_damaged_checkpoint(damaged):
    checkpointer, made = damaged("checkpoints", "covers", lambda data: flipped(data, 0, 0x80))
    with pytest.raises(clew.CorruptRecordError):
        checkpointer.get_state(at(made["t", 2]))
    assert [each.checkpoint_id for each in checkpointer.verify().damage] == [made["t", 2].checkpoint_id]


def test_a_damaged_search_text_is_a_damaged_message(damaged):
    checkpointer, _ = damaged("messages", "text", lambda data: flipped(data, 0, 0x80))
    assert checkpointer.get_message("t", "t3").content == "message 3"
    assert [each.message_id for each in checkpointer.verify().damage] == ["t2"]


def test_a_damaged_digest_costs_space_not_data(damaged):
    checkpointer, made = damaged("value_rows", "digests")
    for key, each in made.items():
        assert checkpointer.get_state(at(each)) == state(*key)
    checkpointer.put_state("t", state("t", 2))
    assert checkpointer.get_state("t") == state("t", 2)
    assert checkpointer.verify().ok


FAR = 1 << 62
"""Not a valid datetime."""


def set_cell(path, table, column, value, where):
    """Write `value` into one cell of the file."""
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value,))
    connection.close()


def not_utf8(path, table, column, where):
    """Make the TEXT of one cell invalid UTF-8."""
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE {table} SET {column} = CAST(x'61ff62' AS TEXT) WHERE {where}")
    connection.close()


@pytest.fixture
def store_of_two(sqlite):
    """A store of two threads with all kinds of records; its checkpointer is closed."""
    checkpointer = sqlite.open()
    for name in ("t", "other"):
        made = [
            checkpointer.put_checkpoint(
                name,
                state(name, number),
                metadata={"n": number},
                messages=[clew.Message(message_id=f"{name}{number}", role="user", content=f"message {number}")],
            )
            for number in range(3)
        ]
        checkpointer.put_attachments(at(made[-1]), {"a": 1, "b": 2, "c": 3})
        checkpointer.put_thread(name, clew.ThreadInfo(thread_id=name, thread_name=f"name of {name}"))
    checkpointer.release()
    return sqlite


@pytest.mark.parametrize("column", ["updated_at", "created_at"])
@pytest.mark.parametrize("value", [FAR, -FAR])
def test_a_thread_whose_time_is_damaged_hides_no_other(store_of_two, column, value):
    set_cell(store_of_two.path, "threads", column, value, "thread_id = 't'")
    checkpointer = store_of_two.open()
    assert {each.thread_id for each in checkpointer.list_threads({})} == {"t", "other"}
    assert [each.thread_id for each in checkpointer.list_threads({}, search="other")] == ["other"]
    report = checkpointer.verify()
    assert [(each.thread_id, each.checkpoint_id) for each in report.damage] == [("t", None)]
    assert column in report.damage[0].problem
    assert (report.threads, report.checkpoints, report.messages, report.attachments) == (2, 6, 6, 6)
    assert checkpointer.cleanup(clew.RetentionPolicy(max_history=1)).threads == 1
    checkpointer.compact()
    with pytest.raises(clew.CorruptRecordError) as caught:
        checkpointer.get_thread("t")
    assert caught.value.thread_id == "t"
    assert checkpointer.get_state("t") == state("t", 2)
    assert checkpointer.clear_all() == 2


TEXTS = [
    *[("threads", column) for column in ("user_id", "run_id", "incarnation", "thread_id", "forked_thread", "chain")],
    *[("checkpoints", column) for column in ("checkpoint_id", "parent_id", "node_name", "run_id", "namespace")],
    *[("messages", column) for column in ("message_id", "run_id")],
    *[("attachments", column) for column in ("checkpoint_id", "key", "namespace")],
]


@pytest.mark.parametrize(("table", "column"), TEXTS)
def test_a_text_that_is_not_utf8_hides_nothing_else(store_of_two, table, column):
    not_utf8(store_of_two.path, table, column, "rowid = (SELECT min(rowid) FROM " + table + ")")
    checkpointer = store_of_two.open()
    listed = checkpointer.list_threads({"user_id": clew.ANY_USER})
    assert [each.thread_id == "other" for each in listed].count(True) == 1 == len(listed) - 1
    report = checkpointer.verify()
    assert report.threads == 2
    if column != "chain":
        assert {each.thread_id == "other" for each in report.damage} == {False}
    checkpointer.cleanup(clew.RetentionPolicy(max_history=1))
    checkpointer.compact()
    checkpointer.stats()
    assert checkpointer.get_state("other") == state("other", 2)
    assert len(checkpointer.list_messages("other")) == 3
    assert checkpointer.list_attachments("other") == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize("value", [1 << 40, -1, 0, 7])
def test_a_damaged_count_of_values_takes_no_memory(store_of_two, value):
    set_cell(store_of_two.path, "value_rows", "count", value, "row_no = 2")
    checkpointer = store_of_two.open()
    damaged = checkpointer.verify().damage
    assert [(each.thread_id, each.checkpoint_id is not None) for each in damaged] == [("t", True)]
    with pytest.raises(clew.CorruptRecordError):
        checkpointer.get_history("t")
    assert checkpointer.get_state("t") == state("t", 2)
    checkpointer.compact()
    checkpointer.cleanup(clew.RetentionPolicy(max_history=1))
    assert checkpointer.get_state("t") == state("t", 2)


def test_a_damaged_attachment_hides_no_other_key_and_is_found_by_verify(store_of_two, caplog):
    set_cell(store_of_two.path, "attachments", "data", b"\xc1nothing", "rowid = 2")
    checkpointer = store_of_two.open()
    assert checkpointer.list_attachments("t") == {"a": 1, "c": 3}
    assert "'b' of checkpoint" in caplog.text
    head = checkpointer.get_checkpoint("t").checkpoint_id
    found = checkpointer.verify().damage
    assert [(each.thread_id, each.checkpoint_id, each.attachment) for each in found] == [("t", head, "b")]


@pytest.mark.parametrize(("parent", "gone"), [("log_no", False), ("log_no + 1", False), ("9", False), ("NULL", True)])
def test_a_log_that_leads_nowhere_or_in_a_circle_is_a_damaged_thread(store_of_two, parent, gone):
    with sqlite3.connect(store_of_two.path) as connection:
        (number,) = connection.execute("SELECT log_no FROM threads WHERE thread_id = 't'").fetchone()
        connection.execute(f"UPDATE logs SET parent_log_no = {parent}, parent_end = 1 WHERE log_no = ?", (number,))
        if gone:
            connection.execute("DELETE FROM logs WHERE log_no = ?", (number,))
    connection.close()
    checkpointer = store_of_two.open()
    with pytest.raises(clew.CorruptRecordError) as caught:
        checkpointer.get_state("t")
    assert caught.value.thread_id == "t"
    assert {each.thread_id for each in checkpointer.verify().damage} == {"t"}
    checkpointer.compact()
    checkpointer.cleanup(clew.RetentionPolicy(max_history=1))
    assert checkpointer.get_state("other") == state("other", 2)
    checkpointer.delete_thread("t")
    assert checkpointer.verify().ok


def packed(content: Any) -> bytes:
    return StateCodec(DEFAULT_REGISTRY, max_state_bytes=1 << 20).pack(content, name="it")


SAID: dict[str, Any] = {"role": "user", "content": "message 1", "created_at": datetime.now(UTC)}
NO_MESSAGES: dict[str, Any] = {
    "a number": 5,
    "a list": [SAID],
    "no role": {"content": "message 1"},
    "an unknown field": {**SAID, "unknown": 1},
    "a role": {**SAID, "role": 5},
    "a content": {**SAID, "content": 5},
    "tool calls": {**SAID, "tool_calls": 5},
    "tool results": {**SAID, "tool_results": ["x"]},
    "metadata": {**SAID, "metadata": [1]},
    "usage": {**SAID, "usage": 5},
    "a time": {**SAID, "created_at": "today"},
    "a time without a zone": {**SAID, "created_at": datetime(2026, 1, 1)},  # noqa: DTZ001
    "a run": {**SAID, "run_id": 5},
    "what a provider wrote": {**SAID, "raw": 5, "format": "openai"},
}


@pytest.mark.parametrize("content", NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_stored_data_that_is_not_a_message_is_a_damaged_message_and_hides_no_other(store_of_two, content):
    set_cell(store_of_two.path, "messages", "data", packed(SAID), "message_id = 't1'")
    assert store_of_two.open().verify().ok
    set_cell(store_of_two.path, "messages", "data", packed(content), "message_id = 't1'")
    checkpointer = store_of_two.open()
    with pytest.raises(clew.CorruptRecordError, match="t1"):
        checkpointer.get_message("t", "t1")
    listed = checkpointer.list_messages("t")
    assert [(each.message_id, each.role == "damaged") for each in listed] == [
        ("t0", False),
        ("t1", True),
        ("t2", False),
    ]
    assert [(each.thread_id, each.message_id) for each in checkpointer.verify().damage] == [("t", "t1")]


NO_DESCRIPTIONS: dict[str, Any] = {
    "a number": 5,
    "a name": {"thread_name": 5, "tags": [], "metadata": {}},
    "one tag": {"thread_name": "n", "tags": "tag", "metadata": {}},
    "numbers as tags": {"thread_name": "n", "tags": [5], "metadata": {}},
    "metadata": {"thread_name": "n", "tags": [], "metadata": [5]},
}


@pytest.mark.parametrize("content", NO_DESCRIPTIONS.values(), ids=NO_DESCRIPTIONS)
def test_stored_data_that_is_not_a_description_is_a_damaged_thread_and_hides_no_other(store_of_two, content):
    set_cell(store_of_two.path, "threads", "data", packed(content), "thread_id = 't'")
    checkpointer = store_of_two.open()
    with pytest.raises(clew.CorruptRecordError, match="'t'"):
        checkpointer.get_thread("t")
    assert {each.thread_id for each in checkpointer.list_threads({})} == {"t", "other"}
    assert [each.thread_id for each in checkpointer.verify().damage] == ["t"]
    checkpointer.cleanup(clew.RetentionPolicy(max_history=1))
    assert len(checkpointer.list_checkpoints("other")) == 1


@pytest.mark.parametrize("missing", ["thread_name", "tags", "metadata"])
def test_a_description_that_lacks_a_field_is_damaged_and_hides_no_other(store_of_two, missing):
    described: dict[str, Any] = {"thread_name": "n", "tags": [], "metadata": {}}
    del described[missing]
    set_cell(store_of_two.path, "threads", "data", packed(described), "thread_id = 't'")
    checkpointer = store_of_two.open()
    assert {each.thread_id for each in checkpointer.list_threads({})} == {"t", "other"}
    with pytest.raises(clew.CorruptRecordError, match=missing):
        checkpointer.get_thread("t")
    assert [each.thread_id for each in checkpointer.verify().damage] == ["t"]


def test_an_id_of_half_a_character_hides_nothing(store_of_two):
    with sqlite3.connect(store_of_two.path) as connection:
        connection.execute("UPDATE threads SET thread_id = CAST(x'eda080' AS TEXT) WHERE thread_id = 't'")
    connection.close()
    checkpointer = store_of_two.open()
    assert len(checkpointer.list_threads({})) == 2
    assert checkpointer.verify().threads == 2
    checkpointer.delete_runs(["r"])
    assert checkpointer.get_state("other") == state("other", 2)


def test_metadata_named_like_a_note_of_damage_is_no_damage(store):
    checkpointer = store.open()
    checkpointer.put_thread("t", clew.ThreadInfo(thread_id="t", metadata={"clew.damaged": "says the tenant"}))
    checkpointer.put_checkpoint("t", {}, metadata={"clew.damaged": "says the tenant"})
    assert checkpointer.verify().ok


def test_a_long_text_that_was_edited_is_no_damage(store):
    checkpointer = store.open()
    body = text("long", 300_000)
    for number in range(12):
        body = f"{body[: 20_000 * number]}{text(number, 2_000)}{body[20_000 * number + 2_000 :]}"
        checkpointer.put_state("t", body)
        checkpointer.put_state("f", {"text": body, "also": [body]})
    assert checkpointer.verify().damage == ()


def test_a_damaged_id_is_not_taken_for_an_erased_thread(store_of_two):
    not_utf8(store_of_two.path, "threads", "thread_id", "thread_id = 't'")
    checkpointer = store_of_two.open()
    with pytest.raises(clew.CorruptRecordError, match="could not be deleted"):
        checkpointer.clear_all()
    assert checkpointer.get_thread("other") is None


@pytest.mark.parametrize(
    "policy", [clew.RetentionPolicy(max_bytes=1), clew.RetentionPolicy(max_history=1, max_bytes=1)]
)
def test_a_cleanup_ends_although_nothing_goes(store_of_two, monkeypatch, policy):
    checkpointer = store_of_two.open()
    commits: list[object] = []

    async def ineffective(record, **content):
        assert len(commits) < 20
        commits.append(content)

    monkeypatch.setattr(checkpointer._sweeper, "commit", ineffective)
    checkpointer.cleanup(policy)
    assert commits


def test_what_is_to_be_kept_is_named_in_pairs(store):
    wrong: tuple[Any, ...] = (True, "ab", [1], [("", "c", "d")], [("", [])])
    for keep in wrong:
        with pytest.raises(clew.ConfigError, match="keep"):
            store.open().cleanup(clew.RetentionPolicy(max_history=1), keep=keep)

"""Tampering: without a key, a writer can destroy records, but not change or move them unnoticed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

import clew
from clew.codec.frame import seal, sealed_content, sealed_frame
from tests.checkpointer.support import at, text
from tests.encryption.support import opened


def state(name: str, number: int) -> dict[str, Any]:
    return {"n": number, "m": [text((name, number, each)) for each in range(8)]}


@pytest.fixture
def made(sqlite):
    """Two threads of three checkpoints each, of two users."""
    memory = opened(sqlite)
    found = {}
    for name in ("ann", "eve"):
        config = {"thread_id": name, "user_id": name}
        for number in range(3):
            said = clew.Message(message_id=f"m{number}", role="user", content=f"{name} says {number}")
            found[name, number] = memory.put_checkpoint(
                config, state(name, number), metadata={"of": name, "n": number}, messages=[said]
            )
        head = {**config, "checkpoint_id": found[name, 2].checkpoint_id}
        memory.put_attachments(head, {"k": f"attached by {name}"})
        memory.put_thread(config, clew.ThreadInfo(thread_id=name, user_id=name, thread_name=f"name of {name}"))
    memory.release()
    return found


def change(store: Any, statement: str, *parameters: Any) -> None:
    connection = sqlite3.connect(store.path)
    connection.create_function("tampered", 1, tampered)
    connection.execute(statement, parameters)
    connection.commit()
    connection.close()


def tampered(stored: bytes) -> bytes:
    """Return `stored` with one bit flipped and a valid checksum."""
    content = bytes(sealed_content(stored))
    return sealed_frame(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])


def swap(store: Any, table: str, columns: str, one: int, other: int) -> None:
    """Swap columns of two rows of a table, by their positions."""
    connection = sqlite3.connect(store.path)
    rows = connection.execute(f"SELECT rowid, {columns} FROM {table} ORDER BY rowid").fetchall()
    values = ", ".join("?" for _ in columns.split(", "))
    for here, there in ((one, other), (other, one)):
        connection.execute(
            f"UPDATE {table} SET ({columns}) = ({values}) WHERE rowid = ?", (*rows[there][1:], rows[here][0])
        )
    connection.commit()
    connection.close()


def config(name: str) -> dict[str, str]:
    return {"thread_id": name, "user_id": name}


@pytest.mark.parametrize(("table", "column"), [("value_rows", "data"), ("checkpoints", "body")])
def test_a_changed_record_is_named_and_the_others_load(sqlite, made, table, column):
    change(sqlite, f"UPDATE {table} SET {column} = tampered({column}) WHERE rowid = 2")
    memory = opened(sqlite)
    with pytest.raises(clew.CorruptRecordError, match="fails authentication") as caught:
        memory.get_state(at(made["ann", 1]) | {"user_id": "ann"})
    assert caught.value.checkpoint_id == made["ann", 1].checkpoint_id
    assert memory.get_state(config("ann")) == state("ann", 2)
    assert [each.checkpoint_id for each in memory.verify().damage] == [made["ann", 1].checkpoint_id]
    assert memory.list_checkpoints(config("ann"))[1].metadata == {"of": "ann", "n": 1}


def test_changed_digests_are_noticed(sqlite, made):
    change(sqlite, "UPDATE value_rows SET digests = zeroblob(length(digests)) WHERE rowid = 2")
    with pytest.raises(clew.CorruptRecordError):
        opened(sqlite).get_state(at(made["ann", 1]) | {"user_id": "ann"})


EVES = config("eve")
SWAPS: list[Any] = [
    pytest.param("checkpoints", "body", (0, 2), lambda memory: memory.get_state(config("ann")), id="states"),
    pytest.param("checkpoints", "metadata", (0, 2), lambda memory: memory.get_checkpoint(config("ann")), id="metadata"),
    pytest.param("checkpoints", "metadata, body", (2, 5), lambda memory: memory.get_state(EVES), id="checkpoints"),
    pytest.param("value_rows", "digests, data, count", (2, 5), lambda memory: memory.get_state(EVES), id="values"),
    pytest.param("messages", "data", (2, 5), lambda memory: memory.get_message(EVES, "m2"), id="messages"),
]


@pytest.mark.parametrize(("table", "columns", "rows", "read"), SWAPS)
def test_a_moved_record_is_not_read(
    sqlite,
    made,
    table: str,
    columns: str,
    rows: tuple[int, int],
    read: Callable[[clew.BaseCheckpointer], object],
):
    swap(sqlite, table, columns, *rows)
    with pytest.raises(clew.CorruptRecordError, match="belongs to another place"):
        read(opened(sqlite))


def test_a_moved_attachment_is_left_out_and_named(sqlite, made, caplog):
    swap(sqlite, "attachments", "data", 0, 1)
    memory = opened(sqlite)
    assert memory.list_attachments(EVES) == {}
    assert "belongs to another place" in caplog.text
    assert {(each.thread_id, each.attachment) for each in memory.verify().damage} == {("ann", "k"), ("eve", "k")}


def test_a_moved_description_is_listed_as_damaged(sqlite, made):
    swap(sqlite, "threads", "data", 0, 1)
    memory = opened(sqlite)
    (found,) = memory.list_threads(EVES)
    assert found.thread_name is None
    assert "belongs to another place" in found.metadata["clew.damaged"]
    with pytest.raises(clew.CorruptRecordError, match=r"'eve'.*belongs to another place"):
        memory.get_thread(EVES)


def test_a_forged_fork_reads_nothing_of_its_source(sqlite, made):
    change(sqlite, "UPDATE threads SET forked_thread = 'ann', forked_checkpoint = ?", made["ann", 2].checkpoint_id)
    swap(sqlite, "checkpoints", "metadata, body", 2, 5)
    swap(sqlite, "value_rows", "digests, data, count", 2, 5)
    with pytest.raises(clew.CorruptRecordError):
        opened(sqlite).get_state(config("eve"))


def test_a_forged_record_is_refused(sqlite, made):
    change(sqlite, "UPDATE messages SET data = ?", seal(b"\x80"))
    with pytest.raises(clew.EncryptionError, match="not encrypted"):
        opened(sqlite).get_message(config("ann"), "m2")


@pytest.mark.parametrize("sealed", ["x''", "metadata"], ids=["emptied", "as it was"])
@pytest.mark.parametrize("made_up", ["node_name = 'forged'", "step = 7"])
def test_a_forged_node_or_step_is_not_shown(sqlite, made, made_up, sealed):
    change(sqlite, f"UPDATE checkpoints SET {made_up}, metadata = {sealed}")
    memory = opened(sqlite)
    for each in memory.list_checkpoints(config("ann")):
        assert (each.node_name, each.step) == (None, None)
    assert memory.verify().ok == (sealed == "metadata")


@pytest.mark.parametrize("table", ["messages", "threads"])
def test_a_forged_search_text_finds_nothing(sqlite, made, table):
    change(sqlite, f"UPDATE {table} SET text = CAST('forged' AS BLOB), data = x''")
    memory = opened(sqlite)
    assert memory.list_messages(config("ann"), search="forged") == []
    assert memory.list_threads({"user_id": "ann"}, search="forged") == []
    assert not memory.verify().ok


def test_the_docs_list_what_is_not_protected(sqlite, made):
    """A record restored to earlier bytes, an emptied one, a removed one: none is detected."""
    memory = opened(sqlite)
    connection = sqlite3.connect(sqlite.path)
    earlier = connection.execute("SELECT data FROM messages ORDER BY rowid LIMIT 1").fetchone()[0]
    memory.put_messages(config("ann"), [clew.Message(message_id="m0", role="user", content="changed")])
    assert [each.content for each in memory.list_messages(config("ann"), limit=1)] == ["changed"]
    memory.release()
    connection.execute("UPDATE messages SET data = ? WHERE rowid = (SELECT min(rowid) FROM messages)", (earlier,))
    connection.execute("UPDATE checkpoints SET metadata = x'' WHERE rowid = 1")
    connection.execute("DELETE FROM attachments")
    connection.commit()
    connection.close()
    again = opened(sqlite)
    assert [each.content for each in again.list_messages(config("ann"), limit=1)] == ["ann says 0"]
    assert again.list_checkpoints(config("ann"))[-1].metadata == {}
    assert again.verify().ok


def test_a_fork_opens_records_of_its_source_and_of_no_other_thread(sqlite, made):
    memory = opened(sqlite)
    memory.fork(config("ann"), "fork")
    memory.release()
    again = opened(sqlite)
    forked = {"thread_id": "fork", "user_id": "ann"}
    assert again.get_state(forked) == state("ann", 2)
    assert [each.content for each in again.list_messages(forked)] == [f"ann says {number}" for number in range(3)]
    assert again.list_attachments(forked) == {"k": "attached by ann"}
    again.release()
    # The fork's own messages are the last three.
    swap(sqlite, "messages", "data", 8, 5)
    with pytest.raises(clew.CorruptRecordError):
        opened(sqlite).get_message(forked, "m2")

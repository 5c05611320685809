"""Whoever can write to the store but has no key can destroy records, but not change them, or put them elsewhere, unnoticed."""

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
    """With a checksum that fits."""
    content = bytes(sealed_content(stored))
    return sealed_frame(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])


def swap(store: Any, table: str, columns: str, one: int, other: int) -> None:
    """Exchange columns of two rows of a table, by their places in it."""
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
    with pytest.raises(clew.CorruptRecordError, match="is not what was sealed there") as caught:
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
    pytest.param("attachments", "data", (0, 1), lambda memory: memory.list_attachments(EVES), id="attachments"),
]


@pytest.mark.parametrize(("table", "columns", "rows", "read"), SWAPS)
def test_what_was_put_elsewhere_is_not_read_there(
    sqlite,
    made,
    table: str,
    columns: str,
    rows: tuple[int, int],
    read: Callable[[clew.BaseCheckpointer], object],
):
    swap(sqlite, table, columns, *rows)
    with pytest.raises(clew.CorruptRecordError, match="belongs somewhere else"):
        read(opened(sqlite))


def test_a_description_that_was_put_elsewhere_is_listed_as_damaged(sqlite, made):
    swap(sqlite, "threads", "data", 0, 1)
    found = opened(sqlite).get_thread(config("eve"))
    assert found is not None
    assert found.thread_name is None
    assert "belongs somewhere else" in found.metadata["clew.damaged"]


def test_a_thread_that_only_says_that_it_is_a_fork_reads_nothing_of_its_source(sqlite, made):
    change(sqlite, "UPDATE threads SET forked_thread = 'ann', forked_checkpoint = ?", made["ann", 2].checkpoint_id)
    swap(sqlite, "checkpoints", "metadata, body", 2, 5)
    swap(sqlite, "value_rows", "digests, data, count", 2, 5)
    with pytest.raises(clew.CorruptRecordError):
        opened(sqlite).get_state(config("eve"))


def test_a_record_that_somebody_made_up_is_refused(sqlite, made):
    change(sqlite, "UPDATE messages SET data = ?", seal(b"\x80"))
    with pytest.raises(clew.EncryptionError, match="not encrypted"):
        opened(sqlite).get_message(config("ann"), "m2")


def test_a_fork_brings_what_was_sealed_for_its_source_and_for_that_one_only(sqlite, made):
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

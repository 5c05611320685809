"""Keys: rotated, missing, wrong; and stores that were not encrypted before."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from zlib import crc32

import pytest

import clew
from clew.storage.encrypted import encrypted_in
from tests.checkpointer.support import MemoryStore, text
from tests.encryption.support import ENCRYPTION, NEW, OLD, ONLY_NEW, ROTATED, dump, opened

WRONG = clew.Encryption(keys={"old": NEW})
READING = clew.Encryption(keys={"old": OLD}, plain="read")


def begin(memory: clew.BaseCheckpointer, thread: str = "t") -> None:
    said = clew.Message(message_id="m", role="user", content="secret words")
    memory.put_checkpoint(thread, state(1), messages=[said], metadata={"n": 1}, node_name="node", step=1)
    memory.put_checkpoint(thread, state(2), metadata={"n": 2})
    memory.put_thread(thread, clew.ThreadInfo(thread_id=thread, thread_name="secret name"))
    head = memory.list_checkpoints(thread)[0]
    memory.put_attachments({"thread_id": thread, "checkpoint_id": head.checkpoint_id}, {"k": "attached"})


def state(number: int) -> dict[str, object]:
    return {"n": number, "list": [text(each) for each in range(20 * number)]}


def everything(memory: clew.BaseCheckpointer, thread: str = "t") -> object:
    """Return everything in a thread but the sizes, which sealing changes."""
    found = memory.get_thread(thread)
    assert found is not None
    return (
        [each.to_dict() for each in memory.get_history(thread)],
        [each.to_dict() for each in memory.list_messages(thread)],
        memory.list_attachments(thread),
        (found.thread_name, found.created_at, found.updated_at, found.user_id, found.run_id, found.message_count),
    )


def test_with_a_new_key_the_old_data_is_read_and_new_data_is_sealed_with_the_new_one(store):
    begin(opened(store))
    rotated = opened(store, ROTATED)
    assert rotated.get_state("t") == state(2)
    rotated.put_state("u", state(1))
    with pytest.raises(clew.EncryptionError, match="'new'"):
        opened(store).get_state("u")
    assert opened(store, ONLY_NEW).get_state("u") == state(1)


def test_after_resealing_the_old_key_is_not_needed(store):
    begin(opened(store))
    before = everything(opened(store))
    rotated = opened(store, ROTATED)
    rotated.put_state("u", state(1))
    calls: list[tuple[int, int]] = []
    report = rotated.reseal(progress=lambda done, total: calls.append((done, total)))
    assert report == clew.ResealReport(threads=2, resealed=1)
    assert calls[-1] == (2, 2)
    only_new = opened(store, ONLY_NEW)
    assert everything(only_new) == before
    assert only_new.verify().ok
    assert rotated.reseal() == clew.ResealReport(threads=2, resealed=0)
    assert only_new.update_state("t", append={"list": ["more"]}).state is clew.NOT_LOADED
    only_new.put_state("t", state(2))
    assert only_new.get_state("t") == state(2)
    assert b"secret" not in dump(store)


def test_one_thread_can_be_resealed(store):
    for name in ("t", "u"):
        begin(opened(store), name)
    assert opened(store, ROTATED).reseal("t") == clew.ResealReport(threads=1, resealed=1)
    assert opened(store, ONLY_NEW).get_state("t") == state(2)
    with pytest.raises(clew.EncryptionError):
        opened(store, ONLY_NEW).get_state("u")


def test_values_that_a_fork_shares_keep_their_key_and_are_reported(tmp_path):
    store = MemoryStore(tmp_path)
    begin(opened(store))
    opened(store).fork("t", "f")
    rotated = opened(store, ROTATED)
    report = rotated.reseal()
    assert sorted(report.left) == ["f", "t"]
    assert rotated.get_state("f") == state(2)
    rotated.delete_thread("f")
    assert rotated.reseal().left == ()
    assert opened(store, ONLY_NEW).get_state("t") == state(2)


def test_forks_are_read_with_any_of_the_keys_and_after_resealing(store):
    memory = opened(store)
    begin(memory)
    memory.fork("t", "f")
    memory.fork("f", "g")
    memory.put_checkpoint("g", state(3), messages=[clew.Message(message_id="own", role="user", content="own")])
    before = [everything(memory, name) for name in ("f", "g")]
    memory.delete_thread("t")
    rotated = opened(store, ROTATED)
    assert [everything(rotated, name) for name in ("f", "g")] == before
    rotated.reseal()
    assert [everything(opened(store, ROTATED), name) for name in ("f", "g")] == before
    assert [each.message_id for each in rotated.list_messages("g", search="words")] == ["m"]
    rotated.put_thread("g", clew.ThreadInfo(thread_id="g", thread_name="another"))
    assert opened(store, ROTATED).get_state("g") == state(3)


def test_merged_and_compacted_rows_are_sealed_with_the_current_key(store):
    memory = opened(store)
    for number in range(20):
        memory.update_state("t", append={"list": [text(number)]})
    rotated = opened(store, ROTATED)
    before = rotated.get_state("t")
    (sealing,) = encrypted_in(rotated.storage)
    stale = rotated._runner.run(sealing.stale("t"), "stale")
    rotated.compact()
    assert rotated._runner.run(sealing.stale("t"), "stale") <= stale - 20
    assert rotated.get_state("t") == before


def test_a_store_without_its_key_says_what_to_do(store):
    begin(opened(store))
    plain = opened(store, None)
    for read in (
        lambda: plain.get_state("t"),
        lambda: plain.get_history("t"),
        lambda: plain.list_checkpoints("t"),
        lambda: plain.list_messages("t"),
        lambda: plain.list_threads({}),
        lambda: plain.list_attachments("t"),
        lambda: plain.update_state("t", append={"list": [1]}),
        plain.verify,
        plain.compact,
    ):
        with pytest.raises(clew.EncryptionError, match=r"encryption=clew\.Encryption.*CLEW_ENCRYPTION_KEYS"):
            read()


@pytest.mark.parametrize(("given", "said"), [(WRONG, "'old' is not the key"), (ONLY_NEW, "'old', which was not given")])
def test_a_wrong_key_says_which_one_is_needed(store, given, said):
    begin(opened(store))
    memory = opened(store, given)
    for read in (lambda: memory.get_state("t"), lambda: memory.list_messages("t"), memory.verify):
        with pytest.raises(clew.EncryptionError, match=said):
            read()


def test_a_plain_store_is_refused_unless_plain_is_read(store):
    begin(store.open())
    with pytest.raises(clew.EncryptionError, match=r'plain="read"'):
        opened(store).get_state("t")
    assert opened(store, READING).get_state("t") == state(2)


def test_a_plain_store_is_encrypted_in_place(store):
    begin(store.open())
    old = store.open().get_history("t")
    reading = opened(store, READING)
    reading.update_state("t", append={"list": ["sealed"]})
    before = everything(reading)
    assert reading.get_history("t")[1:] == old
    assert reading.list_messages("t", search="words")[0].message_id == "m"
    assert [each.thread_id for each in reading.list_threads({}, search="secret name")] == ["t"]
    assert reading.reseal().left == ()
    assert everything(opened(store)) == before
    assert opened(store).verify().ok


def test_a_vacuum_removes_the_plain_data_of_a_resealed_sqlite_file(sqlite):
    begin(sqlite.open())
    assert b"secret" in dump(sqlite)
    reading = opened(sqlite, READING)
    reading.reseal()
    for each in sqlite.opened:
        each.release()
    with closing(sqlite3.connect(sqlite.path)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"secret" not in dump(sqlite)
    assert opened(sqlite).get_state("t") == state(2)


def test_resealing_loses_no_concurrent_writes(store, monkeypatch):
    begin(opened(store))
    rotated = opened(store, ROTATED)
    other = opened(store, ROTATED)
    applied = rotated._engine.apply_unrecorded
    written: list[int] = []

    async def meanwhile(commit):
        if len(written) < 3:
            written.append(1)
            said = clew.Message(message_id="m", role="user", content=f"new {len(written)}")
            # In another thread: each checkpointer has a loop of its own.
            writing = threading.Thread(target=other.put_messages, args=("t", [said]))
            writing.start()
            writing.join()
        return await applied(commit)

    monkeypatch.setattr(rotated._engine, "apply_unrecorded", meanwhile)
    rotated.reseal()
    assert opened(store, ONLY_NEW).list_messages("t")[0].content == "new 3"
    assert opened(store, ONLY_NEW).get_state("t") == state(2)


# The store's record of its keys

STRANGER = clew.Encryption(keys={"other": NEW})


@pytest.mark.parametrize("given", [WRONG, STRANGER, None], ids=["wrong", "another", "none"])
def test_a_process_without_the_key_is_refused_at_setup_and_writes_nothing(store, given):
    begin(opened(store))
    with pytest.raises(clew.EncryptionError, match="encryption="):
        opened(store, given).setup()
    for write in (
        lambda memory: memory.put_state("u", {"n": 1}),
        lambda memory: memory.put_messages("u", [clew.Message(role="user", content="hello")]),
        lambda memory: memory.delete_thread("t"),
    ):
        with pytest.raises(clew.EncryptionError, match="encryption="):
            write(opened(store, given))
    memory = opened(store)
    assert [each.thread_id for each in memory.list_threads({})] == ["t"]
    assert memory.verify().ok


@pytest.mark.parametrize("given", [WRONG, None], ids=["wrong", "none"])
def test_a_process_that_opened_a_store_before_it_was_sealed_is_refused_when_it_first_writes(store, given):
    early = opened(store, given)
    early.setup()
    assert early.list_threads({}) == []
    begin(opened(store))
    with pytest.raises(clew.EncryptionError):
        early.put_state("u", {"n": 1})
    assert opened(store).verify().ok


def test_an_unused_key_claims_no_store(store):
    opened(store, WRONG).setup()
    assert opened(store, WRONG).get_state("t") is None
    begin(opened(store))
    assert opened(store).verify().ok


def test_the_key_that_a_store_was_rotated_away_from_is_refused(store):
    begin(opened(store))
    rotated = opened(store, ROTATED)
    rotated.reseal("t")
    opened(store).setup()
    rotated.reseal()
    with pytest.raises(clew.EncryptionError, match="'new', which was not given"):
        opened(store).setup()
    opened(store, ONLY_NEW).setup()


def test_the_record_of_the_keys_does_not_contain_them(store):
    begin(opened(store, ROTATED))
    stored = dump(store)
    for key in (OLD, NEW):
        assert key not in stored
        assert repr(key)[2:-1].encode() not in stored


def test_a_plain_pair_is_refused_if_one_of_the_stores_is_sealed(tmp_path):
    first, second = (f"sqlite:///{tmp_path}/{name}.db" for name in ("first", "second"))
    with clew.connect(second, encryption=clew.Encryption(keys={"old": OLD})) as sealed:
        sealed.put_state("t", {"n": 1})
    with pytest.raises(clew.EncryptionError, match="CLEW_ENCRYPTION_KEYS"), clew.connect(first, secondary=second):
        pass


def foreign(store, encryption):
    """A process that keeps writing with its keys, because it was admitted earlier."""
    memory = store.open() if encryption is None else opened(store, encryption)
    for sealing in encrypted_in(memory.storage):
        sealing.keyed._admitted = sealing.keyed._enlisted = True
    return memory


@pytest.mark.parametrize("given", [WRONG, STRANGER, None], ids=["wrong", "another", "none"])
def test_records_whose_key_is_missing_are_named_and_the_others_are_maintained(store, given, caplog):
    memory = opened(store)
    begin(memory)
    begin(foreign(store, given), "foreign")
    listed = {each.thread_id: each for each in memory.list_threads({})}
    assert listed["t"].thread_name == "secret name"
    assert "encryption=" in listed["foreign"].metadata["clew.damaged"]
    assert [each.thread_id for each in memory.list_threads({}, search="secret")] == ["t"]
    assert {each.thread_id for each in memory.verify().damage} == {"foreign"}
    assert memory.cleanup(clew.RetentionPolicy(max_history=1)).checkpoints == 1
    assert memory.compact().threads == 2
    at = {"thread_id": "foreign", "checkpoint_id": memory.list_checkpoints("foreign")[0].checkpoint_id}
    assert memory.list_attachments(at) == {}
    assert "damaged attachment left out: 'k'" in caplog.text
    assert memory.reseal() == clew.ResealReport(threads=2, resealed=1, left=("foreign",))
    assert memory.get_state("t") == state(2)
    assert foreign(store, given).get_history("foreign")[1].state == state(1)


@pytest.mark.parametrize("given", [WRONG, None], ids=["wrong", "none"])
def test_reading_a_record_whose_key_is_missing_names_the_record(store, given):
    memory = opened(store)
    begin(memory)
    begin(foreign(store, given), "foreign")
    for read in (
        lambda: memory.get_state("foreign"),
        lambda: memory.get_history("foreign"),
        lambda: memory.get_message("foreign", "m"),
        lambda: memory.update_state("foreign", append={"list": [1]}),
        lambda: memory.copy_thread("foreign", "copy"),
    ):
        with pytest.raises(clew.EncryptionError, match="thread 'foreign'") as caught:
            read()
        assert caught.value.thread_id == "foreign"
    for change in (
        lambda: memory.fork("foreign", "fork"),
        lambda: memory.put_thread("foreign", clew.ThreadInfo(thread_id="foreign")),
    ):
        with pytest.raises(clew.EncryptionError):
            change()
    assert [each.role for each in memory.list_messages("foreign")] == ["damaged"]
    memory.delete_thread("foreign")
    assert memory.verify().ok


def test_without_encryption_there_is_nothing_to_reseal(store):
    with pytest.raises(clew.ConfigError, match="encryption="):
        store.open().reseal()


def test_a_damaged_record_of_the_keys_is_named_and_is_not_taken_for_a_wrong_key_or_none(sqlite):
    memory = opened(sqlite)
    begin(memory)
    memory.release()

    def write(record: bytes) -> None:
        with closing(sqlite3.connect(sqlite.path)) as connection, connection:
            connection.execute("UPDATE own SET data = ? WHERE name = 'keys'", (record,))

    with closing(sqlite3.connect(sqlite.path)) as connection:
        ((stored,),) = connection.execute("SELECT data FROM own WHERE name = 'keys'").fetchall()
    flipped = [stored[:at] + bytes([stored[at] ^ 1 << at % 8]) + stored[at + 1 :] for at in range(len(stored))]
    no_keys = b"\x01" + crc32(b"\x80").to_bytes(4) + b"\x80"
    for record in (*flipped, stored[:-1], b"", b"\x80", no_keys):
        write(record)
        for given in (ENCRYPTION, None):
            memory = opened(sqlite, given)
            for call in (memory.setup, lambda memory=memory: memory.put_state("u", {"n": 1})):
                with pytest.raises(clew.CorruptRecordError, match="record of its encryption keys"):
                    call()
            memory.release()
    write(stored)
    assert opened(sqlite).get_state("t") == state(2)

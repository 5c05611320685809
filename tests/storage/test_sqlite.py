"""The SQLite storage: the contract with small limits, files, processes, query plans and the writer."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.errors import (
    ClewError,
    ConfigError,
    CorruptRecordError,
    SchemaVersionError,
    StorageError,
    TransientStorageError,
)
from clew.model.commit import After, Applied, Removal
from clew.model.config import ANY_USER
from clew.model.queries import CheckpointQuery
from clew.model.records import ValueRow
from clew.storage import execution
from clew.storage.conversions import pack_ranges, union, unpack_ranges
from clew.storage.protocol import ENDS_KEPT, StaleBasisError
from clew.storage.sqlite import (
    SQLiteStorage,
    applier,
    connections,
    message_index,
    queries,
    schema,
    thread_index,
    writer,
)
from clew.storage.sqlite.message_index import candidates
from clew.testing import DrivenStorage, DurableStorageContract, run_inline
from clew.testing.build import checkpoint, commit, deletion, fork_of, message, row
from tests.rings import rounds


class TestSQLiteStorageWithSmallLimits(DurableStorageContract):
    """The contract with everything in the substring indexes immediately."""

    kind = "indexed"
    paths = ("warm", "between")

    @pytest.fixture(autouse=True)
    def _limits(self, monkeypatch):
        monkeypatch.setattr(message_index, "INDEX_FROM", 0)
        monkeypatch.setattr(message_index, "INDEX_STEP", 1)
        monkeypatch.setattr(thread_index, "WAITING", 0)
        monkeypatch.setattr(thread_index, "REACH", 1)

    def make_storage(self, tmp_path):
        return SQLiteStorage(tmp_path / "clew.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clew.db"


@pytest.fixture
def store(path: Path):
    driven = DrivenStorage(lambda: SQLiteStorage(path))
    yield driven
    driven.close()


def turn(number: int, thread_id: str = "t", **parts):
    """A commit that fits the fast path: one more value, and a checkpoint over all values."""
    new = checkpoint(f"c{number}", covers=[(0, number + 1)])
    return commit(thread_id, values=row(number), checkpoint=new, **parts)


def raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


# The file


def test_a_fresh_file_has_the_schema_that_the_migrations_add_up_to(store, path):
    expected = sqlite3.connect(":memory:")
    for name in schema.MIGRATIONS:
        for statement in schema.statements(schema.script(name)):
            expected.execute(statement)
    listing = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    with raw(path) as found:
        assert found.execute(listing).fetchall() == expected.execute(listing).fetchall()
        assert found.execute("PRAGMA user_version").fetchone() == (len(schema.MIGRATIONS),)
        assert found.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert found.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    found.close()
    expected.close()


def test_a_file_of_an_older_version_is_migrated_in_place(store, path, monkeypatch):
    store.apply(turn(0))
    store.run(store.storage.close())
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "next.sql"))
    monkeypatch.setattr(schema, "VERSION", len(schema.MIGRATIONS))
    before = schema.script
    monkeypatch.setattr(schema, "script", lambda name: "CREATE TABLE more (x);" if name == "next.sql" else before(name))
    store.reopen()
    assert store.checkpoint_ids() == ["c0"]
    with raw(path) as found:
        assert found.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        assert found.execute("SELECT count(*) FROM more").fetchone() == (0,)
    found.close()


def _set_up(path: str, number: int) -> None:
    storage = SQLiteStorage(path)
    run_inline(storage.setup())
    (outcome,) = run_inline(storage.apply([turn(0, thread_id=f"t{number}")]))
    assert isinstance(outcome, Applied)
    run_inline(storage.close())


def test_several_processes_may_set_up_one_fresh_file_at_once(path):
    # Not multiprocessing.Pool, which restarts workers forever if they can't import this module.
    count = rounds(4, 8)
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_set_up, [str(path)] * count, range(count)))
    driven = DrivenStorage(lambda: SQLiteStorage(path))
    assert sum(thread.checkpoint_count for thread in driven.threads()) == count
    driven.close()


def test_a_file_that_another_creates_during_the_check_is_clews(path):
    class Slow(sqlite3.Connection):
        """Another process creates the file before its second statement."""

        executed = 0

        def execute(self, *args: Any) -> sqlite3.Cursor:
            self.executed += 1
            if self.executed == 2:
                run_inline(SQLiteStorage(path).setup())
            return super().execute(*args)

    connection = sqlite3.connect(path, factory=Slow)
    assert [schema.check(connection, str(path)) for _ in range(2)] == [0, schema.VERSION]
    connection.close()


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (lambda path: path.write_bytes(b"These are my notes, not a database. " * 40), "is not a database"),
        (lambda path: raw(path).execute("CREATE TABLE notes (x)").connection.close(), "not one of Clew's"),
        (lambda path: raw(path).execute("PRAGMA application_id = 7").connection.close(), "not one of Clew's"),
    ],
)
def test_a_file_that_is_not_clews_is_refused_and_left_alone(path, prepare, says):
    prepare(path)
    before = path.read_bytes()
    with pytest.raises(SchemaVersionError, match=says):
        run_inline(SQLiteStorage(path).ping())
    assert path.read_bytes() == before


def test_a_file_of_a_newer_clew_is_refused_with_both_versions(store, path):
    store.apply(turn(0))
    with raw(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SchemaVersionError, match=rf"version 99.*up to {schema.VERSION}.*upgrade") as caught:
        run_inline(SQLiteStorage(path).setup())
    assert (caught.value.found, caught.value.path) == (99, str(path))


def test_a_file_of_a_development_version_is_refused_and_left_alone(path):
    with raw(path) as connection:
        connection.execute("CREATE TABLE threads (thread_no INTEGER PRIMARY KEY)")
        connection.execute(f"PRAGMA application_id = {0x434C4557}")
        connection.execute("PRAGMA user_version = 5")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(
        SchemaVersionError, match=r"development version of Clew \(layout 5\).*open a new file"
    ) as caught:
        run_inline(SQLiteStorage(path).ping())
    assert (caught.value.found, caught.value.known) == (5, schema.VERSION)
    assert path.read_bytes() == before


def test_a_commit_that_does_not_touch_the_chain_ends_it(store, path):
    store.apply(turn(0, commit_id="a", journal=b"j"))
    with raw(path) as older:
        # What a commit on the fast path does to the thread's row.
        older.execute("UPDATE threads SET sequence = sequence + 1, updated_at = updated_at + 1")
    older.close()
    store.refused(commit(messages=[message("m")], after=After("a")), StaleBasisError)
    store.apply(commit(messages=[message("m")], after=After(None)))


def test_the_ends_of_deleted_threads_are_forgotten_after_a_while(store, path):
    late = [commit(name, messages=[message("m")], after=After(None)) for name in "abcd"]
    for name in "abc":
        store.apply_all(commit(name, messages=[message("m")], journal=b"j"), replace(deletion(name), journal=b"j"))
    with raw(path) as connection:
        connection.execute("UPDATE ended_threads SET at = at - ? + 60 WHERE thread_id = 'a'", (ENDS_KEPT,))
        connection.execute("UPDATE ended_threads SET at = at - ? - 60 WHERE thread_id <> 'a'", (ENDS_KEPT,))
    connection.close()
    for each in late[:3]:
        store.refused(each, StaleBasisError)
    store.apply(commit("d", remove=Removal(), after=After(None)))
    for each in (late[0], late[3]):
        store.refused(each, StaleBasisError)
    store.apply_all(*late[1:3])


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(StorageError, match="absent is not a directory: create it"):
        run_inline(SQLiteStorage(tmp_path / "absent" / "clew.db").apply([turn(0)]))


def test_a_memory_database_is_refused():
    with pytest.raises(ConfigError, match="MemoryStorage"):
        SQLiteStorage(":memory:")


def test_a_full_disk_says_so_and_recovers(path, monkeypatch):
    opening = connections.Connections.open
    limit = [60]

    def open_small(self, **options):
        connection = opening(self, **options)
        connection.execute(f"PRAGMA max_page_count = {limit[0]}")
        return connection

    monkeypatch.setattr(connections.Connections, "open", open_small)
    storage = SQLiteStorage(path)
    run_inline(storage.apply([turn(0)]))
    big = row(1, data=bytes(1 << 20))
    with pytest.raises(StorageError, match="disk or its quota is full"):
        run_inline(storage.apply([commit(values=big, checkpoint=checkpoint("big"))]))
    limit[0] = 1 << 20
    (outcome,) = run_inline(storage.apply([commit(values=big, checkpoint=checkpoint("big"))]))
    assert isinstance(outcome, Applied)
    run_inline(storage.close())


def test_a_file_that_stays_locked_is_a_transient_error(path):
    storage = SQLiteStorage(path, busy_timeout=0.05)
    run_inline(storage.apply([turn(0)]))
    other = raw(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TransientStorageError, match="busy_timeout"):
        run_inline(storage.apply([turn(1)]))
    assert len(run_inline(storage.checkpoints(CheckpointQuery(thread_id="t", user=None))).checkpoints) == 1
    other.execute("ROLLBACK")
    other.close()
    (outcome,) = run_inline(storage.apply([turn(1)]))
    assert isinstance(outcome, Applied)
    run_inline(storage.close())


def test_a_damaged_file_is_a_corrupt_record_error(path):
    storage = SQLiteStorage(path)
    run_inline(storage.apply([turn(number) for number in range(200)]))
    run_inline(storage.close())
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    storage = SQLiteStorage(path)
    with pytest.raises(CorruptRecordError, match="is damaged"):
        run_inline(storage.checkpoints(CheckpointQuery(thread_id="t", user=None, limit=None)))
    run_inline(storage.close())


def test_reclaim_gives_space_back_and_empties_the_log(store, path):
    for number in range(300):
        store.apply(commit(values=row(number, data=bytes(10_000)), checkpoint=checkpoint(f"c{number}")))
    store.run(store.storage.reclaim())
    full = path.stat().st_size
    store.apply(commit(remove=Removal(thread=True)))
    store.run(store.storage.reclaim())
    assert path.stat().st_size < full / 5
    assert path.with_name("clew.db-wal").stat().st_size == 0


def test_the_log_stays_bounded_while_many_write(path):
    storage = SQLiteStorage(path, synchronous="NORMAL")

    async def save(thread_id):
        for number in range(150):
            await storage.apply(
                [commit(thread_id, values=row(number, data=bytes(8_000)), checkpoint=checkpoint(f"c{number}"))]
            )

    async def main():
        await asyncio.gather(*(save(f"t{number}") for number in range(32)))

    asyncio.run(main())
    log = path.with_name("clew.db-wal").stat().st_size
    run_inline(storage.close())
    # 4,800 commits of 8 KB write about 60 MB of pages, so the WAL was restarted on the way.
    assert log < 50 << 20


# The writer


def test_one_bad_commit_of_a_batch_fails_alone(store):
    bad = commit("bad", checkpoint=checkpoint("c", node_name="\ud800"))
    outcomes = store.outcomes(turn(0, "a"), turn(1, "a"), bad, turn(0, "b"))
    assert [type(outcome) for outcome in outcomes] == [Applied, Applied, StorageError, Applied]
    assert sorted(store.thread_ids()) == ["a", "b"]
    assert not any(outcome.repeated for outcome in outcomes if isinstance(outcome, Applied))


def test_commits_of_many_callers_share_a_transaction(store, monkeypatch):
    sizes = []
    transaction = writer.Writer._transaction

    def counted(self, jobs, *, fast_path):
        sizes.append(len(jobs))
        transaction(self, jobs, fast_path=fast_path)

    monkeypatch.setattr(writer.Writer, "_transaction", counted)
    jobs = [lambda number=number: store.storage.apply([turn(0, f"t{number}")]) for number in range(64)]
    assert all(isinstance(outcome, Applied) for (outcome,) in store.at_once(jobs))
    assert sum(sizes) == 64
    assert max(sizes) > 8


def test_a_commit_that_comes_again_in_a_batch_is_not_applied_again(store):
    store.apply_all(turn(0), first := turn(1))
    outcomes = store.outcomes(turn(2), first, turn(3), turn(4))
    assert [outcome.repeated for outcome in outcomes if isinstance(outcome, Applied)] == [False, True, False, False]
    assert store.checkpoint_ids() == ["c4", "c3", "c2", "c1", "c0"]


def test_a_cancelled_waiter_does_not_keep_others_waiting(store):
    async def main():
        waiting = [asyncio.ensure_future(store.storage.apply([turn(0, f"t{number}")])) for number in range(8)]
        await asyncio.sleep(0)
        waiting[3].cancel()
        return await asyncio.gather(*waiting, return_exceptions=True)

    outcomes = store.run(main())
    assert isinstance(outcomes.pop(3), asyncio.CancelledError)
    assert all(isinstance(outcome, Applied) for (outcome,) in outcomes)


def test_an_interrupt_of_one_caller_does_not_affect_the_others(store, monkeypatch):
    store.apply(turn(0))
    write = writer.Writer._write
    others: list[threading.Thread] = []
    outcomes: list[Any] = []

    def write_and_stop(self, jobs):
        if not others:
            # Another caller arrives while this one has the turn.
            other = threading.Thread(target=lambda: outcomes.append(run_inline(store.storage.apply([turn(1)]))))
            others.append(other)
            other.start()
            while self._queue.empty() and not self._thread.begun:
                pass
            raise KeyboardInterrupt
        write(self, jobs)

    monkeypatch.setattr(writer.Writer, "_write", write_and_stop)
    with pytest.raises(KeyboardInterrupt):
        run_inline(store.storage.apply([turn(1, "mine")]))
    others[0].join()
    assert isinstance(outcomes[0][0], Applied)


def test_an_interrupted_write_does_not_lock_the_file(store, path, monkeypatch):
    store.apply(turn(0))

    def stop(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # Twice: the second interrupt comes while the first is handled.
        patch.setattr(applier.Applier, "flush", stop)
        patch.setattr(applier.Applier, "rollback", stop)
        with pytest.raises(KeyboardInterrupt):
            run_inline(store.storage.apply([turn(1)]))
    other = DrivenStorage(lambda: SQLiteStorage(path, busy_timeout=0))
    other.apply(turn(1))
    store.apply(turn(2))
    assert store.checkpoint_ids() == other.checkpoint_ids() == ["c2", "c1", "c0"]
    other.close()


def test_a_writer_that_gets_no_thread_says_so_and_works_when_there_is_room(store):
    async def save(number: int) -> Any:
        return await store.storage.apply([turn(number)])

    before = threading.stack_size(1 << 46)
    try:
        with pytest.raises(TransientStorageError, match="start another thread"):
            store.run(save(0))
    finally:
        threading.stack_size(before)
    assert isinstance(store.run(save(0))[0], Applied)


def test_what_two_storages_write_to_one_file_is_seen_by_both(store, path):
    other = DrivenStorage(lambda: SQLiteStorage(path))
    for number in range(0, 10, 2):
        store.apply(turn(number))
        other.apply(turn(number + 1))
    assert store.checkpoint_ids() == other.checkpoint_ids() == [f"c{number}" for number in range(9, -1, -1)]
    assert store.known() == other.known()
    other.close()


def test_a_sync_caller_inside_an_event_loop_is_served_in_its_own_thread(store):
    async def main():
        return execution.run_inline(store.storage.apply([turn(0)])), execution.run_inline(store.storage.ping())

    ((outcome,), _) = store.run(main())
    assert isinstance(outcome, Applied)


def test_sync_callers_and_event_loops_share_one_storage(store):
    errors: list[object] = []

    def serve(name: str, in_loop: bool) -> None:
        async def save():
            for number in range(20):
                errors.extend(
                    each for each in await store.storage.apply([turn(number, name)]) if isinstance(each, ClewError)
                )

        if in_loop:
            asyncio.run(save())
        else:
            run_inline(save())

    threads = [threading.Thread(target=serve, args=(f"t{number}", number % 2 == 0)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [thread.checkpoint_count for thread in store.threads()] == [20] * 8


def test_a_closed_storage_says_that_it_is_closed(path):
    storage = SQLiteStorage(path)
    run_inline(storage.apply([turn(0)]))
    run_inline(storage.ping())
    run_inline(storage.close())
    run_inline(storage.close())
    with pytest.raises(StorageError, match="was closed"):
        run_inline(storage.apply([turn(1)]))
    with pytest.raises(StorageError, match="was closed"):
        run_inline(storage.ping())
    assert not path.with_name("clew.db-wal").exists()


# Processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_and_its_parent_both_go_on(store):
    store.apply(turn(0))
    child = os.fork()
    if child == 0:
        try:
            (outcome,) = run_inline(store.storage.apply([turn(0, "child")]))
            os._exit(0 if isinstance(outcome, Applied) else 1)
        finally:
            os._exit(2)
    store.apply(turn(1))
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(store.thread_ids()) == ["child", "t"]
    store.apply(turn(2))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_while_many_threads_save_and_read_breaks_nobody(store):
    stop = threading.Event()
    errors: list[object] = []

    def serve(name: str) -> None:
        number = 0
        while not stop.is_set():
            outcomes = run_inline(store.storage.apply([turn(number, name)]))
            errors.extend(each for each in outcomes if isinstance(each, ClewError))
            run_inline(store.storage.checkpoints(CheckpointQuery(thread_id=name, user=None, detail="state")))
            number += 1

    threads = [threading.Thread(target=serve, args=(f"t{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for number in range(5):
        child = os.fork()
        if child == 0:
            try:
                (outcome,) = run_inline(store.storage.apply([turn(0, f"child{number}")]))
                os._exit(0 if isinstance(outcome, Applied) else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(store.threads()) == 9


_VICTIM = """
import sys
from clew.storage.sqlite import SQLiteStorage
from clew.testing import run_inline
from clew.testing.build import checkpoint, commit, row
storage = SQLiteStorage(sys.argv[1])
for number in range(100_000):
    run_inline(storage.apply([commit(values=row(number), checkpoint=checkpoint(f"c{number}"))]))
    print(number, flush=True)
"""


def test_a_killed_process_loses_nothing_that_was_acknowledged(path):
    victim = subprocess.Popen([sys.executable, "-c", _VICTIM, str(path)], stdout=subprocess.PIPE, text=True)
    assert victim.stdout is not None
    acknowledged = [int(victim.stdout.readline()) for _ in range(50)]
    victim.send_signal(signal.SIGKILL)
    acknowledged += [int(line) for line in victim.stdout.read().split("\n")[:-1]]
    victim.stdout.close()
    victim.wait()
    driven = DrivenStorage(lambda: SQLiteStorage(path))
    page = driven.page(detail="state")
    assert len(page.checkpoints) - len(acknowledged) in (0, 1)
    assert page.basis is not None
    assert page.basis.next_value == len(page.checkpoints)
    driven.close()


# Plans


# These count everything, sort the few checkpoints of one id or the few receipts of a thread, or need a
# table that is created on demand.
WHOLE = ("by_day", "totals_by_thread", "indexed_messages", "one_checkpoint", "journal_count", "with_gram", "receipts")
# Read in order from one end, as far as needed; or a short list of threads, labels or ranges.
IN_ORDER = (
    "SCAN threads USING INDEX threads_by_time",
    "SCAN threads USING COVERING INDEX threads_by_time",
    "SCAN journal",
    "SCAN json_each VIRTUAL TABLE",
    "SCAN wanted VIRTUAL TABLE",
    "SCAN part VIRTUAL TABLE",
    "SCAN threads_to_index",
)
PLANNED = [name for name in sorted(queries.SQL) if not any(part in name for part in WHOLE)]


@pytest.mark.parametrize("name", PLANNED)
def test_every_query_uses_an_index_and_sorts_nothing(store, path, name):
    statement = queries.SQL[name]
    with raw(path) as connection:
        values = dict.fromkeys(re.findall(r":(\w+)", statement), 1)
        numbered = [int(number) for number in re.findall(r"\?(\d+)", statement)]
        bound = values if ":" in statement else [1] * max(numbered, default=max(statement.count("?"), 1))
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bound)]
    connection.close()
    assert not [step for step in plan if "TEMP B-TREE" in step], plan
    assert not [step for step in plan if step.startswith("SCAN") and not step.startswith(IN_ORDER)], plan


# Forks


def test_a_fork_copies_no_values_and_outlives_its_source(store, path):
    store.apply_all(*[turn(number) for number in range(4)])
    store.apply(commit("f", fork=fork_of("t", "c1")))
    store.apply(commit("g", fork=fork_of("f")))
    store.apply(commit("f", values=row(4), checkpoint=checkpoint("c4", covers=[(0, 5)])))
    with raw(path) as connection:
        assert connection.execute("SELECT count(*) FROM value_rows").fetchone() == (5,)
        store.apply(commit("t", remove=Removal(thread=True)))
        store.apply(commit("f", remove=Removal(state=True)))
        assert [each.first for each in store.page("g", detail="state").rows] == [0, 1]
        store.apply(commit("g", remove=Removal(thread=True)))
        assert connection.execute("SELECT count(*) FROM value_rows").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM logs").fetchone() == (1,)
    connection.close()


# Search


@pytest.fixture
def small_index(monkeypatch):
    monkeypatch.setattr(message_index, "INDEX_FROM", 10)
    monkeypatch.setattr(message_index, "INDEX_STEP", 4)


def _indexed(path: Path) -> int:
    with raw(path) as connection:
        (count,) = connection.execute("SELECT indexed_messages FROM threads").fetchone()
    connection.close()
    return int(count)


def test_a_thread_enters_the_index_bit_by_bit_and_only_when_large(store, path, small_index):
    for number in range(10):
        store.apply(commit(messages=[message(f"m{number}", f"number {number}")]))
    assert _indexed(path) == 0
    store.apply(commit(messages=[message("m10", "number 10")]))
    assert _indexed(path) == 6
    store.apply(commit(messages=[message("m11", "number 11")]))
    assert _indexed(path) == 12
    assert store.message_ids(search="number 1") == ["m1", "m10", "m11"]


@pytest.mark.parametrize(
    "text", ["a\0bcd e\0f", 'say "no" and', "100%_sure", "naïve ﬁ straße 漢字漢", "'; drop--", "\ud800abc"]
)
def test_the_index_finds_what_a_scan_finds(store, small_index, text):
    others = [message(f"m{number}", f"filler {number} \0 with NUL") for number in range(30)]
    store.apply(commit(messages=others))
    store.apply(commit(messages=[message("it", text, data=b"")]))
    store.apply(commit(messages=[message("last", "last")]))
    (found,) = store.messages(message_id="it")
    for start in range(len(found.text)):
        for end in range(start + 1, len(found.text) + 1):
            assert "it" in store.message_ids(search=found.text[start:end])
    assert store.message_ids(search=found.text + "!") == []


def test_the_index_follows_replacement_deletion_and_forks(store, path, small_index):
    store.apply(
        commit(checkpoint=checkpoint("c"), messages=[message(f"m{number}", "apple pie") for number in range(20)])
    )
    store.apply(commit(messages=[message("m3", "cherry cake")]))
    store.apply(commit("f", fork=fork_of("t")))
    store.apply(commit(remove=Removal(messages=("m4",))))
    assert store.message_ids(search="cherry") == ["m3"]
    assert store.message_ids(search="apple", limit=3, offset=2) == ["m2", "m5", "m6"]
    assert store.message_ids("f", search="cherry") == ["m3"]
    store.apply(commit(remove=Removal(thread=True)))
    store.apply(commit("f", remove=Removal(thread=True)))
    with raw(path) as connection:
        found = connection.execute("SELECT count(*) FROM message_index WHERE message_index MATCH '\"ppl\"'").fetchone()
    connection.close()
    assert found == (0,)


def test_a_short_needle_asks_no_index():
    assert candidates("ab") is None
    assert candidates("abc") == '"abc"'
    assert candidates('a"bc') == '"a""b" AND """bc"'


# Conversions


ranges = st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40)).map(lambda pair: (pair[0], sum(pair))))


@given(ranges)
def test_ranges_come_back_as_they_were(given_ranges):
    assert unpack_ranges(pack_ranges(given_ranges)) == tuple(given_ranges)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60))))
def test_a_union_has_the_same_numbers(given_ranges):
    joined = union(given_ranges)
    assert {n for a, b in joined for n in range(a, b)} == {n for a, b in given_ranges for n in range(a, b)}
    assert all(a[1] < b[0] for a, b in pairwise(joined))


def test_stats_of_a_user_count_only_theirs(store):
    store.apply(
        commit("a", user="ann", values=row(0), checkpoint=checkpoint("c"), messages=[message("m", tool_calls=2)])
    )
    store.apply(commit("b", user="bob", messages=[message("m")]))
    found = store.stats("ann")
    assert list(found.by_thread) == ["a"]
    assert [(day, total.messages, total.tool_calls, total.checkpoints) for day, total in found.by_day.items()] == [
        ("2026-01-31", 1, 2, 1)
    ]
    assert len(store.stats(ANY_USER).by_thread) == 2
    assert found.stored_bytes > 0


def test_reclaiming_has_the_index_forget_what_was_removed(path, monkeypatch):
    monkeypatch.setattr(message_index, "INDEX_FROM", 0)
    monkeypatch.setattr(message_index, "INDEX_STEP", 1000)
    driven = DrivenStorage(lambda: SQLiteStorage(path))
    secret = "confidential zebra"
    for name in ("kept", "gone"):
        text = secret if name == "gone" else "nothing of note"
        driven.apply(commit(name, messages=[message(f"m{number}", f"{text} {number}") for number in range(300)]))
    driven.apply(commit("gone", remove=Removal(thread=True)))
    run_inline(driven.storage.reclaim())
    with raw(path) as connection:
        blocks = b"".join(block for (block,) in connection.execute("SELECT block FROM message_index_data"))
        assert b"zeb" not in blocks
        assert b"zebra" not in path.read_bytes()
    assert driven.message_ids("kept", search="of note 29", limit=2) == ["m29", "m290"]
    driven.close()


def test_saves_get_through_while_the_event_loop_never_idles(path):
    """If the loop did not yield the GIL, the writer would wait for as long as the loop is busy."""

    async def main() -> None:
        storage = SQLiteStorage(path)
        done = False

        async def compute() -> None:
            while not done:
                sum(range(20_000))
                await asyncio.sleep(0)

        busy = asyncio.create_task(compute())
        for number in range(40):
            (outcome,) = await asyncio.wait_for(storage.apply([turn(number)]), timeout=60)
            assert isinstance(outcome, Applied)
        done = True
        await busy
        await storage.close()

    asyncio.run(main())


def test_free_pages_are_given_back_many_at_a_time(tmp_path: Path) -> None:
    """One page per transaction, each with an fsync, would take minutes."""
    storage = SQLiteStorage(tmp_path / "clew.db")
    rows = [ValueRow(first=at, count=1, digests=bytes(16), data=os.urandom(100_000)) for at in range(40)]
    for each in rows:
        run_inline(storage.apply((commit(values=each),)))
    run_inline(storage.apply((deletion(),)))
    turns = 0
    exclusive = storage._opened.writer.exclusive

    def counted(work: Callable[[], Any]) -> Any:
        nonlocal turns
        turns += 1
        return exclusive(work)

    storage._opened.writer.exclusive = counted  # type: ignore[method-assign]
    run_inline(storage.reclaim())
    assert turns < 6
    run_inline(storage.close())
    assert (tmp_path / "clew.db").stat().st_size < 200_000

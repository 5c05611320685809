"""The PostgreSQL storage beyond the contract: batches, round trips, query plans, table layout."""

from __future__ import annotations

import asyncio
import json
import string
from datetime import timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.errors import ConfigError, ConflictError
from clew.model.commit import After, Applied, Begin, Commit, Removal
from clew.model.config import ANY_USER
from clew.model.queries import CheckpointQuery, JournalQuery, MessageQuery, ThreadQuery
from clew.model.records import JournalEntry
from clew.storage.memory import MemoryStorage
from clew.storage.postgres import PgStorage
from clew.storage.postgres.batcher import BATCH
from clew.storage.postgres.schema import INDEXED_FROM, named, script
from clew.storage.postgres.settings import PoolSettings
from clew.storage.postgres.texts import escaped, pattern, unescaped
from clew.storage.postgres.users import UserColumn
from clew.storage.protocol import COPYING, ENDS_KEPT, RECEIPTS_KEPT, RECEIPTS_PRUNED, UNFINISHED, StaleBasisError
from clew.testing.build import NOON, attachment, checkpoint, commit, deletion, fields, later, message, row
from clew.testing.driver import DrivenStorage
from clew.testing.servers import shared_postgres
from tests.storage.postgres_support import opened, own_schema, shared_schema

anything = st.text(st.characters(), max_size=6) | st.text(
    "\x00\x01\x02\x03\x04a%_\\\ud7ff\ud800\udfff\ue000", max_size=6
)


@given(anything)
def test_any_text_comes_back(text):
    stored = escaped(text)
    assert "\0" not in stored
    assert stored.encode().decode() == stored
    assert unescaped(stored) == text


@given(anything, anything)
def test_escaped_texts_sort_as_the_texts_do(one, other):
    assert (escaped(one) < escaped(other)) == (one < other)


@given(anything, st.integers(0, 6), st.integers(0, 6), anything)
def test_an_escaped_needle_is_found_exactly_where_the_needle_is(text, start, end, other):
    for needle in (text[start:end], other):
        assert (escaped(needle) in escaped(text)) == (needle in text)


def test_only_the_first_connection_of_a_process_is_asked_for_postgresqls_own_types():
    async def told() -> tuple[int, list[int]]:
        asked: list[str] = []
        pool = await PoolSettings(shared_postgres(), None, None).open()
        async with pool.acquire() as connection:
            connection.add_query_logger(lambda record: asked.append(record.query))
            numbers = await connection.fetchval("SELECT $1::int8[] || 3::int8", [1, 2])
        await pool.close()
        return len(asked), numbers

    asyncio.run(told())
    assert asyncio.run(told()) == (1, [1, 2, 3])


def test_a_pattern_escapes_the_wildcards():
    assert pattern("100%_\\") == "%100\\%\\_\\\\%"


@pytest.fixture
def queries() -> list[str]:
    """The statements that `store` has sent."""
    return []


@pytest.fixture
def store(queries):
    async def listen(connection: asyncpg.Connection) -> None:
        connection.add_query_logger(lambda query: queries.append(query.query))

    with shared_schema() as name, opened(name, pool_config={"init": listen}) as store:
        yield store


@pytest.fixture
def fresh_store(tmp_path):
    """A store without plans or statistics of earlier tests."""
    with own_schema(tmp_path) as name, opened(name) as store:
        yield store


def ask(store: DrivenStorage, statement: str, *parameters: object) -> list[Any]:
    """Return the rows of a statement that runs in the storage's schema."""

    async def run() -> list[Any]:
        connection = await asyncpg.connect(shared_postgres())
        try:
            await connection.execute(f"SET search_path = {store.storage._schema.quoted}")  # type: ignore[attr-defined]
            rows: list[Any] = await connection.fetch(statement, *parameters)
            return rows
        finally:
            await connection.close()

    return store.run(run())


def saved(thread_id: str, number: int, basis: Any = None) -> Any:
    name = f"{thread_id}-{number}"
    return commit(
        thread_id,
        commit_id=name,
        basis=basis,
        at=later(number),
        values=row(number, data=b"x" * 1000),
        checkpoint=checkpoint(name, covers=[(0, number + 1)]),
    )


def test_many_commits_at_once_take_few_statements(store, queries):
    first = store.at_once([partial(store.storage.apply, [saved(f"t{number}", 0)]) for number in range(64)])
    queries.clear()
    again = [saved(f"t{number}", 1, outcome.basis) for number, (outcome,) in enumerate(first)]
    outcomes = store.at_once([partial(store.storage.apply, [each]) for each in again])
    assert all(outcome.sequence == 2 for (outcome,) in outcomes)
    assert len(queries) <= 2 + 64 // BATCH


def test_each_commit_of_a_batch_has_its_own_outcome(store):
    bases = [store.apply(saved(f"t{number}", 0)).basis for number in range(20)]
    commits = [saved(f"t{number}", 1, basis) for number, basis in enumerate(bases)]
    commits[7] = saved("t7", 5, bases[7])
    commits[8] = replace(commits[8], user="eve", thread_id="owned")
    commits[9] = saved("t9", 0)
    commits[10] = saved("t10", 1, replace(bases[10], epoch=4))
    commits[11] = commit("t11", messages=[message("".join(map(str, range(3000))))])
    commits[12] = commit("t12", messages=[message("m1")], attachments=[attachment("c", "k")])
    commits[13] = replace(commits[13], fence=77)
    store.apply(commit("owned", user="ann", messages=[message("m1")]))
    outcomes = [outcome for (outcome,) in store.at_once([partial(store.storage.apply, [each]) for each in commits])]
    refused = {
        7: "StaleBasisError", 8: "PermissionDeniedError", 10: "StaleBasisError", 11: "StorageError", 13: "LeaseError",
    }  # fmt: skip
    for number, outcome in enumerate(outcomes):
        assert type(outcome).__name__ == refused.get(number, "Applied"), (number, outcome)
    assert outcomes[9].repeated
    assert store.message_ids("t12") == ["m1"]


def test_commits_of_one_thread_keep_their_order_among_those_of_others(store):
    commits = [commit(f"t{number % 3}", messages=[message(f"m{number}")]) for number in range(60)]
    store.at_once([partial(store.storage.apply, [each]) for each in commits])
    for name in range(3):
        assert store.message_ids(f"t{name}") == [f"m{number}" for number in range(60) if number % 3 == name]


def test_commits_of_one_thread_that_come_together_take_few_statements_and_keep_their_order(store, queries):
    (begun,) = store.run(store.storage.apply([saved("t", 0)]))
    queries.clear()
    outcomes = store.run(store.storage.apply([saved("t", number, begun.basis) for number in range(1, 13)]))
    # The first is sent at once. The others wait and are sent in powers of two: eight, two, one.
    assert len(queries) <= 4
    assert [each.sequence for each in outcomes] == [*range(2, 14)]
    assert [each.parent_id for each in outcomes] == [f"t-{number}" for number in range(12)]
    together = ask(store, "SELECT count(*) AS n FROM checkpoints GROUP BY xmin::text ORDER BY 1 DESC")
    assert together[0]["n"] >= 4


def test_what_is_refused_in_a_series_of_one_thread_is_refused_alone(store):
    (begun,) = store.run(store.storage.apply([saved("t", 0)]))
    basis = begun.basis
    wrong = replace(basis, epoch=5)
    series = [
        *[saved("t", number, basis) for number in range(1, 4)],
        saved("t", 9, basis),
        commit("t", basis=basis, checkpoint=checkpoint("rejected", parent="t-0", on_conflict="reject")),
        saved("t", 4, wrong),
        saved("t", 2, basis),
        commit("t", commit_id="named", basis=basis, checkpoint=checkpoint("t-1", body=b"replaced")),
        saved("t", 4, basis),
    ]
    outcomes = store.run(store.storage.apply(series))
    assert [type(each) for each in outcomes] == [
        *[Applied] * 3,
        StaleBasisError,
        ConflictError,
        StaleBasisError,
        Applied,
        Applied,
        Applied,
    ]
    assert [each.repeated for each in outcomes if isinstance(each, Applied)] == [False] * 3 + [True] + [False] * 2
    names = [each.checkpoint_id for each in store.page("t", limit=None).checkpoints]
    assert names == ["t-4", "t-3", "t-2", "t-1", "t-0"]


def test_commits_that_are_sent_twice_at_once_are_applied_once(store):
    commits = [saved(f"t{number}", 0) for number in range(40)]
    store.at_once([partial(store.storage.apply, [each]) for each in commits * 2])
    assert {thread.checkpoint_count for thread in store.threads()} == {1}


def test_two_storages_write_to_the_same_threads_without_deadlock(store):
    async def write() -> list[Any]:
        other = PgStorage(shared_postgres(), schema=store.storage._schema.name)
        names = [f"t{number}" for number in range(30)]
        work = [
            storage.apply([commit(name, messages=[message(f"{turn}-{at}")])])
            for turn in range(5)
            for at, (storage, order) in enumerate([(store.storage, names), (other, names[::-1])])
            for name in order
        ]
        done = await asyncio.gather(*work)
        await other.close()
        return done

    outcomes = store.run(write())
    assert all(isinstance(outcome, Applied) for (outcome,) in outcomes)
    assert {thread.message_count for thread in store.threads()} == {10}


class Counted:
    """A proxy that counts how often the client waits for the server."""

    def __init__(self) -> None:
        self.round_trips = 0

    async def start(self, url: str) -> str:
        host, port = url.split("@")[1].split("/")[0].split(":")
        self._asking = False

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, here = await asyncio.open_connection(host, int(port))

            async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter, asks: bool) -> None:
                while data := await source.read(1 << 20):
                    self.round_trips += asks and not self._asking
                    self._asking = asks
                    target.write(data)
                target.close()

            await asyncio.gather(pump(reader, here, True), pump(there, writer, False))

        self.server = await asyncio.start_server(serve, "127.0.0.1", 0)
        return url.replace(f":{port}/", f":{self.server.sockets[0].getsockname()[1]}/")


def test_commits_scan_nothing_to_find_out_whether_somebody_watches(fresh_store):
    # Where scans are disabled, as in commits, one counts as so expensive that the server compiles each query.
    rule = named(script("rules.sql"))["watched"].replace("@schema.", "")
    question = f"SELECT EXISTS (SELECT FROM {rule})"

    async def planned() -> list[str]:
        connection = await asyncpg.connect(shared_postgres(), server_settings={"enable_seqscan": "off"})
        try:
            schema = fresh_store.storage._schema.quoted
            await connection.execute(f"SET search_path = {schema}")
            return [line for (line,) in await connection.fetch(f"EXPLAIN {question}")]
        finally:
            await connection.close()

    assert "Index" in "\n".join(fresh_store.run(planned()))


def test_a_commit_and_a_load_are_one_round_trip_each():
    async def run(name: str) -> None:
        counted = Counted()
        storage = PgStorage(await counted.start(shared_postgres()), schema=name, pool_config={"max_size": 1})
        await storage.setup()
        query = CheckpointQuery(thread_id="t", user=None, detail="state")
        basis = None
        for number in range(3):
            counted.round_trips = 0
            (outcome,) = await storage.apply([saved("t", number, basis)])
            basis, committing = outcome.basis, counted.round_trips
            counted.round_trips = 0
            page = await storage.checkpoints(query)
            loading = counted.round_trips
        assert len(page.rows) == 3
        assert (committing, loading) == (1, 1)
        await storage.close()
        counted.server.close()
        await counted.server.wait_closed()

    with shared_schema() as name:
        asyncio.run(run(name))


def test_updates_of_a_threads_row_are_hot_updates(fresh_store):
    store = fresh_store
    basis = store.apply(saved("t", 0)).basis
    for number in range(1, 100):
        basis = store.apply(saved("t", number, basis)).basis
    ask(store, "SELECT pg_stat_force_next_flush()")
    store.reopen()
    for _ in range(200):
        (stats,) = ask(
            store, "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'threads'::regclass"
        )
        if stats["n_tup_upd"] >= 99:
            break
    assert stats["n_tup_upd"] >= 99
    assert stats["n_tup_hot_upd"] >= 0.95 * stats["n_tup_upd"]


def put_messages(number: int, basis: Any) -> Commit:
    return commit(commit_id=f"put-{number}", messages=[message("m1" if number else "m0", str(number))])


def put_new_messages(number: int, basis: Any) -> Commit:
    return commit(commit_id=f"put-{number}", messages=[message(f"m{number}")])


def put_state(number: int, basis: Any) -> Commit:
    name = f"put-{number}"
    return commit(commit_id=name, basis=basis, checkpoint=checkpoint(name))


def describe(number: int, basis: Any) -> Commit:
    return commit(commit_id=f"put-{number}", thread=fields(str(number)))


def remove_state(number: int, basis: Any) -> Commit:
    return commit(commit_id=f"put-{number}", remove=Removal(state=True), messages=[message("m0")])


def is_64th(number: int) -> bool:
    """Whether commit `number` of the next test gets a sequence at which receipts are pruned."""
    return (number + 2) % RECEIPTS_PRUNED == 0


@pytest.mark.parametrize("among", ["alone", "among others"])
@pytest.mark.parametrize(
    ("others", "at_64th"),
    [
        (put_new_messages, put_state),
        pytest.param(put_new_messages, put_messages, marks=pytest.mark.full),
        pytest.param(put_new_messages, describe, marks=pytest.mark.full),
        (put_state, remove_state),
        pytest.param(put_state, put_new_messages, marks=pytest.mark.full),
        (describe, put_state),
    ],
    ids=lambda kind: kind.__name__,
)
def test_receipts_are_bounded_whichever_commit_prunes_them(store, others, at_64th, among):
    """A single save and saves in a batch run different functions on the server."""
    basis = store.apply(commit(messages=[message("m0")])).basis
    made: list[Commit] = []
    for number in range(RECEIPTS_KEPT + 3 * RECEIPTS_PRUNED):
        made.append((at_64th if is_64th(number) else others)(number, basis))
        together = [made[-1]]
        if among == "among others":
            # The first one is sent at once, so `made` has to come later to be part of a batch.
            together = [commit(name, messages=[message(f"m{number}")]) for name in "uvw"]
            together.insert(1, made[-1])
        outcomes = store.at_once([partial(store.storage.apply, [each]) for each in together])
        (outcome,) = outcomes[together.index(made[-1])]
        assert isinstance(outcome, Applied), outcome
        basis = outcome.basis
        (found,) = ask(store, "SELECT count(*) FROM receipts WHERE thread_id = 't'") if number % 32 == 0 else [[0]]
        assert found[0] <= RECEIPTS_KEPT + RECEIPTS_PRUNED
    for each in made[-RECEIPTS_KEPT:]:
        assert store.apply(each).repeated


def test_receipts_that_a_commit_brings_take_the_places_of_the_commits_before_it(store):
    store.apply_all(*(put_messages(number, None) for number in range(RECEIPTS_KEPT)))
    brought = [f"brought-{number}" for number in range(RECEIPTS_KEPT)]
    store.apply(commit(commit_id="bringer", receipts=brought))
    found = list(store.run(store.storage.journal(JournalQuery(thread_id="t", receipts=True))).receipts)
    assert found[-RECEIPTS_KEPT - 1 :] == [*brought, "bringer"]
    assert len(found) <= RECEIPTS_KEPT + RECEIPTS_PRUNED
    assert found[0].startswith("put-")
    for each in brought:
        assert store.apply(commit(commit_id=each, messages=[message("m1", "again")])).repeated
    for turn in range(5):
        store.apply(commit(receipts=[f"{turn}-{number}" for number in range(1000)]))
        found = list(store.run(store.storage.journal(JournalQuery(thread_id="t", receipts=True))).receipts)
        assert len(found) <= RECEIPTS_KEPT + RECEIPTS_PRUNED
        assert found[-2] == f"{turn}-999"
    # Of the receipts of one commit, the last ones are kept the longest.
    store.apply_all(*(put_new_messages(number, None) for number in range(1000, 1000 + RECEIPTS_PRUNED)))
    assert store.apply(commit(commit_id="4-999")).repeated
    assert not store.apply(commit(commit_id="4-700")).repeated


def test_the_journals_oldest_entries_are_found_without_reading_all(fresh_store):
    store = fresh_store
    ask(
        store,
        "INSERT INTO journal SELECT 'f' || n % 100, n, 'c' || n, NULL, NULL, 0, repeat('x', 100)::bytea"
        " FROM generate_series(1, 5000) n",
    )
    ask(store, "ANALYZE journal")
    for query, index in ((JournalQuery(), "journal_by_position"), (JournalQuery(thread_id="f9"), "journal_pkey")):
        plan = explained(store, store.storage._statements.journal(query), mode="force_custom_plan")
        assert index in plan
        # Only the count reads the whole table.
        assert plan.count("Seq Scan") <= 1


def test_replaying_the_journal_of_concurrent_writers_gives_the_same_threads(store):
    """Two processes create, write to and delete the same threads concurrently."""
    made: dict[str, Commit] = {}
    for number in range(120):
        thread_id, name = f"t{number % 3}", f"{number}"
        new = deletion(thread_id) if number % 4 == 3 else commit(thread_id, messages=[message(name)])
        made[name] = replace(new, commit_id=name, journal=b"")

    async def run() -> None:
        other = PgStorage(shared_postgres(), schema=store.storage._schema.name)
        storages = (store.storage, other)
        await asyncio.gather(*(storages[at % 2].apply([each]) for at, each in enumerate(made.values())))
        await other.close()

    store.run(run())
    copy = DrivenStorage(MemoryStorage)
    for entry in store.journal(limit=1000):
        begin = Begin(incarnation=entry.incarnation) if entry.incarnation else None
        copy.apply(replace(made[entry.commit_id], after=After(entry.after), begin=begin))
    assert store.journal_count() == 120
    assert sorted(copy.thread_ids()) == sorted(store.thread_ids())
    for thread_id in copy.thread_ids():
        assert copy.message_ids(thread_id) == store.message_ids(thread_id)
        assert copy.page(thread_id).basis == store.page(thread_id).basis
    copy.close()


def test_a_removal_that_found_no_thread_comes_before_its_creation_in_the_journal(store):
    names = [f"t{number}" for number in range(4)]
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0"

    async def run() -> None:
        name = store.storage._schema.name
        other = PgStorage(shared_postgres(), schema=name)
        await other.setup()
        connection, watching = await asyncpg.connect(shared_postgres()), await asyncpg.connect(shared_postgres())
        async with connection.transaction():
            # The lock stops every commit when it writes to the journal, if not before.
            await connection.execute(f'LOCK TABLE "{name}".journal IN EXCLUSIVE MODE')
            calls = [asyncio.create_task(store.storage.apply([replace(deletion(each), journal=b"")])) for each in names]
            while await watching.fetchval(waiting, name) < len(names):
                pass
            new = [commit(each, messages=[message("m")], journal=b"") for each in names]
            calls.append(asyncio.create_task(other.apply(new)))
            while await watching.fetchval(waiting, name) < len(names) + 1:
                pass
        await asyncio.gather(*calls)
        for each in (other, connection, watching):
            await each.close()

    store.run(run())
    for each in names:
        assert [entry.incarnation is None for entry in store.journal(thread_id=each)] == [True, False]


def test_the_ends_of_deleted_threads_are_forgotten_after_a_while(store):
    late = [commit(name, messages=[message("m")], after=After(None)) for name in "abcd"]
    for name in "abc":
        store.apply_all(commit(name, messages=[message("m")], journal=b"j"), replace(deletion(name), journal=b"j"))
    ask(
        store,
        "UPDATE ended_threads SET at = at - $1::interval WHERE thread_id = 'a'",
        timedelta(seconds=ENDS_KEPT - 60),
    )
    ask(
        store,
        "UPDATE ended_threads SET at = at - $1::interval WHERE thread_id <> 'a'",
        timedelta(seconds=ENDS_KEPT + 60),
    )
    for each in late[:3]:
        store.refused(each, StaleBasisError)
    store.apply(commit("d", remove=Removal(), after=After(None)))
    for each in (late[0], late[3]):
        store.refused(each, StaleBasisError)
    store.apply_all(*late[1:3])


@pytest.mark.parametrize("others", [0, 3], ids=["alone", "batched"])
def test_a_late_commit_waits_for_a_concurrent_end_of_its_thread(store, others):
    """It must not look for the end before, and create the thread after another process did and deleted it."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0"
    names = ["t", *(f"o{number}" for number in range(others))]

    async def run() -> list[Any]:
        name, lock = store.storage._schema.name, store.storage._schema.sql("SELECT @schema.lock_new_thread_@code('t')")
        connection, watching = await asyncpg.connect(shared_postgres()), await asyncpg.connect(shared_postgres())
        async with connection.transaction():
            await connection.execute(lock)
            late = [commit(each, messages=[message("m")], after=After(None)) for each in names]
            calls = asyncio.gather(*(store.storage.apply([each]) for each in late))
            while not await watching.fetchval(waiting, name):
                pass
            await connection.execute(f"INSERT INTO \"{name}\".ended_threads VALUES ('t', 'end', now())")
        outcomes = await calls
        for each in (connection, watching):
            await each.close()
        return [each for (each,) in outcomes]

    first, *rest = store.run(run())
    assert isinstance(first, StaleBasisError)
    assert all(isinstance(each, Applied) for each in rest)
    assert set(store.thread_ids()) == set(names[1:])


def test_what_clew_compresses_itself_is_not_compressed_again(store):
    store.apply(commit(values=row(0, data=b"a" * 100_000), checkpoint=checkpoint("c1", body=b"a" * 100_000)))
    (sizes,) = ask(store, "SELECT pg_column_size(data), pg_column_size(body) FROM value_rows, checkpoints")
    assert min(sizes) >= 100_000


def explained(store: DrivenStorage, question: tuple[str, list[Any]], *, mode: str = "force_generic_plan") -> str:
    """Return the plan of the statement, by default the generic one."""
    statement, parameters = question

    async def run() -> str:
        connection = await asyncpg.connect(shared_postgres())
        try:
            await connection.execute(f"SET plan_cache_mode = {mode}")
            rows = await connection.fetch(f"EXPLAIN (FORMAT JSON) {statement}", *parameters)
            return json.dumps(json.loads(rows[0][0]))
        finally:
            await connection.close()

    return store.run(run())


def fill(store: DrivenStorage, threads: int = 3000) -> None:
    """Write many small threads directly into the tables."""
    ask(
        store,
        "WITH t AS (INSERT INTO threads SELECT 'f' || n, 'u' || n % 7, 'i', n, 0, 0, 3, 3, 3, 3, 9, n, n * 1000000::bigint,"
        " n >> 8, 'c3', 'c2', NULL, NULL, NULL, NULL, 'name', '' FROM generate_series(1, $1::integer) n),"
        " c AS (INSERT INTO checkpoints SELECT 'f' || n, s, 0, 0, 0, true, '', 'c' || s, NULL, NULL, NULL, '{0,3}',"
        " '', '' FROM generate_series(1, $1) n, generate_series(1, 3) s),"
        " v AS (INSERT INTO value_rows SELECT 'f' || n, s, 1, '', '' FROM generate_series(1, $1) n, generate_series(0, 2) s)"
        " INSERT INTO messages SELECT 'f' || n, s, s, 0, 0, 0, 'm' || s, NULL, 'text', ''"
        " FROM generate_series(1, $1) n, generate_series(0, 2) s",
        threads,
    )
    for table in ("threads", "checkpoints", "value_rows", "messages"):
        ask(store, f"ANALYZE {table}")


def test_every_query_finds_its_rows_by_an_index(fresh_store):
    store = fresh_store
    fill(store)
    statements = store.storage._statements
    queries = [
        statements.checkpoints(CheckpointQuery(thread_id="f9", user="u1", detail="state")),
        statements.checkpoints(
            CheckpointQuery(thread_id="f9", user="u1", checkpoint_id="c1", namespace=None, limit=None)
        ),
        statements.checkpoints(CheckpointQuery(thread_id="f9", user="u1", before="c2", run_id="r")),
        statements.checkpoints(CheckpointQuery(thread_id="f9", user="u1", before_sequence=3, namespace=None)),
        statements.messages(MessageQuery(thread_id="f9", user="u1")),
        statements.messages(MessageQuery(thread_id="f9", user="u1", search="tex")),
        statements.messages(MessageQuery(thread_id="f9", user="u1", message_id="m1")),
        statements.threads(ThreadQuery(user="u1")),
        statements.threads(ThreadQuery(user=None)),
        statements.threads(ThreadQuery(user=ANY_USER)),
        statements.threads(ThreadQuery(user="u1", thread_id="f9")),
        statements.trim(
            [JournalEntry(position=1, thread_id="f9", commit_id="c", after=None, incarnation=None, at=NOON, data=b"")]
        ),
    ]
    loads = [CheckpointQuery(thread_id=f"f{n}", user="u1", detail="state", limit=1) for n in range(16)]
    queries.append(statements.heads([parameters for query in loads if (parameters := statements.load(query))]))
    for question in queries:
        assert "Seq Scan" not in explained(store, question), question[0]


def test_a_users_last_threads_are_found_without_sorting_all(fresh_store):
    store = fresh_store
    fill(store, 10_000)
    ask(store, "UPDATE threads SET user_id = NULL WHERE user_id = 'u2'")
    ask(store, "ANALYZE threads")
    for user, index in (("u1", "threads_by_user"), (None, "threads_by_user"), (ANY_USER, "threads_by_time")):
        question = store.storage._statements.threads(ThreadQuery(user=user, limit=50))
        plan = explained(store, question, mode="force_custom_plan")
        assert index in plan
        assert "Incremental Sort" in plan


def test_messages_of_large_threads_are_in_the_trigram_index_if_the_server_has_one(store):
    (extension,) = ask(store, "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_trgm'")
    indexes = ask(store, "SELECT indexdef FROM pg_indexes WHERE indexname = 'messages_by_text' AND schemaname = $1",
                  store.storage._schema.name)  # fmt: skip
    assert len(indexes) == extension["count"]
    for index in indexes:
        assert f'gin_trgm_ops) WHERE ("position" >= {INDEXED_FROM})' in index["indexdef"]
    texts = [f"number {number} {string.ascii_lowercase[number % 26] * 3}" for number in range(INDEXED_FROM + 200)]
    store.apply(commit(messages=[message(f"m{number}", text) for number, text in enumerate(texts)]))
    for needle in ("ccc", "number 11", "r 1", "%", "c"):
        assert store.message_ids(search=needle) == [f"m{n}" for n, text in enumerate(texts) if needle in text]


@pytest.mark.parametrize("user", [UNFINISHED, COPYING])
@pytest.mark.parametrize("user_id_type", ["string", "int", "bigint"])
def test_the_owners_of_unfinished_threads_fit_every_owner_column(user_id_type, user):
    column = UserColumn(user_id_type)
    stored = column.stored(user)
    assert column.read(stored) == user
    if not column.takes_any:
        with pytest.raises(ConfigError):
            column.stored(str(stored))


@pytest.mark.parametrize(
    ("user_id_type", "good", "bad"),
    [
        ("int", ["7", "-3", str(2**31 - 1)], ["ann", "007", " 7", str(2**31), "7.0"]),
        ("bigint", ["7", str(2**63 - 1)], [str(2**63), "x"]),
        ("string", ["ann", "007", ""], []),
    ],
)
def test_owners_are_kept_as_the_column_has_them(tmp_path, user_id_type, good, bad):
    with own_schema(tmp_path) as name, opened(name, user_id_type=user_id_type) as store:
        for user in good:
            store.apply(commit(f"of {user}", user=user, messages=[message("m1")]))
            assert store.thread_ids(user=user) == [f"of {user}"]
            assert store.known(f"of {user}").user_id == user
            assert store.stats(user).by_thread.keys() == {f"of {user}"}
            store.lease("me", f"of {user}", user=user)
        for user in bad:
            outcomes = store.outcomes(
                commit("t", user=user, messages=[message("m1")]), commit("u", messages=[message("m1")])
            )
            assert [type(outcome) for outcome in outcomes] == [ConfigError, Applied]
            with pytest.raises(ConfigError, match="user_id"):
                store.threads(user=user)


def test_an_unknown_type_of_owner_is_refused():
    with pytest.raises(ConfigError, match="user_id_type"):
        PgStorage(user_id_type="uuid")  # type: ignore[arg-type]


def test_a_stale_writer_among_many_is_told_and_the_others_are_not_held_up(store):
    basis = store.apply(saved("t", 0)).basis
    jobs = [partial(store.storage.apply, [saved("t", 1, basis)])] * 1
    jobs += [
        partial(store.storage.apply, [replace(saved("t", 1, basis), commit_id=f"x{number}")]) for number in range(5)
    ]
    jobs += [partial(store.storage.apply, [saved(f"u{number}", 0)]) for number in range(20)]
    outcomes = [outcome for (outcome,) in store.at_once(jobs)]
    assert sum(isinstance(outcome, StaleBasisError) for outcome in outcomes) == 5
    assert sum(isinstance(outcome, Applied) for outcome in outcomes) == 21

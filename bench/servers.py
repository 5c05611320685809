"""What the server storages promise about speed and size, as ratios against their drivers on the same server.

Both sides talk to one server that the run starts on loopback: PostgreSQL with fsync on, Redis with an append-only file
that is synced every second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import msgspec

import clew
from bench import cleanup
from bench.conversation import json_bytes, messages
from bench.figure import Figure, Report
from bench.measure import in_turn_async
from clew.clock import SystemClock
from clew.testing.servers import PostgresServer, RedisServer

POOL = 16
KILOBYTE = 1024


class Yardstick(Protocol):
    """The driver itself, with statements prepared and connections at hand."""

    async def write(self, data: bytes) -> None:
        """Write `data`, acknowledged as the server does by default."""

    async def write_with_others(self, data: bytes) -> None:
        """The same where many write at once, over a pool of 16."""

    async def keep(self, data: bytes) -> None:
        """Write the one large record that `read` reads."""

    async def read(self) -> bytes: ...

    async def settle(self) -> None:
        """Let the server finish what it put off while much was written."""


class RawPostgres:
    """One prepared INSERT per commit through asyncpg: a connection of its own for one writer, asyncpg's pool of 16 for many."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self) -> None:
        import asyncpg

        self._pool = await asyncpg.create_pool(self._url, min_size=POOL, max_size=POOL)
        self._connection = await asyncpg.connect(self._url)
        await self._connection.execute("CREATE TABLE IF NOT EXISTS raw (id bigserial PRIMARY KEY, data bytea)")
        await self._connection.execute("ALTER TABLE raw ALTER data SET STORAGE EXTERNAL")
        self._insert = await self._connection.prepare(_INSERT)
        self._select = await self._connection.prepare("SELECT data FROM raw WHERE id = $1")
        self._kept = 0

    async def close(self) -> None:
        await self._connection.close()
        await self._pool.close()

    async def write(self, data: bytes) -> None:
        await self._insert.fetchval(data)

    async def write_with_others(self, data: bytes) -> None:
        async with self._pool.acquire() as connection:
            await connection.execute(_INSERT, data)

    async def keep(self, data: bytes) -> None:
        self._kept = await self._connection.fetchval("INSERT INTO raw (data) VALUES ($1) RETURNING id", data)

    async def read(self) -> bytes:
        data: bytes = await self._select.fetchval(self._kept)
        return data

    async def settle(self) -> None:
        await self._connection.execute("VACUUM ANALYZE")
        await self._connection.execute("CHECKPOINT")


_INSERT = "INSERT INTO raw (data) VALUES ($1)"


class RawRedis:
    """One pipelined write per commit, through redis-py and hiredis."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self) -> None:
        from redis.asyncio import BlockingConnectionPool, Redis

        self._client = Redis(connection_pool=BlockingConnectionPool.from_url(self._url, max_connections=POOL))

    async def close(self) -> None:
        await self._client.aclose()
        await self._client.connection_pool.disconnect()

    async def write(self, data: bytes) -> None:
        pipeline = self._client.pipeline(transaction=False)
        pipeline.rpush("raw", data)
        await pipeline.execute()

    write_with_others = write

    async def keep(self, data: bytes) -> None:
        await self._client.set("kept", data)

    async def read(self) -> bytes:
        data: Any = await self._client.get("kept")
        return bytes(data)

    async def settle(self) -> None:
        """It puts nothing off but the rewriting of its log, which another process does."""


class PassingClock(SystemClock):
    """Half a second passes between any two commits, as if the threads had been active over days."""

    def __init__(self) -> None:
        self._now = super().now()

    def now(self) -> datetime:
        self._now += timedelta(seconds=0.5)
        return self._now


class Target:
    """A kind of server: how it is started, and its raw driver.

    `upkeep` are settings under which a `turn` of so many seconds shows what the server's own upkeep does in a conversation.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[dict[str, Any]], Any],
        raw: Callable[[str], Any],
        *,
        upkeep: dict[str, Any] | None = None,
        turn: float = 0,
    ) -> None:
        self.name = name
        self.upkeep = upkeep or {}
        self.turn = turn
        self._start = start
        self._raw = raw

    @asynccontextmanager
    async def running(self, settings: dict[str, Any] | None = None) -> AsyncIterator[tuple[str, Yardstick]]:
        server = await asyncio.to_thread(self._start, settings or {})
        raw = self._raw(server.url)
        try:
            await raw.open()
            yield server.url, raw
            await raw.close()
        finally:
            await asyncio.to_thread(server.close)


TARGETS = {
    "postgres": Target(
        "PostgreSQL",
        lambda settings: PostgresServer(settings, durable=True),
        RawPostgres,
        # Autovacuum looks every minute by default: a turn of 20 ms here is one of a good second elsewhere.
        upkeep={"autovacuum_naptime": 1},
        turn=0.02,
    ),
    "redis": Target(
        "Redis",
        lambda settings: RedisServer({"appendonly": "yes", "appendfsync": "everysec", **settings}),
        RawRedis,
    ),
}


async def stored_bytes(target: Target, turns: int, report: Report) -> list[Figure]:
    """Bytes that the store takes for `turns` saved states: tables and indexes, or memory."""
    said = messages(turns)
    async with target.running(target.upkeep) as (url, _), clew.connect(url) as checkpointer:
        empty = (await checkpointer.astats()).stored_bytes
        for turn in range(1, turns + 1):
            await asyncio.gather(
                checkpointer.aput_state("t", {"messages": said[: 2 * turn]}), asyncio.sleep(target.turn)
            )
            report(f"{target.name}, {turns} turns: saved {turn}")
        stored = (await checkpointer.astats()).stored_bytes - empty
        await checkpointer.acompact()
        history = await checkpointer.alist_checkpoints("t", limit=None)
        for info in history[:: max(1, turns // 50)]:
            assert await checkpointer.aget_state(info.config) == {"messages": said[: 2 * (turns - history.index(info))]}
    own = json_bytes({"messages": said})
    return [Figure(f"stored bytes, {turns} turns", stored / own, 1.2, f"{stored:,} of {own:,} bytes of JSON")]


async def one_save(target: Target, turns: int, rounds: int, report: Report) -> list[Figure]:
    """A save at the end of a long conversation against one raw write of 1 KB plus one encoding of the state."""
    said = messages(turns + rounds + 10)
    kilobyte = msgspec.msgpack.encode(said[:2])[:KILOBYTE].ljust(KILOBYTE, b"x")

    def state_at(number: int) -> dict[str, Any]:
        return {"messages": said[: 2 * (turns + 1 + number)]}

    async def encode(number: int) -> bytes:
        return msgspec.msgpack.encode(state_at(number))

    async with target.running() as (url, raw), clew.connect(url) as checkpointer:
        await checkpointer.aput_state("t", {"messages": said[: 2 * turns]})
        report(f"{target.name}: one save at turn {turns}")
        times = await in_turn_async(
            {
                "write": lambda _: raw.write(kilobyte),
                "encode": encode,
                "save": lambda number: checkpointer.aput_state("t", state_at(number)),
                "update": lambda number: checkpointer.aupdate_state(
                    "u", append={"messages": said[2 * number : 2 * number + 2]}
                ),
            },
            rounds=rounds,
        )
    yardstick = times["write"].median + times["encode"].median
    how = f"{times['save']} against a write {times['write']} + encoding {times['encode']}"
    update = times["update"].median / times["write"].median
    return [
        Figure(f"one save at turn {turns}", times["save"].median / yardstick, 1.6, how),
        Figure(
            "update_state that appends two messages", update, 1.6, f"{times['update']} against a write {times['write']}"
        ),
    ]


async def many_savers(target: Target, savers: int, turns: int, rounds: int, report: Report) -> list[Figure]:
    """Saves a second of many conversations at once in one process, against one write per commit over a pool of 16."""
    said = [messages(turns, seed) for seed in range(savers)]
    kilobyte = b"x" * KILOBYTE

    async def rate(turn_of: Callable[[int, int], Awaitable[object]]) -> float:
        async def converse(number: int) -> None:
            for turn in range(1, turns + 1):
                await turn_of(number, turn)

        begun = time.perf_counter()
        await asyncio.gather(*[converse(number) for number in range(savers)])
        return savers * turns / (time.perf_counter() - begun)

    rates: dict[str, list[float]] = {"write": [], "save": [], "update": []}
    async with target.running() as (url, raw), clew.connect(url) as checkpointer:
        for number in range(rounds + 1):
            report(f"{target.name}: {savers} savers, round {number}")

            async def save(saver: int, turn: int, label: int = number) -> None:
                await checkpointer.aput_state(f"save-{label}-{saver}", {"messages": said[saver][: 2 * turn]})

            async def update(saver: int, turn: int, label: int = number) -> None:
                new = said[saver][2 * turn - 2 : 2 * turn]
                await checkpointer.aupdate_state(f"update-{label}-{saver}", append={"messages": new})

            measured = {
                "write": await rate(lambda _, __: raw.write_with_others(kilobyte)),
                "save": await rate(save),
                "update": await rate(update),
            }
            for name, value in measured.items() if number else ():
                rates[name].append(value)

    figures = []
    for name, what in (("save", "savers at once"), ("update", "at once with update_state")):
        ratios = sorted(mine / other for mine, other in zip(rates[name], rates["write"], strict=True))
        how = (
            f"{max(rates[name]):,.0f} a second at best against {max(rates['write']):,.0f} writes; "
            f"ratios {ratios[0]:.1f} to {ratios[-1]:.1f}"
        )
        figures.append(Figure(f"{savers} {what}", ratios[len(ratios) // 2], 2.0, how, at_least=True))
    return figures


async def one_load(target: Target, turns: int, rounds: int, report: Report) -> list[Figure]:
    """Loading the head of a long thread against reading one record of that many bytes and decoding it."""
    said = messages(turns)
    async with target.running() as (url, raw), clew.connect(url) as writer:
        await raw.keep(msgspec.msgpack.encode({"messages": said}))
        for turn in range(1, turns + 1):
            await writer.aput_state("t", {"messages": said[: 2 * turn]})
            report(f"{target.name}, one load: saved turn {turn}")
        async with clew.connect(url) as hot, clew.connect(url) as cold:

            async def load_cold(_: int) -> object:
                cold._indexes.clear()
                return await cold.aget_state("t")

            async def read(_: int) -> object:
                return msgspec.msgpack.decode(await raw.read())

            assert await read(0) == await load_cold(0)
            times = await in_turn_async(
                {"raw": read, "hot": lambda _: hot.aget_state("t"), "cold": load_cold}, rounds=rounds
            )
    return [
        Figure(
            f"loading the head of {turns} turns, {how}",
            times[kind].median / times["raw"].median,
            2.0,
            f"{times[kind]} against one record {times['raw']}",
        )
        for kind, how in (("cold", "first time in a process"), ("hot", "again"))
    ]


async def many_threads(
    target: Target, few: int, many: int, checkpoints: int, rounds: int, report: Report
) -> list[Figure]:
    """What a save, a load and a listing cost among few threads and among many: all of one user, active over days."""
    times = {}
    async with target.running() as (url, raw), clew.connect(url, clock=PassingClock()) as checkpointer:
        for threads in (few, many):
            user = f"user-{threads}"
            await _fill(checkpointer, user, threads, checkpoints, report)
            await raw.settle()
            async with clew.connect(url) as fresh:
                times[threads] = await in_turn_async(_calls(checkpointer, fresh, user), rounds=min(rounds, few - 3))
    return [
        Figure(
            f"{what} among {many:,} threads of {checkpoints} checkpoints",
            times[many][name].median / times[few][name].median,
            1.5,
            f"{times[many][name]} against {times[few][name]} among {few:,}",
        )
        for name, what in (("save", "a save"), ("load", "a load"), ("list", "the newest 50"))
    ]


def _calls(
    checkpointer: clew.BaseCheckpointer, fresh: clew.BaseCheckpointer, user: str
) -> dict[str, Callable[[int], Awaitable[object]]]:
    def config(number: int) -> dict[str, str]:
        # Few of them, again and again: the first write to a page after a checkpoint logs the whole page.
        return {"thread_id": f"{user}-{number % 10}", "user_id": user}

    async def load(number: int) -> object:
        fresh._indexes.clear()
        return await fresh.aget_state(config(number))

    return {
        "save": lambda number: checkpointer.aput_state(config(number), {"n": -number}),
        "load": load,
        "list": lambda _: checkpointer.alist_threads({"user_id": user}, limit=50),
    }


async def _fill(checkpointer: clew.BaseCheckpointer, user: str, threads: int, checkpoints: int, report: Report) -> None:
    async def write(thread: int) -> None:
        for number in range(checkpoints):
            await checkpointer.aput_state({"thread_id": f"{user}-{thread}", "user_id": user}, {"n": number})

    for start in range(0, threads, 500):
        report(f"{user} has {start:,} threads of {checkpoints} checkpoints")
        await asyncio.gather(*[write(thread) for thread in range(start, min(start + 500, threads))])


Workload = Callable[[Target, bool, Report], Awaitable[list[Figure]]]


async def cleaned_up(target: Target, checkpoints: int, report: Report) -> list[Figure]:
    """The rate at which a cleanup lets checkpoints go."""
    async with target.running() as (url, _):
        return await cleanup.on_store(url, checkpoints, report)


WORKLOADS: dict[str, Workload] = {
    "bytes": lambda target, quick, report: stored_bytes(target, 40 if quick else 800, report),
    "save": lambda target, quick, report: one_save(target, 40 if quick else 800, 8 if quick else 200, report),
    "savers": lambda target, quick, report: many_savers(
        target, 8 if quick else 64, 4 if quick else 30, 2 if quick else 7, report
    ),
    "load": lambda target, quick, report: one_load(target, 40 if quick else 800, 8 if quick else 100, report),
    "lists": lambda target, quick, report: many_threads(
        target, 20 if quick else 100, 60 if quick else 100_000, 3 if quick else 20, 8 if quick else 90, report
    ),
    "cleanup": lambda target, quick, report: cleaned_up(target, 1_000 if quick else 50_000, report),
}


def run(target: str, workload: str, _: Path, quick: bool, report: Report) -> list[Figure]:
    """The figures of one workload on one kind of server."""

    async def measured() -> list[Figure]:
        return await WORKLOADS[workload](TARGETS[target], quick, report)

    return asyncio.run(measured())

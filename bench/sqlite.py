"""What the core promises about speed and size, on SQLite, as ratios against sqlite3 itself with the same pragmas."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

import clew
from bench import cleanup
from bench.conversation import json_bytes, messages
from bench.figure import Figure, Report
from bench.measure import in_turn
from clew.model.commit import Applied, Commit
from clew.storage.sqlite import SQLiteStorage


class Weighed(SQLiteStorage):
    """The storage, noting how large the largest checkpoint with its new values was."""

    largest = 0

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | clew.ClewError]:
        for commit in commits:
            if commit.checkpoint is not None:
                row = commit.values
                values = len(row.data) + len(row.digests) if row is not None else 0
                self.largest = max(self.largest, len(commit.checkpoint.body) + values)
        return await super().apply(commits)


class Raw:
    """sqlite3 with the same pragmas and no Clew."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute("CREATE TABLE raw (id INTEGER PRIMARY KEY, data BLOB)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def insert(self, data: bytes) -> None:
        self.connection.execute("INSERT INTO raw (data) VALUES (?)", (data,))

    def read(self, row: int) -> Any:
        (data,) = self.connection.execute("SELECT data FROM raw WHERE id = ?", (row,)).fetchone()
        return msgspec.msgpack.decode(data)


def stored_bytes(folder: Path, turns: int, report: Report) -> list[Figure]:
    """Bytes of the database file after `turns` saved states, before and after compaction."""
    said = messages(turns)
    figures = []
    path = folder / f"bytes-{turns}.db"
    with clew.SQLiteCheckpointer(path) as checkpointer:
        for turn in range(1, turns + 1):
            checkpointer.put_state("t", {"messages": said[: 2 * turn]})
            report(f"{turns} turns: saved {turn}")
        own = json_bytes({"messages": said})
        stored = checkpointer.stats().stored_bytes
        figures.append(
            Figure(f"stored bytes, {turns} turns", stored / own, 1.0, f"{stored:,} of {own:,} bytes of JSON")
        )
        checkpointer.compact()
        compacted = checkpointer.stats().stored_bytes
        figures.append(
            Figure(
                f"the same after acompact, {turns} turns",
                compacted / own,
                0.6,
                f"{compacted:,} of {own:,} bytes of JSON",
            )
        )
        history = checkpointer.list_checkpoints("t", limit=None)
        for info in history[:: max(1, turns // 50)]:
            loaded = checkpointer.get_state(info.config)
            assert loaded == {"messages": said[: 2 * (turns - history.index(info))]}
    return figures


def one_save(folder: Path, turns: int, rounds: int, report: Report) -> list[Figure]:
    """A save at the end of a long conversation against one INSERT of 1 KB plus one encoding of the state."""
    said = messages(turns + rounds + 10)
    kilobyte = msgspec.msgpack.encode(said[:2])[:1024].ljust(1024, b"x")
    storage = Weighed(folder / "save.db")
    with clew.BaseCheckpointer(storage) as checkpointer, Raw(folder / "raw-save.db") as raw:
        checkpointer.put_state("t", {"messages": said[: 2 * turns]})
        storage.largest = 0

        def state_at(number: int) -> dict[str, Any]:
            return {"messages": said[: 2 * (turns + 1 + number)]}

        report(f"one save at turn {turns}")
        times = in_turn(
            {
                "insert": lambda _: raw.insert(kilobyte),
                "encode": lambda number: msgspec.msgpack.encode(state_at(number)),
                "save": lambda number: checkpointer.put_state("t", state_at(number)),
                "update": lambda number: checkpointer.update_state(
                    "u", append={"messages": said[2 * number : 2 * number + 2]}
                ),
            },
            rounds=rounds,
        )
    yardstick = times["insert"].median + times["encode"].median
    how = f"{times['save']} against INSERT {times['insert']} + encoding {times['encode']}"
    return [
        Figure(f"one save at turn {turns}", times["save"].median / yardstick, 3.0, how),
        Figure(
            f"bytes of that commit, turn {turns}",
            storage.largest,
            4096,
            "the largest body, row and digests of one save",
            unit=" B",
        ),
        Figure(
            "update_state that appends two messages",
            times["update"].median / times["insert"].median,
            3.0,
            f"{times['update']} against INSERT {times['insert']}",
        ),
    ]


def many_savers(folder: Path, savers: int, turns: int, rounds: int, report: Report) -> list[Figure]:
    """Saves a second of many conversations at once in one process, against one INSERT per commit."""
    said = [messages(turns, seed) for seed in range(savers)]
    kilobyte = b"x" * 1024

    async def saves(checkpointer: clew.BaseCheckpointer, label: str) -> float:
        async def converse(number: int) -> None:
            for turn in range(1, turns + 1):
                await checkpointer.aput_state(f"{label}-{number}", {"messages": said[number][: 2 * turn]})

        begun = time.perf_counter()
        await asyncio.gather(*[converse(number) for number in range(savers)])
        return savers * turns / (time.perf_counter() - begun)

    async def run(raw: Raw) -> tuple[list[float], list[float]]:
        ours, theirs = [], []
        async with clew.SQLiteCheckpointer(folder / "many.db") as checkpointer:
            await saves(checkpointer, "warm-up")
            for number in range(rounds):
                report(f"{savers} savers: round {number + 1}")
                begun = time.perf_counter()
                for _ in range(savers * turns):
                    raw.insert(kilobyte)
                theirs.append(savers * turns / (time.perf_counter() - begun))
                ours.append(await saves(checkpointer, str(number)))
        return ours, theirs

    with Raw(folder / "raw-many.db") as raw:
        ours, theirs = asyncio.run(run(raw))
    ratios = sorted(mine / other for mine, other in zip(ours, theirs, strict=True))
    how = f"{max(ours):,.0f} saves/s at best against {max(theirs):,.0f} INSERTs/s; ratios {ratios[0]:.1f} to {ratios[-1]:.1f}"
    return [Figure(f"{savers} savers at once", ratios[len(ratios) // 2], 3.0, how, at_least=True)]


def one_load(folder: Path, turns: int, rounds: int, report: Report) -> list[Figure]:
    """Loading the head of a long thread against reading and decoding one row of that size."""
    said = messages(turns)
    with clew.SQLiteCheckpointer(folder / "load.db") as writer, Raw(folder / "raw-load.db") as raw:
        raw.insert(msgspec.msgpack.encode({"messages": said}))
        for turn in range(1, turns + 1):
            writer.put_state("t", {"messages": said[: 2 * turn]})
            report(f"one load: saved turn {turn}")
        with clew.SQLiteCheckpointer(folder / "load.db") as hot, clew.SQLiteCheckpointer(folder / "load.db") as cold:

            def load_cold(_: int) -> object:
                cold._indexes.clear()
                return cold.get_state("t")

            times = in_turn(
                {"raw": lambda _: raw.read(1), "hot": lambda _: hot.get_state("t"), "cold": load_cold}, rounds=rounds
            )
    return [
        Figure(
            f"loading the head of {turns} turns, {how}",
            times[kind].median / times["raw"].median,
            3.0,
            f"{times[kind]} against one row {times['raw']}",
        )
        for kind, how in (("cold", "first time in a process"), ("hot", "again"))
    ]


def listings(folder: Path, few: int, many: int, rounds: int, report: Report) -> list[Figure]:
    """Listing checkpoints and threads, when there are few and when there are many."""
    checkpointer = clew.SQLiteCheckpointer(folder / "lists.db", synchronous="NORMAL")

    async def fill(threads: int, owner: str) -> None:
        for start in range(0, threads, 500):
            report(f"listing: {owner} has {start} threads")
            names = range(start, min(start + 500, threads))
            await asyncio.gather(
                *[
                    checkpointer.aput_state({"thread_id": f"{owner}-{name}", "user_id": owner}, {"n": name})
                    for name in names
                ]
            )

    async def run() -> None:
        await fill(few, "few")
        await fill(many, "many")
        for turn in range(few):
            await checkpointer.aput_state("short", {"n": turn})
        for turn in range(many // 20):
            await checkpointer.aput_state("long", {"n": turn})

    asyncio.run(run())
    times = in_turn(
        {
            "few": lambda _: checkpointer.list_threads({"user_id": "few"}, limit=50),
            "many": lambda _: checkpointer.list_threads({"user_id": "many"}, limit=50),
            "short": lambda _: checkpointer.list_checkpoints("short", limit=10),
            "long": lambda _: checkpointer.list_checkpoints("long", limit=10),
        },
        rounds=rounds,
    )
    checkpointer.release()
    return [
        Figure(
            f"50 of {many:,} threads",
            times["many"].median / times["few"].median,
            1.5,
            f"{times['many']} against {few}: {times['few']}",
        ),
        Figure(
            f"10 of {many // 20:,} checkpoints",
            times["long"].median / times["short"].median,
            1.5,
            f"{times['long']} against {few}: {times['short']}",
        ),
    ]


WORKLOADS: dict[str, Callable[[Path, bool, Report], list[Figure]]] = {
    "bytes": lambda folder, quick, report: [
        figure for turns in ((40,) if quick else (400, 800)) for figure in stored_bytes(folder, turns, report)
    ],
    "save": lambda folder, quick, report: one_save(folder, 40 if quick else 800, 8 if quick else 200, report),
    "savers": lambda folder, quick, report: many_savers(
        folder, 8 if quick else 64, 4 if quick else 30, 2 if quick else 7, report
    ),
    "load": lambda folder, quick, report: one_load(folder, 40 if quick else 800, 8 if quick else 100, report),
    "lists": lambda folder, quick, report: listings(
        folder, 60 if quick else 100, 2_000 if quick else 100_000, 8 if quick else 200, report
    ),
    "cleanup": lambda folder, quick, report: cleanup.on_sqlite(folder, 1_000 if quick else 50_000, report),
}

"""Templates of stores to damage: deterministic ones, and files of earlier versions."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from clew.chance import drawn_from
from clew.checkpointer.base import BaseCheckpointer
from clew.factory import connect
from clew.model.config import ANY_USER
from clew.model.message import Message
from clew.model.retention import RetentionPolicy
from clew.model.thread import ThreadInfo
from clew.storage.conversions import micros
from clew.storage.sqlite.search_index import create_search_index, index_messages
from clew.testing.clock import FakeClock

KINDS: Final = 6
"""Number of different stores."""
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_END: Final = datetime(2100, 1, 1, tzinfo=UTC)


class SeededChance:
    """A deterministic source of ids and times."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self._milliseconds = 1_767_225_600_000

    def randbytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def uniform(self, least: float, most: float) -> float:
        return self._random.uniform(least, most)

    def time_ns(self) -> int:
        self._milliseconds += 1
        return self._milliseconds * 1_000_000


def fresh_store(kind: int, folder: Path) -> Path:
    """Write a SQLite file with records of every kind."""
    path = folder / f"fresh-{kind}.db"
    if path.exists():
        return path
    random = Random(f"template {kind}")
    with drawn_from(SeededChance(f"ids {kind}")):
        checkpointer = connect(f"sqlite:///{path}", clock=FakeClock(_BEGIN), synchronous="NORMAL")
        try:
            with checkpointer.watch({"user_id": ANY_USER}):
                fill(checkpointer, random)
        finally:
            checkpointer.release()
    with closing(sqlite3.connect(path)) as connection, connection:
        # The same in each run: neither the time of the watch nor this process.
        connection.execute("UPDATE feed_state SET until = ?", (micros(_END),))
        connection.execute("INSERT INTO leases VALUES ('t', '-', 'holder', 1, ?, ?)", (micros(_BEGIN), micros(_END)))
        # Clew creates it for large stores only.
        create_search_index(connection)
        index_messages(connection, at_once=8)
    return path


def fill(checkpointer: BaseCheckpointer, random: Random) -> None:
    """Write threads of all shapes: lists that grow, long texts, many keys, namespaces,
    forks, attachments, messages."""
    for name in ("t", "u", "v"):
        state: dict[str, Any] = {"messages": [], "text": "", "n": 0}
        for step in range(random.randrange(3, 9)):
            said = _text(random, random.choice((20, 400, 6000)))
            state["messages"] = [*state["messages"], {"role": "user", "content": said}]
            state["text"] += said[: random.randrange(3000)]
            state["n"], state["when"] = step, _BEGIN + timedelta(days=step)
            message = Message(message_id=f"m{step}", role="user", content=said[:200], created_at=_BEGIN)
            made = checkpointer.put_checkpoint(
                {"thread_id": name, "user_id": random.choice((None, "ann"))} if step == 0 else _whose(name),
                state,
                messages=[message],
                metadata={"step": step},
                node_name="node",
                step=step,
            )
            named = {**_whose(name), "checkpoint_id": made.checkpoint_id}
            if random.random() < 0.5:
                checkpointer.put_attachments(named, {"a": step, "b": [said[:50]]})
        checkpointer.put_checkpoint({**_whose(name), "checkpoint_ns": "inner"}, {"inner": said})
        checkpointer.put_thread(_whose(name), ThreadInfo(thread_id=name, thread_name=f"Thread {name}", tags=("x",)))
    checkpointer.put_retention(_whose("u"), RetentionPolicy(max_history=2))
    checkpointer.put_state("many", {f"key {n}": _text(random, 60) for n in range(400)})
    checkpointer.fork(_whose("t"), "fork")
    checkpointer.update_state(_whose("fork"), append={"messages": [{"role": "tool"}]})
    if random.random() < 0.5:
        checkpointer.compact()


def _whose(name: str) -> dict[str, Any]:
    """Return the config of the thread's owner."""
    return {"thread_id": name, "user_id": ANY_USER}


def _text(random: Random, length: int) -> str:
    return "".join(random.choices("abcdefghij klmno", k=length))

"""Damaged feeds: a feed is expendable. It stops no write, and its watchers are told that they missed something."""

from __future__ import annotations

import asyncio

import pytest

import clew
from tests.checkpointer.support import run
from tests.checkpointer.test_damaged_threads import change

HANGS = 60


async def watched(memory: clew.BaseCheckpointer, number: int, since: str | None = None) -> list[clew.Event]:
    """Watch, save, and return the events until that of the save."""
    found: list[clew.Event] = []
    async with memory.awatch("t", since=since) as watch:
        made = await memory.aput_checkpoint("t", {"n": number})
        async with asyncio.timeout(HANGS):
            async for event in watch:
                found.append(event)
                if event.checkpoint is not None and event.checkpoint.checkpoint_id == made.checkpoint_id:
                    break
    return found


DAMAGE = [
    pytest.param("feed_state", "generation", "CAST(x'ff61' AS TEXT)", id="state"),
    pytest.param("feed", "thread_id", "CAST(x'ff61' AS TEXT)", id="thread"),
    pytest.param("feed", "owner", "CAST(x'ff61' AS TEXT)", id="owner"),
    pytest.param("feed", "incarnation", "CAST(x'ff61' AS TEXT)", id="incarnation"),
    pytest.param("feed", "number", str((1 << 63) - 1), id="number"),
    pytest.param("feed_state", "until", str((1 << 63) - 1), id="until"),
    pytest.param("feed_state", "until", "-1", id="ended"),
]


@pytest.mark.parametrize(("table", "column", "value"), DAMAGE)
def test_a_damaged_feed_stops_no_write_and_begins_anew(sqlite, table, column, value):
    memory = sqlite.open()
    position = run(watched(memory, 1))[-1].position
    assert position is not None
    memory.put_state("t", {"n": 2})
    where = "number = (SELECT max(number) FROM feed)" if table == "feed" else "1"
    change(sqlite.path, f"UPDATE {table} SET {column} = {value} WHERE {where}")
    # The process that wrote the feed, and another one.
    for number, each in ((3, memory), (4, sqlite.open())):
        each.put_state("t", {"n": number})
        each.put_state("healthy", {"n": number})
        assert each.get_state("t") == {"n": number}
        events = run(watched(each, number + 10, since=position))
        assert events[-1].kind == "checkpoint"
        assert events[0].kind == "gap" or column == "until"
        each.cleanup(clew.RetentionPolicy(max_history=3))
    assert [each.position for each in run(watched(memory, 9))]
    assert memory.verify().ok

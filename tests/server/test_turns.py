"""Turns over HTTP: a refused save changes nothing in the turn."""

from __future__ import annotations

import asyncio

import pytest

from tests.checkpointer.support import text
from tests.server.support import client

ONE = {"role": "user", "content": "one"}


@pytest.mark.parametrize(
    ("refused", "status"),
    [
        ({"state": {"n": 1}, "messages": [ONE, {"rolle": "typo"}]}, 400),
        ({"state": {"n": 1}, "messages": [ONE, {**ONE, "metadata": 7}]}, 400),
        ({"state": {"n": 1}, "messages": [ONE], "step": 2**70}, 400),
        ({"state": {"n": text(1, 3000)}, "messages": [ONE]}, 413),
    ],
    ids=["no message", "no metadata", "no step", "too large"],
)
def test_a_save_that_was_refused_leaves_no_message_in_the_turn(store, refused, status):
    async def main() -> None:
        memory = store.open(max_state_bytes=1000)
        async with client(memory) as http:
            begun = await http.post("/api/threads/t/turns", json={"begin": {"n": 0}})
            place = f"/api/turns/{begun.json()['turn_id']}/checkpoints"
            for _ in range(2):
                assert (await http.post(place, json=refused)).status_code == status
            saved = await http.post(place, json={"state": {"n": 2}, "messages": [ONE]})
            assert saved.status_code == 201
            await http.delete(f"/api/turns/{begun.json()['turn_id']}")
        assert [each.text() for each in await memory.alist_messages("t")] == ["one"]
        assert await memory.aget_state("t") == {"n": 2}
        await memory.arelease()

    asyncio.run(main())

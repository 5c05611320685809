"""No acknowledged commit is lost and none is doubled, whatever happens to the network and to the server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import clew
from clew.testing.servers import PostgresServer, Proxy, RedisServer
from tests.drill.rehearsal import Rehearsal
from tests.rings import rounds

ROUNDS = rounds(30, 200)
KINDS = [
    pytest.param(PostgresServer, id="postgres"),
    pytest.param(lambda: RedisServer({"appendonly": "yes", "appendfsync": "always"}), id="redis"),
]
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(params=KINDS)
def server(request):
    with request.param() as server:
        yield server


def test_a_network_that_cuts_delays_and_drops_loses_and_doubles_nothing(server, tmp_path) -> None:
    chance = random.Random(20261115)

    async def chaos(writers: Rehearsal) -> None:
        for _ in range(ROUNDS):
            await writers.after(chance.randrange(1, 12))
            fault = chance.choice(faults)
            await asyncio.to_thread(fault)
            await asyncio.sleep(chance.uniform(0, 0.01))
            await asyncio.to_thread(proxy.accept)

    with Proxy.before(server.url) as proxy:
        faults: list[Callable[[], None]] = [
            proxy.cut,
            proxy.refuse,
            lambda: proxy.lose_answers(after=0),
            lambda: proxy.lose_answers(after=chance.randrange(1, 200)),
            lambda: proxy.delay(chance.uniform(0, 0.02)),
        ]
        asyncio.run(_drill(tmp_path, proxy.url(server.url), server.url, chaos))


def test_a_server_that_is_killed_loses_and_doubles_nothing(server, tmp_path) -> None:
    chance = random.Random(20261116)

    async def chaos(writers: Rehearsal) -> None:
        for _ in range(ROUNDS):
            await writers.after(chance.randrange(1, 12))
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)

    asyncio.run(_drill(tmp_path, server.url, server.url, chaos))


async def _drill(folder: Path, through: str, directly: str, chaos: Callable[[Rehearsal], Awaitable[None]]) -> None:
    writers = Rehearsal(folder, lanes=[("own", "shared")] * 4)
    async with clew.connect(through, retry_for=60) as shared:
        await writers.run(lambda: shared, chaos)
    async with clew.connect(directly) as checkpointer:
        findings = await writers.judged(checkpointer)
    assert not findings.counts, findings.texts

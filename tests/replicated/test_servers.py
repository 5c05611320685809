"""PostgreSQL and Redis as primary and secondary: killed, hanging and cut off while writers work."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest

import clew
from clew.testing.servers import PostgresServer, Proxy, RedisServer

FAST: dict[str, Any] = {"health_check_interval": 0.4, "failback_delay": 0.2, "timeout": 1.0, "retry_for": 30.0}


@pytest.fixture(scope="module")
def servers():
    with ExitStack() as stack:
        yield stack.enter_context(PostgresServer(durable=True)), stack.enter_context(RedisServer())


class Writers:
    """Tasks that append to threads and record what was acknowledged."""

    def __init__(self, memory: clew.BaseCheckpointer) -> None:
        self.memory = memory
        self.acknowledged: dict[str, list[str]] = {}
        self.stopping = False

    async def work(self, thread_id: str) -> None:
        said = self.acknowledged.setdefault(thread_id, [])
        number = 0
        while not self.stopping:
            text = f"{thread_id} says {number}"
            message = clew.Message(message_id=text, role="user", content=text)
            try:
                await self.memory.aput_checkpoint(thread_id, {"last": number}, messages=[message])
            except clew.ThreadDeletedError:
                # The thread had not reached the other store: create it there.
                await self.memory.aget_state(thread_id)
                continue
            said.append(text)
            number += 1
            await asyncio.sleep(0)

    def enough(self, more: int) -> bool:
        return sum(map(len, self.acknowledged.values())) >= more


async def until(done, seconds=40.0):
    deadline = asyncio.get_running_loop().time() + seconds
    while not await done():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("mode", "way"), [("sync", "killed"), ("async", "killed"), ("async", "cut off"), ("sync", "hanging")]
)
def test_nothing_acknowledged_is_lost_when_the_primary_goes_and_comes_back(servers, mode, way):
    postgres, redis = servers
    name = f"{mode} {way}".replace(" ", "_")

    async def main():
        with Proxy.before(postgres.url) as proxy:
            primary = clew.PgCheckpointer(proxy.url(postgres.url), schema=name)
            secondary = clew.RedisCheckpointer(redis.url, prefix=name)
            async with clew.DistributedCheckpointer(primary, secondary, replication_mode=mode, **FAST) as memory:
                writers = Writers(memory)
                tasks = [asyncio.create_task(writers.work(f"t{number}")) for number in range(4)]

                async def written(count):
                    for task in tasks:
                        if task.done():
                            task.result()
                    return writers.enough(count)

                await until(lambda: written(60))
                lose(postgres, proxy, way)
                so_far = sum(map(len, writers.acknowledged.values()))
                await until(lambda: written(so_far + 60))
                assert (await memory.astatus()).active_backend == "secondary"
                restore(postgres, proxy, way)

                async def back():
                    return not (await memory.astatus()).failed_over

                await until(back)
                so_far = sum(map(len, writers.acknowledged.values()))
                await until(lambda: written(so_far + 20))
                writers.stopping = True
                await asyncio.gather(*tasks)
                await until(lambda: drained(memory))
                report = await memory.aresync()
                assert report.repaired == ()
                for thread_id, said in writers.acknowledged.items():
                    there = [each.message_id for each in await memory.alist_messages(thread_id, branches="all")]
                    assert set(said) <= set(there)
                    assert len(there) == len(set(there))
                    history = await memory.alist_checkpoints(thread_id, limit=None)
                    assert len(history) >= len(said)
                assert (await memory.averify()).ok

    asyncio.run(main())


async def drained(memory):
    status = await memory.astatus()
    return not status.replication_queue_size and not status.failed_over


def lose(postgres, proxy, way):
    match way:
        case "killed":
            postgres.kill()
        case "hanging":
            # Longer than the timeout of a ping, but delayed answers must arrive before the test
            # ends.
            proxy.delay(4)
        case "cut off":
            proxy.refuse()
            proxy.cut()


def restore(postgres, proxy, way):
    match way:
        case "killed":
            postgres.start()
        case "hanging":
            proxy.accept()
            proxy.cut()
        case "cut off":
            proxy.accept()

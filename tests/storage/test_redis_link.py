"""Interrupted links: every caller gets its own answer or an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from redis.asyncio.connection import Connection

from clew.errors import TransientStorageError
from clew.storage.redis import router
from clew.storage.redis.link import Link
from clew.storage.redis.router import Node
from clew.storage.redis.settings import Limits
from clew.testing.servers import Proxy, shared_redis

LIMITS = Limits(pool_size=1, min_idle=0, health_check=0, read_timeout=600, write_timeout=600)


async def connect() -> Connection:
    connection = redis_connection(shared_redis())
    await connection.connect()
    return connection


def redis_connection(url: str) -> Connection:
    parts = urlsplit(url)
    return Connection(host=parts.hostname or "", port=parts.port or 0)


async def linked() -> Link:
    link = Link("there", LIMITS)
    await link.open(connect)
    return link


@contextmanager
def loop_of_its_own() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Runs coroutines on a loop that survives an interrupted one."""
    with closing(asyncio.new_event_loop()) as loop:
        yield loop.run_until_complete


def test_a_command_that_can_not_be_packed_does_not_shift_answers() -> None:
    async def go() -> None:
        link = await linked()
        first = link.call("ECHO", "first")
        with pytest.raises(TypeError):
            link.call("ECHO", None)  # type: ignore[arg-type]
        assert [await first, await link.call("ECHO", "second")] == [b"first", b"second"]
        await link.close()

    asyncio.run(go())


@pytest.mark.parametrize("where", ["while it sends", "while it reads", "between an answer and who waits for it"])
def test_every_caller_of_an_interrupted_link_gets_an_answer(where: str) -> None:
    with loop_of_its_own() as run:
        link: Link = run(linked())

        if where == "while it sends":
            link._written = _Interrupting()
        elif where == "while it reads":
            link._reader = _Reader(link._reader)  # type: ignore[assignment]

        async def ask() -> list[Any]:
            asked = [link.call("ECHO", str(number)) for number in range(3)]
            if where.startswith("between"):
                link._waiting[0] = _Future()
                asked[0] = link._waiting[0]
            return [await each for each in asked]

        waiting = run_task(run, ask())
        with pytest.raises(KeyboardInterrupt):
            run(asyncio.wait([waiting]))
        answers = run(asyncio.wait_for(waiting, 120))
        if where == "while it reads":
            assert answers.pop(0) == b"0"
        assert all(isinstance(each, TransientStorageError) for each in answers), answers
        assert not link.alive
        run(asyncio.wait_for(link.close(), 120))


def run_task(run: Callable[[Coroutine[Any, Any, Any]], Any], work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Return `work` as a task that has not begun, on the loop of `run`."""

    async def begin() -> asyncio.Task[Any]:
        return asyncio.ensure_future(work)

    task: asyncio.Task[Any] = run(begin())
    return task


class _Interrupting(int):
    def __add__(self, other: int) -> int:
        raise KeyboardInterrupt


class _Future(asyncio.Future[Any]):
    """A future that is interrupted when its result is first set."""

    interrupted = False

    def set_result(self, result: Any) -> None:
        if not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt
        super().set_result(result)


class _Reader:
    """A reader that is interrupted at the second answer."""

    def __init__(self, reader: Any) -> None:
        self._reader, self._asked = reader, 0
        self.feed = reader.feed

    def gets(self) -> Any:
        self._asked += 1
        if self._asked == 2:
            raise KeyboardInterrupt
        return self._reader.gets()


def test_a_connection_that_ends_as_it_is_opened_is_a_transient_error() -> None:
    async def ended() -> Connection:
        connection = await connect()
        # redis-py's protocol gets `connection_lost`, before the link takes over.
        connection._writer.transport.abort()  # type: ignore[union-attr]
        await asyncio.sleep(0)
        return connection

    async def go() -> None:
        link = Link("there", LIMITS)
        with pytest.raises(TransientStorageError, match="there can't be reached"):
            await link.open(ended)
        assert not link.alive

    asyncio.run(go())


def test_a_link_whose_opening_is_cancelled_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go(proxy: Proxy) -> None:
        asked: asyncio.Future[Link] = asyncio.get_running_loop().create_future()

        class Noted(Link):
            def call(self, *command: bytes | str | int) -> asyncio.Future[Any]:
                asked.set_result(self)
                return super().call(*command)

        monkeypatch.setattr(router, "Link", Noted)

        async def slow() -> Connection:
            connection = redis_connection(proxy.url(shared_redis()))
            await connection.connect()
            # It is asked to use RESP2, and the answer takes its time.
            connection.protocol = 3
            await asyncio.to_thread(proxy.delay, 20)
            return connection

        node = Node("there", slow, LIMITS)
        opening = asyncio.ensure_future(node.link(commits=True))
        link = await asked
        opening.cancel()
        await asyncio.wait([opening])
        assert not link.alive
        await node.close()

    with Proxy.before(shared_redis()) as proxy:
        asyncio.run(go(proxy))


def test_a_link_with_calls_in_flight_is_dropped_after_its_loop_was_closed() -> None:
    with loop_of_its_own() as run:
        link: Link = run(linked())
        waiting = run_task(run, _answer(link))
        # The loop is closed without closing the link.
        link._transport.set_protocol(asyncio.Protocol())
        link._transport.abort()
        run(asyncio.sleep(0))
    link.drop(None)
    assert not link.alive
    assert not waiting.done()
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]


async def _answer(link: Link) -> Any:
    return await link.call("PING")

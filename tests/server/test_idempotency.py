"""Idempotency-Key: of two requests with one key, also at the same time, one has an effect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
import pytest

import clew
from clew.model.queries import CheckpointPage, CheckpointQuery, ThreadQuery
from clew.model.records import ThreadRecord
from clew.storage.protocol import Storage
from clew.storage.wrapper import StorageWrapper
from tests.checkpointer.support import Store
from tests.server.support import client

T = TypeVar("T")
KEY = {"Idempotency-Key": "order-4711"}


class Meeting:
    """Lets the first two that come go on together."""

    def __init__(self) -> None:
        self._came, self._both = 0, asyncio.Event()

    async def wait(self) -> None:
        self._came += 1
        if self._came == 2:
            self._both.set()
        await self._both.wait()


class Reading(StorageWrapper):
    """A storage on which two requests have both looked for the result of the other before one of them writes."""

    def __init__(self, inner: Storage, meeting: Meeting, names: Callable[[Any], bool]) -> None:
        super().__init__(inner)
        self._meeting, self._names = meeting, names

    async def _after(self, query: Any, read: Awaitable[T]) -> T:
        found = await read
        if self._names(query):
            await self._meeting.wait()
        return found

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        return await self._after(query, super().checkpoints(query))

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        return await self._after(query, super().threads(query))


@asynccontextmanager
async def two_clients(
    store: Store, servers: int, names: Callable[[Any], bool]
) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Yield two clients, of one server or of two on one store, whose reads that `names` accepts meet."""
    meeting = Meeting()
    memories = [store.open(lambda storage: Reading(storage, meeting, names)) for _ in range(servers)]
    async with client(memories[0]) as one, client(memories[-1]) as other:
        yield [one, other]
        for memory in memories:
            await memory.arelease()


def names_a_checkpoint(query: Any) -> bool:
    return isinstance(query, CheckpointQuery) and query.checkpoint_id is not None


servers = pytest.mark.parametrize("servers", [1, 2], ids=["one server", "two servers"])


@servers
def test_a_change_that_is_sent_twice_at_once_is_made_once(store, servers):
    async def main() -> None:
        memory = store.open()
        await memory.aput_state("t", {"log": []})
        change = {"append": {"log": ["x"]}, "messages": [{"role": "user", "content": "hi"}], "node_name": "plan"}
        async with two_clients(store, servers, names_a_checkpoint) as clients:
            sent = [each.patch("/api/threads/t/state", json=change, headers=KEY) for each in clients]
            one, other = await asyncio.gather(*sent)
            again = await clients[0].patch("/api/threads/t/state", json=change, headers=KEY)
        assert [one.status_code, other.status_code, again.status_code] == [201, 201, 201]
        assert one.json() == other.json() == again.json()
        loaded = await memory.aget_checkpoint("t")
        assert loaded.state == {"log": ["x"]}
        assert {each.headers["etag"] for each in (one, other, again)} == {f'"{loaded.checkpoint_id}.{loaded.version}"'}
        assert len(await memory.alist_checkpoints("t")) == 2
        assert len(await memory.alist_messages("t")) == 1

    asyncio.run(main())


@servers
def test_of_two_states_with_one_key_the_first_stays(store, servers):
    async def main() -> None:
        memory = store.open()
        async with two_clients(store, servers, names_a_checkpoint) as clients:
            sent = [
                each.post("/api/threads/t/checkpoints", json={"state": {"n": number}}, headers=KEY)
                for number, each in enumerate(clients)
            ]
            one, other = await asyncio.gather(*sent)
            won = (await memory.aget_checkpoint("t")).state
            again = await clients[0].post("/api/threads/t/checkpoints", json={"state": {"n": 2}}, headers=KEY)
        assert [one.status_code, other.status_code] == [201, 201]
        assert one.json() == other.json() == again.json()
        assert one.headers["etag"] == other.headers["etag"] == again.headers["etag"]
        assert won in ({"n": 0}, {"n": 1})
        assert await memory.aget_state("t") == won

    asyncio.run(main())


@servers
def test_a_fork_that_is_asked_for_twice_at_once_is_made_once(store, servers):
    async def main() -> None:
        memory = store.open()
        await memory.aput_state("t", {"n": 1})
        async with two_clients(store, servers, lambda query: isinstance(query, ThreadQuery)) as clients:
            one, other = await asyncio.gather(
                *[each.post("/api/threads/t/fork", json={}, headers=KEY) for each in clients]
            )
        assert [one.status_code, other.status_code] == [201, 201]
        assert one.json() == other.json()
        assert len(await memory.alist_threads({})) == 2

    asyncio.run(main())


@servers
@pytest.mark.parametrize("turns", [1, 2])
def test_a_rewind_that_is_sent_twice_at_once_goes_back_once(store, servers, turns):
    async def main() -> None:
        memory = store.open()
        for number in (1, 2):
            said = [{"role": "user", "content": f"question {number}"}, {"role": "assistant", "content": "answer"}]
            await memory.aput_checkpoint("t", {"n": number}, messages=said)
        async with two_clients(store, servers, names_a_checkpoint) as clients:
            sent = [each.post("/api/threads/t/rewind", json={"turns": turns}, headers=KEY) for each in clients]
            one, other = await asyncio.gather(*sent)
            again = await clients[0].post("/api/threads/t/rewind", json={"turns": turns}, headers=KEY)
        assert [one.status_code, other.status_code, again.status_code] == [201, 201, 201]
        assert one.json() == other.json() == again.json()
        assert await memory.aget_state("t") == (None if turns == 2 else {"n": 1})
        assert len(await memory.alist_messages("t")) == 4 - 2 * turns
        assert len(await memory.alist_checkpoints("t")) == 3

    asyncio.run(main())


def test_a_repeated_append_brings_back_no_older_text_and_no_deleted_message(store):
    async def main() -> None:
        memory = store.open()
        said = [{"role": "user", "content": "first", "message_id": "m"}, {"role": "user", "content": "second"}]
        async with client(memory) as http:
            first = await http.post("/api/threads/t/messages", json={"messages": said}, headers=KEY)
            await memory.aput_messages("t", [{"role": "user", "content": "redacted", "message_id": "m"}])
            second = (await memory.alist_messages("t"))[1].message_id
            await memory.adelete_message("t", second)
            again = await http.post("/api/threads/t/messages", json={"messages": said}, headers=KEY)
        assert first.json() == again.json() == {"appended": 2}
        assert [each.text() for each in await memory.alist_messages("t")] == ["redacted"]

    asyncio.run(main())


CHAT = {"role": "user", "content": "hi"}
PYDANTIC_AI = {
    "kind": "request",
    "parts": [{"part_kind": "user-prompt", "content": "hi", "timestamp": "2026-01-01T00:00:00Z"}],
    "metadata": {"theirs": 1},
    "run_id": "theirs",
}
MESSAGES = [
    CHAT,
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]},
    {"role": "user", "parts": [{"text": "hi"}]},
    {"type": "human", "data": {"content": "hi", "type": "human"}},
    PYDANTIC_AI,
]


@pytest.mark.parametrize(
    "message", MESSAGES, ids=["openai", "responses", "anthropic", "gemini", "langchain", "pydantic"]
)
def test_a_message_of_any_provider_is_appended_once_and_kept_whole(message):
    async def main() -> None:
        memory = clew.connect("memory://")
        async with client(memory) as http:
            for _ in range(2):
                sent = await http.post("/api/threads/t/messages", json={"messages": [message]}, headers=KEY)
                assert sent.status_code == 201
            # More commits than a thread keeps receipts of: the ids are the same, too.
            for number in range(400):
                await memory.aput_thread("t", metadata={"n": number})
            await http.post("/api/threads/t/messages", json={"messages": [message]}, headers=KEY)
        (found,) = await memory.alist_messages("t")
        # A chat message with an id is a message of Clew's own form.
        assert (found.text(), found.raw) == ("hi", None if message is CHAT else message)

    asyncio.run(main())

"""The example in examples/chat, on real stores and a real server: no turn lost, none mixed, right branches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

import httpx
import pytest

import clew
from examples.chat import app as chat
from examples.chat.model import OPENINGS
from tests.checkpointer.support import PostgresStore, SQLiteStore
from tests.server.support import in_a_thread

USERS, CLIENTS, QUESTIONS = 10, 5, 2
"""Fifty clients: five of each user, who share a thread and ask it two questions each."""


@pytest.fixture(params=[pytest.param(SQLiteStore, id="sqlite"), pytest.param(PostgresStore, id="postgres")])
def store(request, tmp_path, monkeypatch):
    with closing(request.param(tmp_path)) as opened:
        monkeypatch.setenv("CLEW_URL", opened.url)
        yield opened


@pytest.fixture
def url(store):
    with in_a_thread(chat.app, lifespan="on", timeout_keep_alive=600) as base:
        yield base


class Client(httpx.AsyncClient):
    """A client of one user."""

    def __init__(self, url: str, user: str) -> None:
        super().__init__(base_url=url, timeout=120, cookies={"user": user}, verify=False)

    async def get_json(self, path: str, **more):
        answer = await self.get(path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post_json(self, path: str, body=None):
        answer = await self.post(path, json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()


async def talk(url: str, user: str, thread_id: str, client: int) -> None:
    async with Client(url, user) as one:
        for number in range(QUESTIONS):
            text = f"{user}, client {client}, question {number}"
            reply = await one.post_json(f"/threads/{thread_id}/messages", {"text": text})
            assert reply["content"] == f"{OPENINGS[0]}: {text}"


async def threads_of_all(url: str) -> dict[str, str]:
    found = {}
    for number in range(USERS):
        async with Client(url, f"user-{number}") as one:
            found[f"user-{number}"] = (await one.post_json("/threads", {"title": f"chat of {number}"}))["id"]
    return found


def test_fifty_clients_at_once_lose_no_turn_and_mix_no_users(url):
    async def main():
        threads = await threads_of_all(url)
        await asyncio.gather(
            *(talk(url, user, thread_id, client) for user, thread_id in threads.items() for client in range(CLIENTS))
        )
        for user, thread_id in threads.items():
            async with Client(url, user) as one:
                said = (await one.get_json(f"/threads/{thread_id}"))["messages"]
                assert [each["id"] for each in await one.get_json("/threads")] == [thread_id]
                found = await one.get_json("/search", params={"q": "question 0"})
            questions = [each["content"] for each in said[::2]]
            wanted = [f"{user}, client {c}, question {n}" for c in range(CLIENTS) for n in range(QUESTIONS)]
            assert sorted(questions) == wanted
            assert [each["content"] for each in said[1::2]] == [f"{OPENINGS[0]}: {text}" for text in questions]
            assert len(found) == 2 * CLIENTS
            assert {hit["thread"] for hit in found} == {thread_id}

    asyncio.run(main())


def test_a_regenerated_answer_takes_the_place_of_the_old_one_which_stays_in_the_history(url, store):
    async def main():
        threads = await threads_of_all(url)

        async def go(user: str, thread_id: str) -> None:
            async with Client(url, user) as one:
                path = f"/threads/{thread_id}"
                for text in ("first", "second"):
                    await one.post_json(f"{path}/messages", {"text": text})
                # Five at once: each is an answer to the same question.
                again = await asyncio.gather(*(one.post_json(f"{path}/regenerate") for _ in range(5)))
                assert sorted(each["content"] for each in again) == sorted(
                    f"{OPENINGS[n % len(OPENINGS)]}: second" for n in range(1, 6)
                )
                await one.post_json(f"{path}/messages", {"text": "third"})
                said = [each["content"] for each in (await one.get_json(path))["messages"]]
                assert said == [
                    "first",
                    f"{OPENINGS[0]}: first",
                    "second",
                    f"{OPENINGS[5 % len(OPENINGS)]}: second",
                    "third",
                    f"{OPENINGS[0]}: third",
                ]

        await asyncio.gather(*(go(*each) for each in threads.items()))
        return threads

    threads = asyncio.run(main())
    with clew.connect(store.url) as memory:
        config = {"thread_id": threads["user-0"], "user_id": "user-0"}
        answers = [f"{OPENINGS[number % len(OPENINGS)]}: second" for number in range(6)]
        told = [message.text() for message in memory.list_messages(config)]
        assert told == ["first", f"{OPENINGS[0]}: first", "second", answers[5], "third", f"{OPENINGS[0]}: third"]
        every = [message.text() for message in memory.list_messages(config, branches="all")]
        assert sorted(text for text in every if text.endswith(": second")) == sorted(answers)
        ends = [each.state["messages"][-1] for each in memory.get_history(config, None)]
        kept = [
            each["content"] for each in ends if each["role"] == "assistant" and each["content"].endswith(": second")
        ]
        assert sorted(kept) == sorted(answers)


def test_a_question_that_was_never_answered_can_be_answered_later(url, store):
    async def main():
        async with Client(url, "ana") as one:
            thread_id = (await one.post_json("/threads", {}))["id"]
            assert (await one.post(f"/threads/{thread_id}/regenerate")).status_code == 409
            config = {"thread_id": thread_id, "user_id": "ana"}
            async with clew.connect(store.url) as other:  # a process that dies after the question
                await other.aput_checkpoint(config, {"messages": [{"role": "user", "content": "still there?"}]})
            await one.post_json(f"/threads/{thread_id}/regenerate")
            said = (await one.get_json(f"/threads/{thread_id}"))["messages"]
            assert [each["content"] for each in said] == ["still there?", f"{OPENINGS[0]}: still there?"]

    asyncio.run(main())


async def next_event(lines: AsyncIterator[str], kind: str | None = None) -> dict[str, str]:
    """Read a stream's next event of this kind. Messages have events of their own."""
    event: dict[str, str] = {}
    async for line in lines:
        if not line and event.get("event") == kind:
            return event
        if not line:
            event = {}
            continue
        name, _, value = line.partition(": ")
        event[name or "comment"] = value
    raise AssertionError("the stream has ended")


def test_every_window_sees_what_happens_and_misses_nothing_when_it_reconnects(url):
    async def main():
        async with Client(url, "ana") as writer, Client(url, "ana") as window:
            path = f"/threads/{(await writer.post_json('/threads', {}))['id']}"
            async with window.stream("GET", f"{path}/events") as stream:
                assert stream.headers["content-type"].startswith("text/event-stream")
                lines = stream.aiter_lines()
                assert await next_event(lines) == {"comment": "watching"}
                await writer.post_json(f"{path}/messages", {"text": "hello"})
                # The question, then the answer.
                seen = [await next_event(lines, "checkpoint") for _ in range(2)]
            await writer.post_json(f"{path}/regenerate")
            headers = {"Last-Event-ID": seen[-1]["id"]}
            async with window.stream("GET", f"{path}/events", headers=headers) as stream:
                lines = stream.aiter_lines()
                await next_event(lines)
                # Back to the question, then the new answer.
                again = [await next_event(lines, "checkpoint") for _ in range(2)]
                assert len({each["id"] for each in seen + again}) == 4

    asyncio.run(asyncio.wait_for(main(), 120))


def test_strangers_can_neither_read_nor_write_nor_find_nor_delete_a_thread(url):
    async def main():
        async with Client(url, "ana") as ana, Client(url, "bob") as bob:
            path = f"/threads/{(await ana.post_json('/threads', {'title': 'secret'}))['id']}"
            await ana.post_json(f"{path}/messages", {"text": "a secret"})
            assert (await bob.get(path)).status_code == 404
            assert (await bob.post(f"{path}/messages", json={"text": "hello"})).status_code == 404
            assert (await bob.post(f"{path}/regenerate")).status_code in (404, 409)
            assert (await bob.get(f"{path}/events")).status_code == 404
            assert (await bob.delete(path)).status_code == 404
            assert await bob.get_json("/threads") == await bob.get_json("/search", params={"q": "secret"}) == []
            assert len((await ana.get_json(path))["messages"]) == 2
            assert (await ana.delete(path)).status_code == 204
            assert (await ana.get(path)).status_code == 404

    asyncio.run(main())


def test_the_page_is_served_and_needs_nothing_from_elsewhere(url):
    with httpx.Client(base_url=url, timeout=120, verify=False) as newcomer:
        page = newcomer.get("/").text
        assert "<title>Chat on Clew</title>" in page
        assert "://" not in page
        assert newcomer.get("/threads").status_code == 401
        assert newcomer.post("/login", json={"name": "ana"}).status_code == 204
        assert newcomer.get("/threads").json() == []

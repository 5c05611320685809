"""Pages of lists: cursors that others' writes don't disturb, and no more is read than shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

import clew
from tests.server.test_api import served
from tests.server.test_conversations import said, with_client


async def walked(http: Any, path: str, name: str, cursor: str, between: Any = None, **params: Any) -> list[list[Any]]:
    """Follow `next` to the end, and return the pages. `between` runs after each page."""
    pages: list[list[Any]] = []
    following = None
    while following is not None or not pages:
        query = params if following is None else {**params, cursor: following}
        response = await http.get(path, params=query)
        assert response.status_code == 200, response.text
        pages.append(response.json()[name])
        following = response.json()["next"]
        if between is not None:
            await between(len(pages))
    return pages


def test_a_list_of_threads_is_walked_while_others_write():
    async def test(memory, http):
        for number in range(10):
            await memory.aput_state(f"t{number}", number)

        async def between(page: int) -> None:
            await memory.aput_state(f"new{page}", page)  # Shifts every offset.

        pages = await walked(http, "/api/threads", "threads", "before", between, limit=3)
        assert [each["thread_id"] for page in pages for each in page] == [f"t{number}" for number in range(9, -1, -1)]
        assert [len(page) for page in pages] == [3, 3, 3, 1]

    served(test)


def test_threads_are_listed_by_tags_and_metadata():
    async def test(memory, http):
        for number in range(6):
            about = {"plan": "gold" if number % 2 else "free", "seats": number // 2}
            await memory.aput_thread(f"t{number}", {"tags": ["rail", f"n{number}"], "metadata": about})

        async def ids(**params: Any) -> list[str]:
            pages = await walked(http, "/api/threads", "threads", "before", limit=2, **params)
            return sorted(each["thread_id"] for page in pages for each in page)

        assert await ids(tag="n1") == ["t1"]
        assert await ids(tag=["rail", "n1"]) == ["t1"]
        assert await ids(tag=["n1", "n2"]) == []
        assert await ids(metadata=json.dumps({"plan": "gold"})) == ["t1", "t3", "t5"]
        assert await ids(metadata=json.dumps({"plan": "gold", "seats": 1}), tag="rail") == ["t3"]
        for wrong in ("[]", "{", "5", "[" * 1000, '{"a": {"$type": "nope"}}'):
            assert (await http.get("/api/threads", params={"metadata": wrong})).status_code == 400
        assert (await http.get("/api/threads", params={"before": "nonsense"})).status_code == 400

    served(test)


def test_offsets_still_count():
    async def test(memory, http):
        for number in range(5):
            await memory.aput_messages(f"t{number}", [{"role": "user", "content": "x"}] * 5)
        for path, name in (("/api/threads", "threads"), ("/api/threads/t0/messages", "messages")):
            pages = await walked(http, path, name, "offset", limit=2, offset=0)
            assert [len(page) for page in pages] == [2, 2, 1]

    served(test)


def test_messages_are_walked_from_either_end():
    async def test(memory, http):
        await memory.aput_messages("t", [{"role": "user", "content": str(number)} for number in range(7)])
        path = "/api/threads/t/messages"

        def texts(pages: list[list[Any]]) -> list[list[str]]:
            return [[each["content"] for each in page] for page in pages]

        forwards = await walked(http, path, "messages", "after", limit=3)
        assert texts(forwards) == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
        backwards = await walked(http, path, "messages", "before", last=3)
        assert texts(backwards) == [["4", "5", "6"], ["1", "2", "3"], ["0"]]
        middle = forwards[1][0]["message_id"]
        assert texts([(await http.get(path, params={"before": middle, "limit": 2})).json()["messages"]]) == [["1", "2"]]
        rendered = (await http.get(path, params={"last": 2, "as": "openai"})).json()["messages"]
        assert [each["content"] for each in rendered] == ["5", "6"]
        for wrong in ({"after": "nope"}, {"last": 3, "offset": 2}, {"last": 0}, {"last": 201}):
            assert (await http.get(path, params=wrong)).status_code == 400

    served(test)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_page_of_items_reads_no_more_than_the_page(order):
    async def test(memory, client):
        made = await client.conversations.create()
        config = {"thread_id": made.id, "user_id": "ana"}
        await memory.aput_messages(config, [{"role": "user", "content": str(number)} for number in range(50)])
        sizes: list[int] = []
        read = memory.alist_messages

        async def counted(*args: Any, **kwargs: Any) -> list[clew.Message]:
            messages: list[clew.Message] = await read(*args, **kwargs)
            sizes.append(len(messages))
            return messages

        memory.alist_messages = counted
        listed = [said(item) async for item in client.conversations.items.list(made.id, order=order, limit=10)]
        numbers = [str(number) for number in range(50)]
        assert listed == (numbers if order == "asc" else numbers[::-1])
        assert sizes == [11, 11, 11, 11, 10]

    with_client(test)

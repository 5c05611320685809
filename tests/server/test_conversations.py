"""OpenAI's own clients keep conversations in a Clew store."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import httpx
import openai
import pytest
from agents import Agent, OpenAIConversationsSession, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

import clew
from clew.server import app
from tests.server.support import KNOWN


def with_client(test: Any, token: str = "ana") -> None:
    """Run an async test with OpenAI's client of a server on a memory store."""

    async def main() -> None:
        memory = clew.connect("memory://")
        transport = httpx.ASGITransport(app=app(memory, authenticators=[KNOWN]))
        async with httpx.AsyncClient(transport=transport) as opened:
            http: Any = opened
            client = openai.AsyncOpenAI(base_url="http://localhost/v1", api_key=token, http_client=http, max_retries=0)
            await test(memory, client)

    asyncio.run(main())


def said(item: Any) -> str:
    return str(item.content[0].text)


def test_a_conversation_is_created_read_updated_and_deleted():
    async def test(memory, client):
        made = await client.conversations.create(
            metadata={"topic": "trip"}, items=[{"type": "message", "role": "user", "content": "To Lyon!"}]
        )
        assert made.id.startswith("conv_")
        assert made.metadata == {"topic": "trip"}
        assert (await client.conversations.retrieve(made.id)) == made
        updated = await client.conversations.update(made.id, metadata={"topic": "rail"})
        assert updated.metadata == {"topic": "rail"}
        thread = await memory.aget_thread({"thread_id": made.id, "user_id": "ana"})
        assert (thread.user_id, thread.message_count) == ("ana", 1)
        assert (await client.conversations.delete(made.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await client.conversations.retrieve(made.id)

    with_client(test)


def test_an_update_replaces_the_metadata_of_a_conversation():
    async def test(_, client):
        made = await client.conversations.create(metadata={"topic": "trip", "old": "x"})
        assert (await client.conversations.update(made.id, metadata={"topic": "rail"})).metadata == {"topic": "rail"}
        assert (await client.conversations.retrieve(made.id)).metadata == {"topic": "rail"}
        assert (await client.conversations.update(made.id, metadata={})).metadata == {}

    with_client(test)


def test_items_are_paged_in_both_orders_by_the_client_itself():
    async def test(_, client):
        made = await client.conversations.create()
        for start in range(0, 45, 15):
            items = [{"role": "user", "content": str(number)} for number in range(start, start + 15)]
            await client.conversations.items.create(made.id, items=items)
        newest = [said(item) async for item in client.conversations.items.list(made.id)]
        assert newest == [str(number) for number in range(44, -1, -1)]
        oldest = [said(item) async for item in client.conversations.items.list(made.id, order="asc", limit=7)]
        assert oldest == newest[::-1]

    with_client(test)


def test_an_item_is_kept_whole():
    async def test(memory, client):
        made = await client.conversations.create()
        call = {
            "type": "function_call",
            "call_id": "c1",
            "name": "fare",
            "arguments": '{"to": "Lyon"}',
            "status": "completed",
        }
        result = {"type": "function_call_output", "call_id": "c1", "output": "49 EUR", "status": "completed"}
        listed = await client.conversations.items.create(made.id, items=[call, result])
        first = await client.conversations.items.retrieve(listed.first_id, conversation_id=made.id)
        assert first.model_dump(exclude_unset=True) == {**call, "id": listed.first_id}
        messages = await memory.alist_messages({"thread_id": made.id, "user_id": "ana"})
        assert messages[0].tool_calls
        assert [hit.thread_id for hit in await memory.asearch("49 eur", user_id="ana")] == [made.id]
        await client.conversations.items.delete(listed.first_id, conversation_id=made.id)
        with pytest.raises(openai.NotFoundError):
            await client.conversations.items.retrieve(listed.first_id, conversation_id=made.id)

    with_client(test)


def test_runs_of_the_agents_sdk_remember_what_was_said():
    async def test(memory, client):
        @function_tool
        def fare(to: str) -> str:
            """Look a fare up."""
            return f"49 EUR to {to}"

        session = OpenAIConversationsSession(openai_client=client)
        called = function_call("fare", {"to": "Lyon"}, call_id="c1")
        answers = [assistant_message("49 EUR."), assistant_message("You asked for Lyon.")]
        model = ScriptedModel([[called], *([each] for each in answers)])
        agent = Agent(name="travel", model=model, tools=[fare])
        assert (await Runner.run(agent, "What is the fare to Lyon?", session=session)).final_output == "49 EUR."
        again = OpenAIConversationsSession(conversation_id=session.session_id, openai_client=client)
        await Runner.run(agent, "Where did I want to go?", session=again)
        items: list[Any] = list(await again.get_items())
        assert [each.get("type") for each in items] == [
            "message",
            "function_call",
            "function_call_output",
            "message",
            "message",
            "message",
        ]
        newest: list[Any] = list(await again.get_items(1))
        assert newest[0]["content"][0]["text"] == "You asked for Lyon."
        popped = await again.pop_item()
        assert popped is not None
        assert len(await again.get_items()) == 5
        thread = await memory.aget_thread({"thread_id": session.session_id, "user_id": "ana"})
        assert thread.message_count == 5

    with_client(test)


def test_another_user_reaches_no_conversation():
    async def test(memory, client):
        made = await client.conversations.create(items=[{"role": "user", "content": "s3cret"}])
        bob = client.with_options(api_key="bob")
        for attempt in (
            bob.conversations.retrieve(made.id),
            bob.conversations.update(made.id, metadata={}),
            bob.conversations.delete(made.id),
            bob.conversations.items.create(made.id, items=[{"role": "user", "content": "x"}]),
        ):
            with pytest.raises(openai.NotFoundError):
                await attempt
        with pytest.raises(openai.NotFoundError):
            _ = [item async for item in bob.conversations.items.list(made.id)]
        with pytest.raises(openai.AuthenticationError):
            await client.with_options(api_key="nobody").conversations.retrieve(made.id)
        assert len(await memory.alist_messages({"thread_id": made.id, "user_id": "ana"})) == 1

    with_client(test)


def test_wrong_items_are_refused_before_anything_is_stored():
    async def test(memory, client):
        made = await client.conversations.create()
        for items in ([{"type": 5}], [{"role": "user", "content": "ok"}, {"type": "message"}], [{"role": "user"}] * 21):
            with pytest.raises(openai.BadRequestError):
                await client.conversations.items.create(made.id, items=items)
        assert await memory.alist_messages({"thread_id": made.id, "user_id": "ana"}) == []
        with pytest.raises(openai.NotFoundError):
            await client.conversations.retrieve("trip")

    with_client(test)


def test_an_item_comes_back_as_it_was_sent():
    async def test(memory, client):
        made = await client.conversations.create()
        parts = {"$type": "tuple", "value": [1 << 60], "$": {"$type": 5}}
        item = {"type": "function_call", "id": "f", "call_id": "c", "name": "look", "arguments": "{}", "parts": parts}
        created = await client.conversations.items.create(made.id, items=[item])
        assert created.data[0].to_dict() == item
        assert (await client.conversations.items.retrieve("f", conversation_id=made.id)).to_dict() == item
        (listed,) = [each async for each in client.conversations.items.list(made.id)]
        assert listed.to_dict() == item

    with_client(test)


def test_an_item_that_python_saved_with_types_that_json_lacks_is_shown():
    async def test(memory, client):
        made = await client.conversations.create()
        for name, extra in {"a": {"at": {date(2026, 1, 31), b"x"}}, "b": {(1, 2): clew.Record("app.Trip", {})}}.items():
            item = {
                "type": "function_call",
                "id": name,
                "call_id": "c",
                "name": "look",
                "arguments": "{}",
                "extra": extra,
            }
            await memory.aput_messages({"thread_id": made.id, "user_id": "ana"}, [{**item, "message_id": name}])
            shown = await client.conversations.items.retrieve(name, conversation_id=made.id)
            assert shown.id == name

    with_client(test)

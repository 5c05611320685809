"""The MCP server, used by the SDK's own client."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

import clew
from clew.server.mcp import LARGEST, LONGEST, QUOTED, mcp_server

READS = {"search", "list_threads", "read_thread", "read_state", "history", "diff"}


async def filled() -> clew.BaseCheckpointer:
    memory = clew.connect("memory://")
    mine = {"thread_id": "trip", "user_id": "ana"}
    await memory.aput_checkpoint(
        mine, {"city": "Lyon"}, new_id="c1", messages=[{"role": "user", "content": "To Lyon!"}]
    )
    await memory.aput_checkpoint(
        mine, {"city": "Nice"}, new_id="c2", messages=[{"role": "user", "content": "x" * 9999}]
    )
    await memory.aput_state({"thread_id": "secret", "user_id": "bob"}, {"pin": "s3cret"})
    await memory.aput_messages({"thread_id": "secret", "user_id": "bob"}, [{"role": "user", "content": "s3cret, Lyon"}])
    return memory


def calling(test: Any, **options: Any) -> None:
    async def main() -> None:
        memory = await filled()
        async with Client(mcp_server(memory, **options)) as client:

            async def call(name: str, **arguments: Any) -> Any:
                result = await client.call_tool(name, arguments)
                if result.is_error:
                    return str(result.content)
                return result.structured_content

            await test(memory, client, call)

    asyncio.run(main())


def test_an_agent_finds_and_reads_a_conversation():
    async def test(_, client, call):
        assert {tool.name for tool in (await client.list_tools()).tools} == READS
        hits = (await call("search", text="lyon"))["hits"]
        assert [(each["thread_id"], each["snippet"]) for each in hits] == [("trip", "To Lyon!")]
        assert [each["thread_id"] for each in (await call("list_threads"))["threads"]] == ["trip"]
        read = await call("read_thread", thread_id="trip")
        assert read["note"] == QUOTED
        assert [each["text"][:8] for each in read["messages"]] == ["To Lyon!", "xxxxxxxx"]
        assert len(read["messages"][1]["text"]) < LONGEST + 50
        assert (await call("read_thread", thread_id="trip", limit=1, skip=1))["messages"][0]["text"] == "To Lyon!"
        assert (await call("read_state", thread_id="trip"))["state"] == {"city": "Nice"}
        assert (await call("read_state", thread_id="trip", checkpoint_id="c1"))["state"] == {"city": "Lyon"}
        assert [each["checkpoint_id"] for each in (await call("history", thread_id="trip"))["checkpoints"]] == [
            "c2",
            "c1",
        ]
        assert "Nice" in (await call("diff", thread_id="trip", older="c1"))["changes"]

    calling(test, user="ana")


def test_an_agent_of_one_user_reaches_nothing_of_another():
    async def test(memory, client, call):
        before = await memory.aget_thread({"thread_id": "secret", "user_id": "bob"})
        for tool in (await client.list_tools()).tools:
            arguments = {"thread_id": "secret", "text": "s3cret", "older": "c1", "role": "user", "content": "x"}
            wanted = {name: value for name, value in arguments.items() if name in tool.input_schema["properties"]}
            answer = str(await call(tool.name, **wanted))
            assert "pin" not in answer
            assert "s3cret, Lyon" not in answer
        assert await memory.aget_thread({"thread_id": "secret", "user_id": "bob"}) == before

    calling(test, user="ana", allow_writes=True)


def test_writes_must_be_allowed():
    async def test(memory, client, call):
        assert {tool.name for tool in (await client.list_tools()).tools} == READS | {"fork", "append"}
        made = await call("fork", thread_id="trip", checkpoint_id="c1")
        assert await memory.aget_state({"thread_id": made["thread_id"], "user_id": "ana"}) == {"city": "Lyon"}
        await call("append", thread_id="trip", role="assistant", content="Done.")
        assert (await memory.alist_messages({"thread_id": "trip", "user_id": "ana"}))[-1].text() == "Done."

    calling(test, user="ana", allow_writes=True)


def test_errors_say_what_to_do():
    async def test(_, client, call):
        assert "list_threads" in await call("read_thread", thread_id="nope")
        assert "history" in await call("read_state", thread_id="trip", checkpoint_id="nope")
        assert "does not exist" in await call("diff", thread_id="trip", older="nope")

    calling(test, user="ana")


def test_a_large_state_is_cut():
    async def test(memory, _, call):
        await memory.aput_state({"thread_id": "trip", "user_id": "ana"}, {"log": ["y" * 1000] * 100})
        state = (await call("read_state", thread_id="trip"))["state"]
        assert isinstance(state, str)
        assert len(state) < LARGEST + 50

    calling(test, user="ana")


def test_the_command_serves_over_stdio(tmp_path):
    async def main() -> None:
        url = f"sqlite:///{tmp_path}/agent.db"
        with clew.connect(url) as memory:
            memory.put_messages({"thread_id": "trip", "user_id": "ana"}, [{"role": "user", "content": "To Lyon!"}])
        arguments = ["-m", "clew", "--url", url, "mcp", "--user", "ana"]
        command = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
        async with Client(command) as client:
            result = await client.call_tool("search", {"text": "lyon"})
            assert result.structured_content is not None
            assert result.structured_content["hits"][0]["thread_id"] == "trip"

    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.parametrize("options", [(), ("--user", "ana", "--all-users")])
def test_the_command_must_be_told_for_whom_it_acts(options, tmp_path):
    command = [sys.executable, "-m", "clew", "--url", f"sqlite:///{tmp_path}/a.db", "mcp", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, input="")
    assert done.returncode == 1
    assert "--user" in done.stderr

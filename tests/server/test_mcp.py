"""The MCP server, used by the SDK's own client."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

import clew
from clew.server import TokenFile, app
from clew.server.mcp import LARGEST, LONGEST, QUOTED, mcp_server
from tests.server.support import KNOWN, client
from tests.server.test_serve import serving

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


@asynccontextmanager
async def over_http(
    memory: clew.BaseCheckpointer, token: str, path: str = "/mcp", **options: Any
) -> AsyncIterator[Any]:
    """Open the SDK's client of `/mcp` in the HTTP server, with a token that the server knows."""
    served = app(memory, authenticators=[KNOWN], **options)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=served), headers=headers) as http:
        transport = streamable_http_client(f"http://localhost{path}", http_client=http)
        async with Client(transport, mode="auto") as client:
            yield client


@asynccontextmanager
async def inside(memory: clew.BaseCheckpointer, token: str, *, mcp_scope: str = "read") -> AsyncIterator[Any]:
    """Open the SDK's client of a server in this process."""
    caller = KNOWN.caller(token)
    assert caller is not None
    async with Client(mcp_server(memory, lambda _: caller, allow_writes=mcp_scope == "write")) as client:
        yield client


@pytest.fixture(params=[inside, over_http], ids=["inside", "http"])
def calling(request):
    """Run a test with a client, over either transport, for a caller that KNOWN names."""

    def run(test: Any, token: str = "ana", **options: Any) -> None:
        async def main() -> None:
            memory = await filled()
            async with request.param(memory, token, **options) as client:
                await test(memory, client, partial(call, client))

        asyncio.run(asyncio.wait_for(main(), 120))

    return run


async def call(client: Any, name: str, **arguments: Any) -> Any:
    """Call a tool, and return its result or its error."""
    result = await client.call_tool(name, arguments)
    return str(result.content) if result.is_error else result.structured_content


def test_an_agent_finds_and_reads_a_conversation(calling):
    async def test(_, client, call):
        assert {tool.name for tool in (await client.list_tools()).tools} == READS
        hits = (await call("search", text="lyon"))["hits"]
        assert [(each["thread_id"], each["snippet"]) for each in hits] == [("trip", "To Lyon!")]
        assert [each["thread_id"] for each in (await call("list_threads"))["threads"]] == ["trip"]
        read = await call("read_thread", thread_id="trip")
        assert read["note"] == QUOTED
        assert [each["text"][:8] for each in read["messages"]] == ["To Lyon!", "xxxxxxxx"]
        assert len(read["messages"][1]["text"]) < LONGEST + 50
        newest = await call("read_thread", thread_id="trip", limit=1)
        assert newest["messages"][0]["text"].startswith("xxx")
        older = await call("read_thread", thread_id="trip", limit=1, before=newest["next"])
        assert (older["messages"][0]["text"], older["next"]) == ("To Lyon!", None)
        assert (await call("read_state", thread_id="trip"))["state"] == {"city": "Nice"}
        assert (await call("read_state", thread_id="trip", checkpoint_id="c1"))["state"] == {"city": "Lyon"}
        assert [each["checkpoint_id"] for each in (await call("history", thread_id="trip"))["checkpoints"]] == [
            "c2",
            "c1",
        ]
        assert "Nice" in (await call("diff", thread_id="trip", older="c1"))["changes"]

    calling(test)


def test_writes_must_be_allowed(calling):
    async def test(memory, client, call):
        assert {tool.name for tool in (await client.list_tools()).tools} == READS | {"fork", "append"}
        made = await call("fork", thread_id="trip", checkpoint_id="c1")
        assert await memory.aget_state({"thread_id": made["thread_id"], "user_id": "ana"}) == {"city": "Lyon"}
        await call("append", thread_id="trip", role="assistant", content="Done.")
        assert (await memory.alist_messages({"thread_id": "trip", "user_id": "ana"}))[-1].text() == "Done."

    calling(test, mcp_scope="write")


@pytest.mark.parametrize("role", ["", "damaged", "root", "User", None, 7])
def test_append_takes_known_roles_only_and_names_them(calling, role):
    async def test(memory, _, call):
        before = await memory.alist_messages({"thread_id": "trip", "user_id": "ana"})
        answer = await call("append", thread_id="trip", role=role, content="Done.")
        assert all(each in answer for each in ("'user'", "'assistant'", "'system'"))
        assert await memory.alist_messages({"thread_id": "trip", "user_id": "ana"}) == before

    calling(test, mcp_scope="write")


def test_a_token_that_only_reads_writes_nothing(calling):
    async def test(memory, _, call):
        before = await memory.aget_thread({"thread_id": "trip", "user_id": "ana"})
        assert "only read" in await call("append", thread_id="trip", role="user", content="x")
        assert "only read" in await call("fork", thread_id="trip")
        assert await memory.aget_thread({"thread_id": "trip", "user_id": "ana"}) == before

    calling(test, "reader", mcp_scope="write")


def test_lists_are_paged_by_cursors_and_filtered_by_tags(calling):
    async def test(memory, _, call):
        for number in range(5):
            tags = ["odd"] if number % 2 else []
            await memory.aput_thread({"thread_id": f"t{number}", "user_id": "ana"}, {"tags": tags})
        page = await call("list_threads", limit=2)
        await memory.aput_thread({"thread_id": "new", "user_id": "ana"}, {})
        following = await call("list_threads", limit=2, before=page["next"])
        listed = [each["thread_id"] for each in page["threads"] + following["threads"]]
        assert listed == ["t4", "t3", "t2", "t1"]
        odd = await call("list_threads", tags=["odd"])
        assert [each["thread_id"] for each in odd["threads"]] == ["t3", "t1"]

    calling(test)


def test_reading_a_long_thread_reads_only_what_is_shown(calling):
    async def test(memory, _, call):
        long = {"thread_id": "long", "user_id": "ana"}
        await memory.aput_messages(long, [{"role": "user", "content": str(number)} for number in range(500)])
        sizes = []
        read = memory.alist_messages

        async def counted(*args: Any, **kwargs: Any) -> Any:
            messages = await read(*args, **kwargs)
            sizes.append(len(messages))
            return messages

        memory.alist_messages = counted
        shown = await call("read_thread", thread_id="long", limit=10)
        assert [each["text"] for each in shown["messages"]] == [str(number) for number in range(490, 500)]
        assert sizes == [11]

    calling(test)


def test_a_token_for_all_users_may_be_bound_to_one():
    async def main() -> None:
        memory = await filled()
        async with over_http(memory, "watcher") as client:
            assert len((await call(client, "list_threads"))["threads"]) == 2
        async with over_http(memory, "watcher", "/mcp?user_id=ana") as client:
            assert [each["thread_id"] for each in (await call(client, "list_threads"))["threads"]] == ["trip"]
            assert "s3cret" not in str(await call(client, "read_state", thread_id="secret"))

    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.parametrize(("token", "path", "status"), [("nobody", "/mcp", 401), ("ana", "/mcp?user_id=bob", 403)])
def test_a_stranger_gets_no_answer_at_all(token, path, status):
    async def main() -> None:
        async with client(await filled(), token=token) as http:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            accepted = {"Accept": "application/json, text/event-stream"}
            answer = await http.post(path, json=body, headers=accepted)
            assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
            foreign = await http.post("/mcp", json=body, headers={**accepted, "Origin": "https://evil.example"})
            assert foreign.status_code == 403

    asyncio.run(main())


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_a_stream_that_would_never_say_anything_is_refused(method):
    async def main() -> None:
        async with client(await filled(), token="ana") as http:
            answer = await asyncio.wait_for(http.request(method, "/mcp", headers={"Accept": "text/event-stream"}), 60)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")

    asyncio.run(main())


def test_a_client_of_an_older_protocol_is_served_too(tmp_path):
    async def main() -> None:
        token = TokenFile(tmp_path / "clew-tokens.json").create("ana", user="ana", scope="read")
        with clew.connect(f"sqlite:///{tmp_path}/agent.db") as memory:
            memory.put_messages({"thread_id": "trip", "user_id": "ana"}, [{"role": "user", "content": "To Lyon!"}])
            memory.put_messages({"thread_id": "other", "user_id": "bob"}, [{"role": "user", "content": "To Lyon?"}])
        headers = {"Authorization": f"Bearer {token}"}
        with serving(tmp_path) as (url, _):
            for mode in ("legacy", "auto"):
                async with (
                    httpx2.AsyncClient(headers=headers, timeout=60) as http,
                    Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
                ):
                    hits = (await call(client, "search", text="lyon"))["hits"]
                    assert [each["thread_id"] for each in hits] == ["trip"]

    asyncio.run(asyncio.wait_for(main(), 120))


def test_errors_say_what_to_do(calling):
    async def test(_, client, call):
        assert "list_threads" in await call("read_thread", thread_id="nope")
        assert "history" in await call("read_state", thread_id="trip", checkpoint_id="nope")
        assert "does not exist" in await call("diff", thread_id="trip", older="nope")

    calling(test)


def test_a_large_state_is_cut(calling):
    async def test(memory, _, call):
        await memory.aput_state({"thread_id": "trip", "user_id": "ana"}, {"log": ["y" * 1000] * 100})
        state = (await call("read_state", thread_id="trip"))["state"]
        assert isinstance(state, str)
        assert len(state) < LARGEST + 50

    calling(test)


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

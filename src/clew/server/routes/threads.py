"""Threads: list, describe, fork, delete."""

from __future__ import annotations

import json
from typing import Annotated, Any

from litestar import Request, Response, delete, get, patch, post
from litestar.openapi.spec import Example
from litestar.params import JSONBody, QueryParameter

import clew
from clew.server.bodies import NewFork, Rewind
from clew.server.calls import (
    Call,
    Name,
    Offset,
    PageLimit,
    Position,
    Search,
    UserId,
    call_of,
    derived_id,
    found,
    plain,
    saved,
)
from clew.server.calls import IdempotencyKey as Key
from clew.server.interchange import from_json
from clew.server.problems import Problem
from clew.server.response_types import ThreadPage, page, told

Tags = Annotated[
    list[str] | None, QueryParameter(name="tag", max_items=20, description="Only threads with this tag. Repeatable.")
]
Metadata = Annotated[
    str | None,
    QueryParameter(
        name="metadata",
        max_length=2000,
        description="Only threads with these values in their metadata: a JSON object.",
        examples=[Example(value='{"plan": "gold"}')],
    ),
]


@get("/threads", summary="List threads", tags=["threads"])
async def list_threads(
    request: Request[Any, Any, Any],
    user_id: UserId = None,
    search: Search = None,
    tags: Tags = None,
    metadata: Metadata = None,
    before: Position = None,
    offset: Offset = None,
    limit: PageLimit = 50,
) -> Response[ThreadPage]:
    """List threads, the most recently active first. Pass `next` as `before` to get the next page; it is not
    disturbed by what others write meanwhile. With `offset`, `next` is an offset.
    """
    call = call_of(request)
    threads = await call.memory.alist_threads(
        {"user_id": call.caller.acting_for(user_id)},
        search,
        offset or 0,
        limit + 1,
        tags=tags,
        metadata=None if metadata is None else _wanted(metadata),
        before=before,
    )
    shown, following = page(threads, limit, lambda last: last.position, offset)
    return plain({"threads": shown, "next": following})


@get("/threads/{thread_id:str}", summary="Get a thread", tags=["threads"])
async def get_thread(
    request: Request[Any, Any, Any], thread_id: Name, user_id: UserId = None
) -> Response[clew.ThreadInfo]:
    """Return the thread's description, head and counts."""
    call = call_of(request)
    thread = await call.memory.aget_thread(call.config(thread_id, user_id))
    return plain(told(found(thread, "the thread")))


@patch("/threads/{thread_id:str}", summary="Describe a thread", tags=["threads"])
async def describe_thread(
    request: Request[Any, Any, Any], thread_id: Name, data: JSONBody[dict[str, Any]], user_id: UserId = None
) -> Response[clew.ThreadInfo]:
    """Change the thread's name, tags or metadata. Creates the thread if it does not exist."""
    call = call_of(request)
    config = call.config(thread_id, user_id, write=True)
    await call.memory.aput_thread(config, from_json(data))
    return plain(told(found(await call.memory.aget_thread(config), "the thread")))


@delete("/threads/{thread_id:str}", summary="Delete a thread", tags=["threads"], status_code=204)
async def delete_thread(request: Request[Any, Any, Any], thread_id: Name, user_id: UserId = None) -> None:
    """Remove the thread with everything in it. A missing thread is ignored."""
    call = call_of(request)
    await call.memory.adelete_thread(call.config(thread_id, user_id, write=True))


@post("/threads/{thread_id:str}/fork", summary="Fork a thread", tags=["threads"])
async def fork_thread(
    request: Request[Any, Any, Any],
    thread_id: Name,
    data: JSONBody[NewFork],
    user_id: UserId = None,
    idempotency_key: Key = None,
) -> Response[clew.ThreadInfo]:
    """Begin a new thread from a checkpoint. Values are shared, not copied, where the store can."""
    call = call_of(request)
    config = call.config(thread_id, user_id, checkpoint_id=data.checkpoint_id, namespace=data.namespace, write=True)
    new = data.thread_id or derived_id(call, idempotency_key, "fork", config["thread_id"])
    if idempotency_key is not None and (made := await _made(call, config, new)) is not None:
        return plain(told(made), status=201)
    try:
        forked = await call.memory.afork(config, new)
    except clew.ConflictError:
        # A concurrent request with the same key may have been faster.
        if idempotency_key is None or (made := await _made(call, config, new)) is None:
            raise
        return plain(told(made), status=201)
    thread = await call.memory.aget_thread({**config, "thread_id": forked["thread_id"], "checkpoint_id": None})
    return plain(told(found(thread, "the fork")), status=201)


@post("/threads/{thread_id:str}/rewind", summary="Go back", tags=["threads"])
async def rewind_thread(
    request: Request[Any, Any, Any],
    thread_id: Name,
    data: JSONBody[Rewind],
    user_id: UserId = None,
    idempotency_key: Key = None,
) -> Response[clew.CheckpointMetadata]:
    """Make an earlier state the head again. The history stays; later messages leave the branch.

    In a namespace other than the main one, the messages stay as they are.
    """
    call = call_of(request)
    config = call.config(thread_id, user_id, namespace=data.namespace, write=True)
    key = derived_id(call, idempotency_key, "rewind", config["thread_id"], data.namespace or "")
    return saved(await call.memory.arewind(config, to=data.to, turns=data.turns, idempotency_key=key))


async def _made(call: Call, config: dict[str, Any], thread_id: str | None) -> clew.ThreadInfo | None:
    """Return the thread `thread_id` if it is a fork of the thread in `config`."""
    if thread_id is None:
        return None
    thread = await call.memory.aget_thread({**config, "thread_id": thread_id, "checkpoint_id": None})
    made = thread is not None and (thread.forked_from or {}).get("thread_id") == config["thread_id"]
    return thread if made else None


def _wanted(text: str) -> dict[str, Any]:
    try:
        wanted = json.loads(text)
    except (ValueError, RecursionError):
        wanted = None
    if not isinstance(wanted, dict):
        raise Problem(400, "InvalidRequest", 'metadata takes a JSON object, as in metadata={"plan": "gold"}')
    read: dict[str, Any] = from_json(wanted)
    return read


HANDLERS = [list_threads, get_thread, describe_thread, delete_thread, fork_thread, rewind_thread]

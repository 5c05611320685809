"""Messages: list, append, read, delete."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import unquote

from litestar import Request, Response, delete, get, post
from litestar.params import JSONBody, QueryParameter

import clew
from clew.server.bodies import NewMessages
from clew.server.calls import (
    MOST,
    CheckpointId,
    IdempotencyKey,
    Name,
    Namespace,
    Offset,
    PageLimit,
    Search,
    UserId,
    answer,
    call_of,
    derived_id,
    found,
    plain,
    with_ids,
)
from clew.server.interchange import from_json
from clew.server.response_types import Appended, MessagePage, RenderedMessages, page, told

As = Annotated[
    Literal["openai", "openai-responses", "anthropic", "gemini"] | None,
    QueryParameter(name="as", description="Render the page in a provider's format."),
]
After = Annotated[str | None, QueryParameter(name="after", description="Only messages after the one with this id.")]
Before = Annotated[
    str | None, QueryParameter(name="before", description="The newest messages before the one with this id.")
]
Last = Annotated[int | None, QueryParameter(name="last", ge=1, le=MOST, description="The newest N messages.")]
Branches = Annotated[
    Literal["head", "all"], QueryParameter(name="branches", description="One branch, or every message of the thread.")
]


@get("/threads/{thread_id:str}/messages", summary="List messages", tags=["messages"])
async def list_messages(
    request: Request[Any, Any, Any],
    thread_id: Name,
    user_id: UserId = None,
    search: Search = None,
    after: After = None,
    before: Before = None,
    last: Last = None,
    offset: Offset = None,
    limit: PageLimit = 50,
    dialect: As = None,
    checkpoint_id: CheckpointId = None,
    namespace: Namespace = None,
    branches: Branches = "head",
) -> Response[MessagePage | RenderedMessages]:
    """List the messages of the head's branch, or as of a checkpoint, in order. Pass `next` as `after` to get
    the next page.

    `last` asks for the newest messages instead; then `next` is the `before` of the page before them. With
    `offset`, `next` is an offset. With `as`, the page is rendered in a provider's format, without `next`.
    """
    call = call_of(request)
    config = call.config(thread_id, user_id, checkpoint_id=checkpoint_id, namespace=namespace)
    if before is not None and last is None:
        last = limit
    more = 0 if dialect is not None else 1
    window: dict[str, Any] = {"limit": limit + more} if last is None else {"last": last + more}
    window |= {"after": after, "before": before, "offset": offset or 0, "branches": branches}
    if dialect is not None:
        rendered = await call.memory.alist_messages(config, search, as_=dialect, **window)
        shown: RenderedMessages = {
            "messages": list(rendered),
            "system": rendered.system,
            "left_out": list(rendered.left_out),
        }
        return answer(shown)
    listed = await call.memory.alist_messages(config, search, **window)
    if last is None:
        messages, following = page(listed, limit, lambda end: end.message_id, offset)
    else:
        newest, following = page(listed[::-1], last, lambda end: end.message_id)
        messages = newest[::-1]
    return plain({"messages": messages, "next": following})


@post("/threads/{thread_id:str}/messages", summary="Append messages", tags=["messages"])
async def post_messages(
    request: Request[Any, Any, Any],
    thread_id: Name,
    data: JSONBody[NewMessages],
    user_id: UserId = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[Appended]:
    """Append messages, all or none. A message with an id that exists replaces that message in its place."""
    call = call_of(request)
    config = call.config(thread_id, user_id, write=True)
    base = derived_id(call, idempotency_key, "messages", config["thread_id"])
    messages = with_ids([from_json(message) for message in data.messages], base)
    await call.memory.aput_messages(config, messages, from_json(data.metadata), idempotency_key=base)
    return plain({"appended": len(messages)}, status=201)


@get("/threads/{thread_id:str}/messages/{message_id:str}", summary="Get a message", tags=["messages"])
async def get_message(
    request: Request[Any, Any, Any], thread_id: Name, message_id: Name, user_id: UserId = None
) -> Response[clew.Message]:
    """Return one message."""
    call = call_of(request)
    message = await call.memory.aget_message(call.config(thread_id, user_id), unquote(message_id))
    return plain(told(found(message, "the message")))


@delete(
    "/threads/{thread_id:str}/messages/{message_id:str}", summary="Delete a message", tags=["messages"], status_code=204
)
async def delete_message(
    request: Request[Any, Any, Any], thread_id: Name, message_id: Name, user_id: UserId = None
) -> None:
    """Remove one message."""
    call = call_of(request)
    config = call.config(thread_id, user_id, write=True)
    found(await call.memory.adelete_message(config, unquote(message_id)) or None, "the message")


HANDLERS = [list_messages, post_messages, get_message, delete_message]

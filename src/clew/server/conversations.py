"""OpenAI's Conversations API over threads: `OpenAI(base_url="http://localhost:8700/v1").conversations`.

A conversation is a thread whose id begins with `conv_`, and an item is a message in the format of OpenAI's
Responses API, kept whole.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, cast
from urllib.parse import unquote

from litestar import Request, Response, delete, get, post
from litestar.params import JSONBody, QueryParameter
from msgspec import Meta, Struct, to_builtins

import clew
from clew.ids import new_id
from clew.server.calls import C, Call, Name, call_of, found, plain
from clew.server.interchange import to_json
from clew.server.problems import Problem, not_found
from clew.server.response_types import Conversation, DeletedConversation, Item, ItemList

PREFIX: Final = "conv_"
_PREFIXES: Final = {"message": "msg_", "function_call": "fc_", "function_call_output": "fco_", "reasoning": "rs_"}
_OWN: Final = ("message_id", "metadata", "created_at", "run_id", "usage")
"""Keys that Clew reads from a message itself. In an item, they would not be OpenAI's."""

Items = Annotated[
    list[dict[str, Any]], Meta(max_length=20, description="Items of the Responses API. One without an id gets one.")
]
Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]],
    Meta(max_length=16, description="Texts by name."),
]


class NewConversation(Struct):
    """A conversation, with its first items."""

    items: Items | None = None
    metadata: Metadata | None = None


class NewMetadata(Struct):
    """A conversation's metadata, which replaces the earlier one."""

    metadata: Metadata | None = None


class NewItems(Struct):
    """Items to append."""

    items: Items


@post("/conversations", summary="Create a conversation", tags=["conversations"], status_code=200)
async def create_conversation(
    request: Request[Any, Any, Any], data: JSONBody[NewConversation | None] = None
) -> Response[Conversation]:
    """Create a conversation, with items if some are given."""
    call = call_of(request)
    given = data or NewConversation()
    config = call.config(PREFIX + new_id(), None, write=True)
    items = await _with_new_ids(call, config, [_item(each) for each in given.items or ()])
    await call.memory.aput_thread(config, {"metadata": dict(given.metadata or {})})
    if items:
        await call.memory.aput_messages(config, [_message(each) for each in items])
    return _answer(_conversation(await _thread(call, config)))


@get("/conversations/{conversation_id:str}", summary="Get a conversation", tags=["conversations"])
async def get_conversation(request: Request[Any, Any, Any], conversation_id: Name) -> Response[Conversation]:
    """Return a conversation without its items."""
    call = call_of(request)
    return _answer(_conversation(await _thread(call, _config(call, conversation_id))))


@post("/conversations/{conversation_id:str}", summary="Update a conversation", tags=["conversations"], status_code=200)
async def update_conversation(
    request: Request[Any, Any, Any], conversation_id: Name, data: JSONBody[NewMetadata]
) -> Response[Conversation]:
    """Replace the conversation's metadata."""
    call = call_of(request)
    config = _config(call, conversation_id, write=True)
    await _thread(call, config)
    described = {"metadata": dict(data.metadata or {})}
    await call.memory.aput_thread(config, described, existing_metadata="replace")
    return _answer(_conversation(await _thread(call, config)))


@delete(
    "/conversations/{conversation_id:str}", summary="Delete a conversation", tags=["conversations"], status_code=200
)
async def delete_conversation(request: Request[Any, Any, Any], conversation_id: Name) -> Response[DeletedConversation]:
    """Delete a conversation with its items."""
    call = call_of(request)
    config = _config(call, conversation_id, write=True)
    await _thread(call, config)
    await call.memory.adelete_thread(config)
    return _answer({"id": config["thread_id"], "object": "conversation.deleted", "deleted": True})


@post("/conversations/{conversation_id:str}/items", summary="Append items", tags=["conversations"], status_code=200)
async def create_items(
    request: Request[Any, Any, Any], conversation_id: Name, data: JSONBody[NewItems]
) -> Response[ItemList]:
    """Append items, all or none."""
    call = call_of(request)
    config = _config(call, conversation_id, write=True)
    await _thread(call, config)
    items = await _with_new_ids(call, config, [_item(each) for each in data.items])
    await call.memory.aput_messages(config, [_message(each) for each in items])
    return _answer(_list(items, more=False))


@get("/conversations/{conversation_id:str}/items", summary="List items", tags=["conversations"])
async def list_items(
    request: Request[Any, Any, Any],
    conversation_id: Name,
    after: Annotated[str | None, QueryParameter(name="after", description="The last item of the page before.")] = None,
    limit: Annotated[int, QueryParameter(name="limit", ge=1, le=100, description="The size of the page.")] = 20,
    order: Annotated[
        Literal["asc", "desc"], QueryParameter(name="order", description="Oldest or newest first.")
    ] = "desc",
) -> Response[ItemList]:
    """List items, newest first unless `order` is `asc`."""
    call = call_of(request)
    config = _config(call, conversation_id)
    await _thread(call, config)
    if order == "asc":
        messages = await call.memory.alist_messages(config, limit=limit + 1, after=after)
    else:
        messages = (await call.memory.alist_messages(config, last=limit + 1, before=after))[::-1]
    return _answer(_list([_shown(each) for each in messages[:limit]], more=len(messages) > limit))


@get("/conversations/{conversation_id:str}/items/{item_id:str}", summary="Get an item", tags=["conversations"])
async def get_item(request: Request[Any, Any, Any], conversation_id: Name, item_id: Name) -> Response[Item]:
    """Return one item."""
    call = call_of(request)
    message = await call.memory.aget_message(_config(call, conversation_id), unquote(item_id))
    return _answer(_shown(found(message, "the item")))


@delete(
    "/conversations/{conversation_id:str}/items/{item_id:str}",
    summary="Delete an item",
    tags=["conversations"],
    status_code=200,
)
async def delete_item(request: Request[Any, Any, Any], conversation_id: Name, item_id: Name) -> Response[Conversation]:
    """Delete one item, and return the conversation."""
    call = call_of(request)
    config = _config(call, conversation_id, write=True)
    found(await call.memory.adelete_message(config, unquote(item_id)) or None, "the item")
    return _answer(_conversation(await _thread(call, config)))


def _answer(content: C) -> Response[C]:
    """Return a JSON response without `$type`: items are returned as they were sent, and OpenAI's clients
    don't know these marks."""
    try:
        return plain(to_builtins(content, str_keys=True, enc_hook=to_json))
    except TypeError:
        return plain(to_json(content))  # A message from Python has keys that JSON lacks.


def _config(call: Call, conversation_id: str, *, write: bool = False) -> dict[str, Any]:
    if not unquote(conversation_id).startswith(PREFIX):
        raise not_found(f"the conversation (ids begin with {PREFIX})")
    return call.config(conversation_id, None, write=write)


async def _thread(call: Call, config: dict[str, Any]) -> clew.ThreadInfo:
    return found(await call.memory.aget_thread(config), "the conversation")


def _conversation(thread: clew.ThreadInfo) -> Conversation:
    return {
        "id": thread.thread_id,
        "object": "conversation",
        "created_at": int(thread.created_at.timestamp()) if thread.created_at else 0,
        "metadata": dict(thread.metadata),
    }


def _list(items: list[Item], *, more: bool) -> ItemList:
    ids = [each["id"] for each in items]
    return {
        "object": "list",
        "data": items,
        "first_id": ids[0] if ids else "",
        "last_id": ids[-1] if ids else "",
        "has_more": more,
    }


def _item(given: dict[str, Any]) -> Item:
    """Return the item as OpenAI would store it: with an id, a type, and contents as a list of parts."""
    item = {key: value for key, value in given.items() if key not in _OWN}
    kind = item.setdefault("type", "message")
    if not isinstance(kind, str):
        raise Problem(400, "InvalidRequest", "an item's type must be text")
    if not isinstance(item.get("id"), str) or not item["id"]:
        item["id"] = _PREFIXES.get(kind, "item_") + new_id()
    if kind == "message":
        if not isinstance(item.get("role"), str):
            raise Problem(400, "InvalidRequest", "a message needs a role")
        if isinstance(item.get("content"), str):
            part = "output_text" if item["role"] == "assistant" else "input_text"
            content: dict[str, Any] = {"type": part, "text": item["content"]}
            item["content"] = [{**content, "annotations": []} if part == "output_text" else content]
        item.setdefault("status", "completed")
    return cast("Item", item)


async def _with_new_ids(call: Call, config: dict[str, Any], items: list[Item]) -> list[Item]:
    """Give a new id to each item whose id exists already: appending never replaces an item."""
    seen: set[str] = set()
    for item in items:
        if item["id"] in seen or await call.memory.aget_message(config, item["id"]) is not None:
            item["id"] = _PREFIXES.get(item["type"], "item_") + new_id()
        seen.add(item["id"])
    return items


def _message(item: Item) -> dict[str, Any]:
    return {**item, "message_id": item["id"]}


def _shown(message: clew.Message) -> Item:
    """Return the item. A message that was not saved as an item is shown as text."""
    if message.format == "openai-responses" and message.raw is not None:
        return cast("Item", {"type": "message", **message.raw, "id": message.message_id})
    return _item({"id": message.message_id, "role": message.role, "content": message.text()})


HANDLERS = [
    create_conversation,
    get_conversation,
    update_conversation,
    delete_conversation,
    create_items,
    list_items,
    get_item,
    delete_item,
]

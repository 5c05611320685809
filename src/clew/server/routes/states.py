"""States and checkpoints: read, save, change, compare, delete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Final, Literal
from urllib.parse import unquote

from litestar import Request, Response, delete, get, patch, post
from litestar.openapi import ResponseSpec
from litestar.params import HeaderParameter, JSONBody, QueryParameter

import clew
from clew.server.bodies import Attachments, NewCheckpoint, StateChange
from clew.server.calls import (
    CheckpointId,
    IdempotencyKey,
    IfMatch,
    Name,
    Namespace,
    PageLimit,
    UserId,
    answer,
    call_of,
    derived_id,
    etag,
    found,
    matched_id,
    plain,
    saved,
    with_ids,
)
from clew.server.interchange import from_json
from clew.server.problems import Problem
from clew.server.response_types import (
    AttachedKeys,
    AttachmentRecords,
    Changes,
    CheckpointPage,
    HistoryPage,
    Namespaces,
    NamespaceSummary,
    page,
    placed,
    told,
)

Before = Annotated[str | None, QueryParameter(name="before", description="The last checkpoint id of the page before.")]
Parent = Annotated[
    str | None, QueryParameter(name="checkpoint_id", description="The checkpoint to branch from; without it, the head.")
]
COUNTED: Final = 10_000
"""How many checkpoints are counted by namespace, the newest first. It takes 15 microseconds each."""

IfNoneMatch = Annotated[
    str | None, HeaderParameter(name="If-None-Match", description="The ETag of the version that the caller has.")
]


@get(
    "/threads/{thread_id:str}/state",
    summary="Get a state",
    tags=["states"],
    responses={304: ResponseSpec(None, description="The caller has this version: If-None-Match names it.")},
)
async def get_state(
    request: Request[Any, Any, Any],
    thread_id: Name,
    user_id: UserId = None,
    checkpoint_id: CheckpointId = None,
    namespace: Namespace = None,
    if_none_match: IfNoneMatch = None,
) -> Response[clew.Checkpoint]:
    """Return the checkpoint at the head, or another one, with its state. The ETag names its version."""
    call = call_of(request)
    config = call.config(thread_id, user_id, checkpoint_id=checkpoint_id, namespace=namespace)
    checkpoint = found(await call.memory.aget_checkpoint(config), "the checkpoint")
    tag = etag(checkpoint)
    if if_none_match is not None and tag in [each.strip() for each in if_none_match.split(",")]:
        unchanged: Response[Any] = Response(None, status_code=304, headers={"ETag": tag})
        return unchanged
    return plain(told(checkpoint), headers={"ETag": tag})


@post("/threads/{thread_id:str}/checkpoints", summary="Save a state", tags=["states"])
async def post_checkpoint(
    request: Request[Any, Any, Any],
    thread_id: Name,
    data: JSONBody[NewCheckpoint],
    user_id: UserId = None,
    checkpoint_id: Parent = None,
    namespace: Namespace = None,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[clew.CheckpointMetadata]:
    """Save a state, and messages with it, as the new head. With If-Match, a head that has moved is refused.
    With `checkpoint_id`, it becomes a branch from that checkpoint, wherever the head is.
    """
    call = call_of(request)
    base = matched_id(if_match)
    if base is not None and checkpoint_id is not None:
        raise Problem(
            400, "InvalidRequest", "give either If-Match (the head must be this one) or checkpoint_id (branch)"
        )
    config = call.config(thread_id, user_id, checkpoint_id=base or checkpoint_id, namespace=namespace, write=True)
    if checkpoint_id is not None:
        found(await call.memory.aexists(config) or None, "the checkpoint")
    if data.run_id is not None:
        config["run_id"] = data.run_id
    key = derived_id(call, idempotency_key, "state", *_place(config))
    save = partial(call.memory.aput_checkpoint, config, from_json(data.state), on_conflict=_conflict(base))
    return await _saved_once(data, key, save)


@patch("/threads/{thread_id:str}/state", summary="Change a state", tags=["states"], status_code=201)
async def update_state(
    request: Request[Any, Any, Any],
    thread_id: Name,
    data: JSONBody[StateChange],
    user_id: UserId = None,
    namespace: Namespace = None,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[clew.CheckpointMetadata]:
    """Set, append to or remove fields of the head's state, without sending the rest."""
    call = call_of(request)
    base = matched_id(if_match)
    config = call.config(thread_id, user_id, checkpoint_id=base, namespace=namespace, write=True)
    key = derived_id(call, idempotency_key, "change", *_place(config))
    changes = {"set": from_json(data.set), "append": from_json(data.append), "remove": data.remove}
    save = partial(call.memory.aupdate_state, config, **changes, on_conflict=_conflict(base))
    return await _saved_once(data, key, save)


@delete("/threads/{thread_id:str}/state", summary="Clear a state", tags=["states"], status_code=204)
async def clear_state(request: Request[Any, Any, Any], thread_id: Name, user_id: UserId = None) -> None:
    """Remove all checkpoints of the thread. Messages and description stay."""
    call = call_of(request)
    await call.memory.aclear_state(call.config(thread_id, user_id, write=True))


@get("/threads/{thread_id:str}/checkpoints", summary="List checkpoints", tags=["states"])
async def list_checkpoints(
    request: Request[Any, Any, Any],
    thread_id: Name,
    user_id: UserId = None,
    namespace: Namespace = None,
    before: Before = None,
    limit: PageLimit = 50,
) -> Response[CheckpointPage]:
    """List checkpoints without their states, newest first. `next` is the `before` of the next page."""
    call = call_of(request)
    config = call.config(thread_id, user_id, namespace=namespace)
    listed = await call.memory.alist_checkpoints(config, limit=limit + 1, before=before)
    shown, following = page(listed, limit, lambda last: last.checkpoint_id)
    return plain({"checkpoints": shown, "next": following})


@get("/threads/{thread_id:str}/namespaces", summary="List namespaces", tags=["states"])
async def list_namespaces(
    request: Request[Any, Any, Any], thread_id: Name, user_id: UserId = None
) -> Response[Namespaces]:
    """List the namespaces of the thread, the most recently active first, each with its newest checkpoint.

    They are counted from the newest 10,000 checkpoints.
    """
    call = call_of(request)
    config = call.config(thread_id, user_id)
    newest = await call.memory.alist_checkpoints(config, limit=COUNTED + 1, namespaces="all")
    complete = len(newest) <= COUNTED
    counted = Counter(each.namespace for each in newest[:COUNTED])
    heads = {each.namespace: each for each in reversed(newest[:COUNTED])}
    if not complete and "" not in counted:
        # The main namespace may have been inactive for long, but callers look there first.
        for head in await call.memory.alist_checkpoints(config, limit=1):
            counted[""], heads[""] = 1, head
    listed: list[NamespaceSummary] = [
        {"namespace": name, "checkpoints": many, "head": told(heads[name])} for name, many in counted.items()
    ]
    return plain({"namespaces": listed, "complete": complete})


@delete(
    "/threads/{thread_id:str}/checkpoints/{checkpoint_id:str}",
    summary="Delete a checkpoint",
    tags=["states"],
    status_code=204,
)
async def delete_checkpoint(
    request: Request[Any, Any, Any],
    thread_id: Name,
    checkpoint_id: Name,
    user_id: UserId = None,
    namespace: Namespace = None,
) -> None:
    """Remove one checkpoint."""
    call = call_of(request)
    config = call.config(thread_id, user_id, checkpoint_id=unquote(checkpoint_id), namespace=namespace, write=True)
    found(await call.memory.adelete_checkpoint(config) or None, "the checkpoint")


@get("/threads/{thread_id:str}/history", summary="Get the history", tags=["states"])
async def get_history(
    request: Request[Any, Any, Any],
    thread_id: Name,
    user_id: UserId = None,
    namespace: Namespace = None,
    before: Before = None,
    limit: PageLimit = 10,
) -> Response[HistoryPage]:
    """Return checkpoints with their states, newest first. `next` is the `before` of the next page."""
    call = call_of(request)
    config = call.config(thread_id, user_id, namespace=namespace)
    loaded = await call.memory.aget_history(config, limit + 1, before=before)
    shown, following = page(loaded, limit, lambda last: last.checkpoint_id)
    return plain({"checkpoints": shown, "next": following})


@get("/threads/{thread_id:str}/diff", summary="Compare two states", tags=["states"])
async def get_diff(
    request: Request[Any, Any, Any],
    thread_id: Name,
    older: Annotated[str, QueryParameter(name="from", description="The checkpoint to compare with.")],
    user_id: UserId = None,
    newer: Annotated[str | None, QueryParameter(name="to", description="The other one; without it, the head.")] = None,
    other: Annotated[
        str | None, QueryParameter(name="to_thread", description="The thread of the other checkpoint, such as a fork.")
    ] = None,
    namespace: Namespace = None,
) -> Response[Changes]:
    """Return the changes that lead from one state to another."""
    call = call_of(request)
    before = call.config(thread_id, user_id, checkpoint_id=older, namespace=namespace)
    after = {**before, "thread_id": other or before["thread_id"], "checkpoint_id": newer}
    for config in (before, after):
        found(await call.memory.aexists(config) or None, "the checkpoint")
    changes = await call.memory.adiff(before, after)
    return answer({"changes": [placed(each) for each in changes]})


@get("/threads/{thread_id:str}/attachments", summary="List attachments", tags=["states"])
async def list_attachments(
    request: Request[Any, Any, Any],
    thread_id: Name,
    user_id: UserId = None,
    checkpoint_id: CheckpointId = None,
    namespace: Namespace = None,
) -> Response[AttachmentRecords]:
    """Return the records that are attached to a checkpoint, by key."""
    call = call_of(request)
    config = call.config(thread_id, user_id, checkpoint_id=checkpoint_id, namespace=namespace)
    return answer({"attachments": await call.memory.alist_attachments(config)})


@post("/threads/{thread_id:str}/attachments", summary="Attach records", tags=["states"])
async def put_attachments(
    request: Request[Any, Any, Any],
    thread_id: Name,
    data: JSONBody[Attachments],
    checkpoint_id: Annotated[str, QueryParameter(name="checkpoint_id", description="The checkpoint to attach to.")],
    user_id: UserId = None,
    namespace: Namespace = None,
) -> Response[AttachedKeys]:
    """Attach records to a checkpoint. A record with the same key is replaced."""
    call = call_of(request)
    config = call.config(thread_id, user_id, checkpoint_id=checkpoint_id, namespace=namespace, write=True)
    await call.memory.aput_attachments(config, from_json(data.attachments))
    return plain({"attachments": sorted(data.attachments)}, status=201)


def _place(config: dict[str, Any]) -> tuple[str, str]:
    """What a save with an Idempotency-Key belongs to: the thread and the namespace."""
    return config["thread_id"], config.get("checkpoint_ns", "")


def _conflict(base: str | None) -> Literal["branch", "reject"]:
    """What happens if the head has moved: with If-Match, the save is refused."""
    return "branch" if base is None else "reject"


async def _saved_once(
    data: NewCheckpoint | StateChange, key: str | None, save: Callable[..., Awaitable[clew.Checkpoint]]
) -> Response[clew.CheckpointMetadata]:
    """Save what both bodies have in common by `save`, unless a request with the same key has done it."""
    checkpoint = await save(
        messages=with_ids([from_json(message) for message in data.messages], key),
        node_name=data.node_name,
        step=data.step,
        metadata=from_json(data.metadata),
        idempotency_key=key,
    )
    return saved(checkpoint)


HANDLERS = [
    get_state,
    post_checkpoint,
    update_state,
    clear_state,
    list_checkpoints,
    list_namespaces,
    delete_checkpoint,
    get_history,
    get_diff,
    list_attachments,
    put_attachments,
]

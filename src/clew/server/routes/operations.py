"""Operations on the whole store: statistics, status, retention, verification, erasure."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

from litestar import Request, Response, delete, get, post
from litestar.params import JSONBody, QueryParameter

import clew
from clew.server.bodies import Policy
from clew.server.calls import Name, UserId, call_of, plain
from clew.server.response_types import Erased, StoreStats, counts, told

OneThread = Annotated[str | None, QueryParameter(name="thread_id", description="Only this thread.")]


@get("/stats", summary="Get statistics", tags=["operations"])
async def get_stats(request: Request[Any, Any, Any], user_id: UserId = None) -> Response[StoreStats]:
    """Return totals by thread and by day, of one user or of all."""
    call = call_of(request)
    user = call.caller.acting_for(user_id)
    stats = await call.memory.astats(user)
    return plain(
        {
            **counts(stats, whole=user is clew.ANY_USER),
            "checkpoints_per_session": stats.checkpoints_per_session,
            "by_thread": {name: told(each) for name, each in stats.by_thread.items()},
            "by_day": {day: told(each) for day, each in stats.by_day.items()},
        }
    )


@get("/status", summary="Get the status", tags=["operations"])
async def get_status(request: Request[Any, Any, Any]) -> Response[clew.Status]:
    """Return the health of the stores and of background work."""
    call = call_of(request)
    call.caller.must_be_operator()
    return plain(told(await call.memory.astatus()))


@post("/cleanup", summary="Clean up", tags=["operations"], status_code=200)
async def cleanup(
    request: Request[Any, Any, Any], data: JSONBody[Policy], thread_id: OneThread = None
) -> Response[clew.CleanupReport]:
    """Remove old checkpoints by a retention policy. By default, only report what would be removed."""
    call = call_of(request)
    call.caller.must_be_operator()
    if not data.dry_run:
        call.caller.must_write()
    policy = None if data.policy is None else clew.RetentionPolicy.from_dict(data.policy)
    return plain(told(await call.memory.acleanup(policy, config=_one(thread_id), dry_run=data.dry_run)))


@post("/verify", summary="Verify records", tags=["operations"], status_code=200)
async def verify(request: Request[Any, Any, Any], thread_id: OneThread = None) -> Response[clew.VerifyReport]:
    """Read every record, and list the damaged ones."""
    call = call_of(request)
    call.caller.must_be_operator()
    return plain(told(await call.memory.averify(_one(thread_id))))


@post("/compact", summary="Compact the store", tags=["operations"], status_code=200)
async def compact(request: Request[Any, Any, Any], thread_id: OneThread = None) -> Response[clew.CompactReport]:
    """Merge small value rows."""
    call = call_of(request)
    call.caller.must_be_operator()
    call.caller.must_write()
    return plain(told(await call.memory.acompact(_one(thread_id))))


@delete("/users/{erased:str}", summary="Erase a user", tags=["operations"], status_code=200)
async def erase_user(request: Request[Any, Any, Any], erased: Name) -> Response[Erased]:
    """Delete all threads of a user. A token for one user may erase that user only."""
    call = call_of(request)
    call.caller.must_write()
    user = call.caller.acting_for(unquote(erased))
    return plain({"threads": await call.memory.aerase_user(user)})


def _one(thread_id: str | None) -> dict[str, Any] | None:
    """The config of one thread, whoever owns it, or of all threads."""
    return None if thread_id is None else {"thread_id": thread_id, "user_id": clew.ANY_USER}


HANDLERS = [get_stats, get_status, cleanup, verify, compact, erase_user]

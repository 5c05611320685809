"""Answers made for the studio: who the caller is, and an overview of the store that stays small."""

from __future__ import annotations

from typing import Annotated, Any, Final

from litestar import Request, Response, get
from litestar.params import QueryParameter

import clew
from clew.server.calls import Call, UserId, answer, call_of

_LARGEST: Final = 10
Days = Annotated[int, QueryParameter(name="days", ge=1, le=400, description="How many days, up to the newest one.")]


@get("/me", summary="Get the caller", tags=["operations"])
async def get_me(request: Request[Any, Any, Any]) -> Response[Any]:
    """Return what the token may do: its name, its user (`null`: all users) and its scope."""
    caller = call_of(request).caller
    everybody = caller.user is clew.ANY_USER
    return answer({"name": caller.name, "user": None if everybody else caller.user, "scope": caller.scope})


@get("/overview", summary="Get an overview", tags=["operations"])
async def get_overview(request: Request[Any, Any, Any], user_id: UserId = None, days: Days = 90) -> Response[Any]:
    """Return totals, the last days with activity, and the largest threads. Unlike the statistics, it is small for any store."""
    call = call_of(request)
    user = call.caller.acting_for(user_id)
    stats = await call.memory.astats(user)
    totals = stats.to_dict()
    del totals["by_thread"], totals["checkpoints_per_session"]
    totals["by_day"] = {day: each.to_dict() for day, each in sorted(stats.by_day.items())[-days:]}
    if user is not clew.ANY_USER:
        # The size of the whole store and of the server's memory tells about other tenants.
        totals |= {"stored_bytes": 0, "index": None}
    largest = sorted(stats.by_thread.items(), key=lambda each: (-each[1].bytes, each[0]))[:_LARGEST]
    totals["largest"] = [{**await _named(call, user, name), **each.to_dict()} for name, each in largest]
    return answer(totals)


async def _named(call: Call, user: Any, thread_id: str) -> dict[str, Any]:
    named: dict[str, Any] = {"thread_id": thread_id, "thread_name": None, "user_id": None}
    try:
        thread = await call.memory.aget_thread({"thread_id": thread_id, "user_id": user})
    except clew.CorruptRecordError:
        # Its size is known all the same.
        thread = None
    return named if thread is None else {**named, "thread_name": thread.thread_name, "user_id": thread.user_id}


HANDLERS = [get_me, get_overview]

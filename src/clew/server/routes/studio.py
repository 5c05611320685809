"""Answers made for the studio: who the caller is, and an overview of the store that stays small."""

from __future__ import annotations

from typing import Annotated, Any, Final

from litestar import Request, Response, get
from litestar.params import QueryParameter

import clew
from clew.server.calls import Call, UserId, call_of, plain
from clew.server.response_types import LargeThread, Me, Overview, counts, told

_LARGEST: Final = 10
Days = Annotated[int, QueryParameter(name="days", ge=1, le=400, description="How many days, up to the newest one.")]


@get("/me", summary="Get the caller", tags=["operations"])
async def get_me(request: Request[Any, Any, Any]) -> Response[Me]:
    """Return what the token may do: its name, its user (`null`: all users) and its scope."""
    caller = call_of(request).caller
    everybody = caller.user is clew.ANY_USER
    return plain({"name": caller.name, "user": None if everybody else caller.user, "scope": caller.scope})


@get("/overview", summary="Get an overview", tags=["operations"])
async def get_overview(request: Request[Any, Any, Any], user_id: UserId = None, days: Days = 90) -> Response[Overview]:
    """Return totals, the last days with activity, and the largest threads. Unlike the statistics, it is small for any store."""
    call = call_of(request)
    user = call.caller.acting_for(user_id)
    stats = await call.memory.astats(user)
    largest = sorted(stats.by_thread.items(), key=lambda each: (-each[1].bytes, each[0]))[:_LARGEST]
    return plain(
        {
            **counts(stats, whole=user is clew.ANY_USER),
            "by_day": {day: told(each) for day, each in sorted(stats.by_day.items())[-days:]},
            "largest": [await _named(call, user, name, each) for name, each in largest],
        }
    )


async def _named(call: Call, user: Any, thread_id: str, totals: clew.Totals) -> LargeThread:
    try:
        thread = await call.memory.aget_thread({"thread_id": thread_id, "user_id": user})
    except clew.CorruptRecordError:
        # Its size is known all the same.
        thread = None
    return {
        "thread_id": thread_id,
        "thread_name": None if thread is None else thread.thread_name,
        "user_id": None if thread is None else thread.user_id,
        "messages": totals.messages,
        "tool_calls": totals.tool_calls,
        "checkpoints": totals.checkpoints,
        "bytes": totals.bytes,
        "input_tokens": totals.input_tokens,
        "output_tokens": totals.output_tokens,
    }


HANDLERS = [get_me, get_overview]

"""Server-sent events: what happens in a thread, or in all threads of a user, while it happens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from litestar import Request, get
from litestar.params import HeaderParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

import clew
from clew.server.calls import Name, UserId, call_of
from clew.server.interchange import to_json

QUIET: Final = 15.0
"""Seconds without an event after which a comment keeps proxies from closing the connection."""

LastEventId = Annotated[
    str | None,
    HeaderParameter(name="Last-Event-ID", max_length=2000, description="The id of the last event that was seen."),
]


@get("/events", summary="Watch all threads", tags=["events"])
async def watch_user(
    request: Request[Any, Any, Any], user_id: UserId = None, last_event_id: LastEventId = None
) -> ServerSentEvent:
    """Stream what happens in all threads of the user, as server-sent events."""
    call = call_of(request)
    return await _stream(call.memory, {"user_id": call.caller.acting_for(user_id)}, last_event_id)


@get("/threads/{thread_id:str}/events", summary="Watch a thread", tags=["events"])
async def watch_thread(
    request: Request[Any, Any, Any], thread_id: Name, user_id: UserId = None, last_event_id: LastEventId = None
) -> ServerSentEvent:
    """Stream what happens in a thread, as server-sent events. `Last-Event-ID` resumes after an event."""
    call = call_of(request)
    return await _stream(call.memory, call.config(thread_id, user_id), last_event_id)


async def _stream(memory: clew.BaseCheckpointer, config: dict[str, Any], since: str | None) -> ServerSentEvent:
    # Begun before the response, so that nothing is missed after it, and a wrong position is a 400.
    watch = memory.awatch(config, since=since, timeout=QUIET)
    await watch.__aenter__()

    async def events() -> AsyncIterator[ServerSentEventMessage]:
        current = watch
        try:
            yield ServerSentEventMessage(data=None, comment="watching")
            while True:
                async for event in current:
                    data = json.dumps(to_json(event.to_dict()))
                    yield ServerSentEventMessage(id=event.position, event=event.kind, data=data)
                # It ended because nothing happened. Go on after the last position.
                position = current.position
                await current.aclose()
                yield ServerSentEventMessage(data=None, comment="quiet")
                current = memory.awatch(config, since=position, timeout=QUIET)
                await current.__aenter__()
        except clew.ClewError as error:
            yield ServerSentEventMessage(
                event="error", data=json.dumps({"error": type(error).__name__, "detail": str(error)})
            )
        finally:
            await current.aclose()

    return ServerSentEvent(events())


HANDLERS = [watch_user, watch_thread]

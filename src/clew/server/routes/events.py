"""Server-sent events: what happens in a thread, or in all threads of a user, while it happens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final, Protocol
from weakref import WeakSet

from litestar import Request, get
from litestar.openapi import ResponseSpec
from litestar.params import HeaderParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

import clew
from clew.server.calls import Name, UserId, call_of
from clew.server.response_types import StreamError, told

QUIET: Final = 15.0
"""Seconds without an event after which a comment keeps proxies from closing the connection."""

LastEventId = Annotated[
    str | None,
    HeaderParameter(name="Last-Event-ID", max_length=2000, description="The id of the last event that was seen."),
]

_EVENTS: Final = {
    # ResponseSpec is annotated for classes, and takes unions.
    200: ResponseSpec(clew.Event | StreamError, media_type="text/event-stream", generate_examples=False)  # type: ignore[arg-type]
}
"""The data of the events in a stream."""


@get("/events", summary="Watch all threads", tags=["events"], responses=_EVENTS)
async def watch_user(
    request: Request[Any, Any, Any], user_id: UserId = None, last_event_id: LastEventId = None
) -> ServerSentEvent:
    """Stream what happens in all threads of the user, as server-sent events."""
    call = call_of(request)
    return await _stream(request, {"user_id": call.caller.acting_for(user_id)}, last_event_id)


@get("/threads/{thread_id:str}/events", summary="Watch a thread", tags=["events"], responses=_EVENTS)
async def watch_thread(
    request: Request[Any, Any, Any], thread_id: Name, user_id: UserId = None, last_event_id: LastEventId = None
) -> ServerSentEvent:
    """Stream what happens in a thread, as server-sent events. `Last-Event-ID` resumes after an event."""
    call = call_of(request)
    return await _stream(request, call.config(thread_id, user_id), last_event_id)


class Watch(Protocol):
    """What `awatch` returns."""

    async def __aenter__(self) -> Any: ...

    async def aclose(self) -> None: ...


class Streams:
    """The open streams of a server. `end` ends them, so that the server need not wait for its watchers to leave."""

    def __init__(self) -> None:
        # Weak: a client may leave before its stream begins, and then nobody closes it.
        self._open: WeakSet[Watch] = WeakSet()
        self._ended = False

    def __contains__(self, watch: Watch) -> bool:
        return watch in self._open

    def begin(self) -> None:
        """Let streams begin, again after an earlier end."""
        self._ended = False

    async def add(self, watch: Watch) -> None:
        """Begin the watch."""
        await watch.__aenter__()
        if self._ended:
            await watch.aclose()
        else:
            self._open.add(watch)

    async def remove(self, watch: Watch) -> None:
        """Close the watch."""
        self._open.discard(watch)
        await watch.aclose()

    async def end(self) -> None:
        """Close all watches, and those that begin after this."""
        self._ended = True
        for watch in list(self._open):
            await self.remove(watch)


async def _stream(request: Request[Any, Any, Any], config: dict[str, Any], since: str | None) -> ServerSentEvent:
    memory = call_of(request).memory
    streams: Streams = request.app.state.streams
    # Begun before the response, so that nothing is missed after it, and a wrong position is a 400.
    watch = memory.awatch(config, since=since, timeout=QUIET)
    await streams.add(watch)

    async def events() -> AsyncIterator[ServerSentEventMessage]:
        current = watch
        try:
            yield ServerSentEventMessage(data=None, comment="watching")
            while True:
                async for event in current:
                    data = json.dumps(told(event))
                    yield ServerSentEventMessage(id=event.position, event=event.kind, data=data)
                if current not in streams:
                    return
                # It ended because nothing happened. Go on after the last position.
                position = current.position
                await streams.remove(current)
                yield ServerSentEventMessage(data=None, comment="quiet")
                current = memory.awatch(config, since=position, timeout=QUIET)
                await streams.add(current)
        except clew.ClewError as error:
            failed: StreamError = {"error": type(error).__name__, "detail": str(error)}
            yield ServerSentEventMessage(event="error", data=json.dumps(failed))
        finally:
            await streams.remove(current)

    return ServerSentEvent(events())


HANDLERS = [watch_user, watch_thread]

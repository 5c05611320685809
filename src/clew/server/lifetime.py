"""The time in which an application serves: its beginning and its end.

Servers wait for open responses before they tell an application about the end, and an event stream never ends
by itself. So the streams end when the signal comes that ends the server.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Final

from clew.server.routes.events import Streams
from clew.server.turns import Turns

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)
Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]


def lifespan_of(streams: Streams, turns: Turns) -> Lifespan:
    """Return the lifespan of an application with these streams and turns, in the form that ASGI frameworks take."""

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        streams.begin()
        loop = asyncio.get_running_loop()
        ending: list[asyncio.Task[None]] = []

        def end() -> None:
            ending.append(loop.create_task(streams.end()))

        with at_a_signal(lambda: loop.call_soon_threadsafe(end)):
            try:
                yield
            finally:
                await streams.end()
                await asyncio.gather(*ending)
                await turns.close()

    return lifespan


@contextmanager
def at_a_signal(call: Callable[[], object]) -> Iterator[None]:
    """Call `call` when a signal asks the process to end, and then the handler of the server.

    A signal without a handler is left alone: it ends the process at once. Outside of the main thread, which
    alone receives signals, nothing is changed.
    """
    before: dict[signal.Signals, Callable[[int, Any], Any]] = {}
    inside = True

    def handle(number: int, frame: Any) -> None:
        # Another handler, set after this one, may still call it after the end.
        if inside:
            call()
        before[signal.Signals(number)](number, frame)

    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            handler = signal.getsignal(number)
            if callable(handler):
                before[number] = handler
                signal.signal(number, handle)
    try:
        yield
    finally:
        inside = False
        for number, handler in before.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, handler)

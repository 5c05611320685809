"""Execution of calls: on an event loop, or in the thread of a sync caller.

Every method is a coroutine. `run_inline` drives one for a sync caller: it never suspends and may
block its thread. All other code asks one question, `may_block()`, and uses `pause`, `offload` and
`run_to_end`, which ask it themselves.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from asyncio import _get_running_loop
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, TypeVarTuple

from clew.os_threads import Hands

Result = TypeVar("Result")
Args = TypeVarTuple("Args")

_inline: ContextVar[bool] = ContextVar("clew_inline", default=False)
"""True inside `run_inline`."""
_blocked: set[asyncio.AbstractEventLoop] = set()
"""Event loops whose thread waits for a call that runs on another loop."""


def may_block() -> bool:
    """Return whether the calling thread may block: a sync caller drives the coroutine, or no event loop runs.

    A coroutine that may block must not suspend.
    """
    return _inline.get() or _get_running_loop() is None


def is_sync_call_in_loop() -> bool:
    """Return whether the coroutine may work for a sync caller inside a running event loop.

    It may block for I/O, but must not wait for a task of that loop.
    """
    return bool(_blocked) or (_inline.get() and _get_running_loop() is not None)


@contextmanager
def blocked(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Note that `loop`, which runs in the current thread, waits for work on another loop until the block ends."""
    # An interrupt may have kept an earlier call from removing its loop.
    _blocked.difference_update([each for each in list(_blocked) if each.is_closed()])
    _blocked.add(loop)
    try:
        yield
    finally:
        _blocked.discard(loop)


def is_blocked(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether `loop` waits for work on another loop. Code that does this work must not wait for `loop`."""
    return loop in _blocked


def run_inline(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine that never suspends, run in the calling thread without an event loop."""
    context = contextvars.copy_context()
    context.run(_inline.set, True)
    try:
        context.run(work.send, None)
    except StopIteration as done:
        result: Result = done.value
        return result
    finally:
        work.close()
    raise RuntimeError(f"{work!r} suspended, but its storage declares that it never does")


def leave_inline() -> None:
    """Mark the current context, copied from a sync caller's, as one that runs on an event loop."""
    if _inline.get():
        _inline.set(False)


async def pause(seconds: float) -> None:
    """Sleep on the event loop, or in the calling thread if that may block."""
    if may_block():
        time.sleep(seconds)  # noqa: ASYNC251  (there is no loop to block)
    else:
        await asyncio.sleep(seconds)


async def offload(hands: Hands, work: Callable[[*Args], Result], *args: *Args) -> Result:
    """Return the result of `work(*args)` without blocking an event loop: on `hands`, or in place if
    the thread may block."""
    if may_block():
        return work(*args)
    return await hands.do(work, *args)


async def run_to_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `work`, which runs to its end even if the caller is cancelled.

    The cancellation is raised after that.
    """
    if may_block():
        return await work
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            # Retrieved, or asyncio would log it as an exception that was never retrieved.
            task.exception()
        raise cancelled
    return task.result()

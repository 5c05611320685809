"""Blocking work, for callers with an event loop and for callers without one."""

from __future__ import annotations

import asyncio
import contextvars
import time
from asyncio import _get_running_loop
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import ContextVar
from typing import Any, TypeVar, TypeVarTuple

Result = TypeVar("Result")
Args = TypeVarTuple("Args")

inline: ContextVar[bool] = ContextVar("clew_inline", default=False)
"""True where a sync caller drives the coroutine: it must not suspend, and may block the calling thread."""


def may_block() -> bool:
    """Whether the caller's thread may be blocked: `inline` is set, or no event loop runs in it to be held up."""
    return inline.get() or _get_running_loop() is None


async def pause(seconds: float) -> None:
    """Let `seconds` pass: on the event loop, or in the calling thread of a sync caller."""
    if may_block():
        time.sleep(seconds)  # noqa: ASYNC251  (there is no loop to block)
    else:
        await asyncio.sleep(seconds)


async def offload(executor: Executor, work: Callable[[*Args], Result], *args: *Args) -> Result:
    """The result of `work(*args)`, without blocking an event loop: in `executor`, or in place where that is fine."""
    if may_block():
        return work(*args)
    return await asyncio.get_running_loop().run_in_executor(executor, work, *args)


def run_inline(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine that never suspends, in the calling thread: no loop, no hop."""
    context = contextvars.copy_context()
    context.run(inline.set, True)
    try:
        context.run(work.send, None)
    except StopIteration as done:
        result: Result = done.value
        return result
    finally:
        work.close()
    raise RuntimeError(f"{work!r} suspended; its storage says that it never does")

"""Blocking work, for callers with an event loop and for callers without one."""

from __future__ import annotations

import asyncio
import time
from asyncio import _get_running_loop
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import ContextVar
from typing import TypeVar, TypeVarTuple

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

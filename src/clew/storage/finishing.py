"""What has to come to its end, whoever gives up waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from clew.storage.offload import may_block

R = TypeVar("R")


async def finished(work: Coroutine[Any, Any, R]) -> R:
    """The result of `work`, which comes to its end though the caller is cancelled; the cancellation is raised after that."""
    if may_block():
        return await work
    task = asyncio.ensure_future(work)
    given_up: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            given_up = error
    if given_up is not None:
        if not task.cancelled():
            # Looked at, or it would be reported as an error that nobody saw.
            task.exception()
        raise given_up
    return task.result()

"""Fresh contexts: a connection keeps the context it is opened in, so it gets its own."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import Context
from typing import Any, TypeVar, cast

R = TypeVar("R")


def in_fresh_context(work: Coroutine[Any, Any, R]) -> Awaitable[R]:
    """Await `work` in the caller's task, but without the caller's context variables."""
    return cast("Awaitable[R]", _in_fresh_context(work))


@types.coroutine
def _in_fresh_context(work: Coroutine[Any, Any, R]) -> Generator[Any, Any, R]:
    context = Context()
    try:
        waits_for = context.run(work.send, None)
        while True:
            try:
                answer = yield waits_for
            except BaseException as error:
                waits_for = context.run(work.throw, error)
            else:
                waits_for = context.run(work.send, answer)
    except StopIteration as done:
        return cast("R", done.value)
    finally:
        work.close()

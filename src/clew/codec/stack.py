"""Room for what nests: Python counts the calls of whoever called against the levels of a state."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def with_room(work: Callable[[], T]) -> T:
    """What `work` gives. If the stack has no room for it, it is called again in a thread, with one of its own."""
    try:
        return work()
    except RecursionError:
        pass
    outcome: Future[T] = Future()
    context = copy_context()

    def again() -> None:
        try:
            outcome.set_result(context.run(work))
        except BaseException as error:
            outcome.set_exception(error)

    thread = Thread(target=again, name="clew-deep")
    thread.start()
    thread.join()
    return outcome.result()

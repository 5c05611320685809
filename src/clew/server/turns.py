"""Turns over HTTP: each open turn is a task that holds the thread's lease and carries out what requests ask.

A turn lives in the process that opened it. A client that goes away loses it after `ttl` seconds without
a request, and nothing more is saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import clew
from clew.server.access import Caller
from clew.server.problems import Problem, not_found

MOST_OPEN: Final = 1000
"""How many turns one process keeps open."""

Work = Callable[[clew.Turn], Awaitable[Any]]


@dataclass(slots=True)
class OpenTurn:
    """An open turn. `work` are the requests for its task; `None` ends it without another save."""

    turn_id: str
    caller: Caller
    ttl: float
    work: asyncio.Queue[tuple[Work, asyncio.Future[Any]] | None] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[None] | None = None


class Turns:
    """The open turns of this process."""

    def __init__(self, checkpointer: clew.BaseCheckpointer, new_id: Callable[[], str]) -> None:
        self._checkpointer = checkpointer
        self._new_id = new_id
        self._open: dict[str, OpenTurn] = {}

    async def begin(
        self, caller: Caller, config: dict[str, Any], *, begin: Any, wait: float, ttl: float
    ) -> tuple[str, clew.Turn]:
        """Open a turn and return its id and the turn. Raises LeaseError if another one holds the thread."""
        if len(self._open) >= MOST_OPEN:
            raise Problem(503, "TooManyTurns", f"{MOST_OPEN} turns are open; end some", {"Retry-After": "1"})
        opened = OpenTurn(self._new_id(), caller, ttl)
        ready: asyncio.Future[clew.Turn] = asyncio.get_running_loop().create_future()
        turn = self._checkpointer.aturn(config, begin=begin, wait=wait, ttl=max(ttl, 5.0), holder=f"http:{caller.name}")
        self._open[opened.turn_id] = opened
        opened.task = asyncio.create_task(self._keep(opened, turn, ready))
        try:
            return opened.turn_id, await ready
        except asyncio.CancelledError:
            opened.task.cancel()
            raise

    async def do(self, caller: Caller, turn_id: str, work: Work) -> Any:
        """Let the turn's task do `work` and return its result. Raises Problem 404 if it is not this caller's."""
        opened = self._of(caller, turn_id)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        opened.work.put_nowait((work, answer))
        return await answer

    async def end(self, caller: Caller, turn_id: str) -> None:
        """End the turn without another save."""
        opened = self._of(caller, turn_id)
        opened.work.put_nowait(None)
        if opened.task is not None:
            await asyncio.wait([opened.task])

    async def close(self) -> None:
        """End all turns, when the server stops."""
        tasks = [opened.task for opened in self._open.values() if opened.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _of(self, caller: Caller, turn_id: str) -> OpenTurn:
        opened = self._open.get(turn_id)
        if opened is None or opened.caller != caller:
            raise not_found("the turn (it may have expired, or belong to another server process)")
        return opened

    async def _keep(self, opened: OpenTurn, turn: Any, ready: asyncio.Future[clew.Turn]) -> None:
        try:
            async with turn:
                _give(ready, turn)
                await self._work(opened, turn)
                # Leaving the block by an error saves nothing more.
                raise _Ended
        except _Ended:
            pass
        except clew.ClewError as error:
            _fail(ready, error)
        finally:
            self._open.pop(opened.turn_id, None)
            _fail(ready, asyncio.CancelledError())
            while not opened.work.empty():
                if (waiting := opened.work.get_nowait()) is not None:
                    _fail(waiting[1], not_found("the turn"))

    async def _work(self, opened: OpenTurn, turn: clew.Turn) -> None:
        while True:
            try:
                asked = await asyncio.wait_for(opened.work.get(), opened.ttl)
            except TimeoutError:
                return
            if asked is None:
                return
            work, answer = asked
            try:
                result = await work(turn)
            except (clew.ClewError, Problem) as error:
                _fail(answer, error)
            else:
                _give(answer, result)


class _Ended(Exception):
    """Leaves a turn's block without saving."""


def _give(answer: asyncio.Future[Any], result: Any) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[Any], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)

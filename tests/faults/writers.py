"""Writers that never stop while something goes wrong underneath, and remember what was acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import clew

SHARED = "shared"


class Writers:
    """Some writers with a thread each, which all write to one more: states, changes and messages."""

    def __init__(self, checkpointer: clew.BaseCheckpointer, count: int = 4) -> None:
        self._checkpointer = checkpointer
        self._stopped = False
        self._progress = asyncio.Condition()
        self.acknowledged = 0
        self.saved: dict[str, int] = {f"thread-{number}": 0 for number in range(count)}
        self.shared: list[str] = []

    async def run(self, chaos: Callable[[Writers], Awaitable[None]]) -> None:
        """Write until `chaos` is over; anything that a writer is told went wrong is raised."""
        async with asyncio.TaskGroup() as group:
            for name in self.saved:
                group.create_task(self._write(name))
            await chaos(self)
            self._stopped = True

    async def after(self, commits: int) -> None:
        """Return when so many more commits have been acknowledged."""
        goal = self.acknowledged + commits
        async with self._progress:
            await self._progress.wait_for(lambda: self.acknowledged >= goal)

    async def _write(self, name: str) -> None:
        while not self._stopped:
            number = self.saved[name] + 1
            await self._checkpointer.aput_checkpoint(
                name,
                {"n": number, "log": list(range(number))},
                messages=[{"message_id": f"m{number}", "role": "user", "content": f"turn {number}"}],
            )
            self.saved[name] = number
            await self._note()
            entry = f"{name}/{number}"
            await self._checkpointer.aupdate_state(SHARED, append={"log": [entry]})
            self.shared.append(entry)
            await self._note()

    async def _note(self) -> None:
        async with self._progress:
            self.acknowledged += 1
            self._progress.notify_all()

    async def check(self, checkpointer: clew.BaseCheckpointer) -> None:
        """Everything acknowledged is there, once and in order; nothing else is."""
        for name, number in self.saved.items():
            history: list[Any] = [each.state for each in await checkpointer.aget_history(name, limit=None)]
            assert history == [{"n": n, "log": list(range(n))} for n in range(number, 0, -1)]
            messages = await checkpointer.alist_messages(name, limit=None)
            assert [each.message_id for each in messages] == [f"m{n}" for n in range(1, number + 1)]
        log = (await checkpointer.aget_state(SHARED))["log"]
        assert sorted(log) == sorted(self.shared)
        for name, number in self.saved.items():
            mine = [entry for entry in log if entry.startswith(f"{name}/")]
            assert mine == [f"{name}/{n}" for n in range(1, number + 1)]
        assert len(await checkpointer.alist_checkpoints(SHARED, limit=None)) == len(self.shared)
        assert (await checkpointer.averify()).ok

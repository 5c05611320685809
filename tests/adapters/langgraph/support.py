"""What the tests of the LangGraph adapter share."""

from __future__ import annotations

import asyncio
from typing import Any

from clew.adapters.langgraph import ClewSaver


class SyncSaver(ClewSaver):
    """A saver whose async methods call the sync ones in a thread, so that whatever tests the first tests the others."""

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        return await self._inner(ClewSaver.put, *args, **kwargs)

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        await self._inner(ClewSaver.put_writes, *args, **kwargs)

    async def aget_tuple(self, *args: Any, **kwargs: Any) -> Any:
        return await self._inner(ClewSaver.get_tuple, *args, **kwargs)

    async def alist(self, *args: Any, **kwargs: Any) -> Any:
        for each in await self._inner(lambda saver, *a, **k: list(ClewSaver.list(saver, *a, **k)), *args, **kwargs):
            yield each

    async def adelete_thread(self, *args: Any, **kwargs: Any) -> None:
        await self._inner(ClewSaver.delete_thread, *args, **kwargs)

    async def adelete_for_runs(self, *args: Any, **kwargs: Any) -> None:
        await self._inner(ClewSaver.delete_for_runs, *args, **kwargs)

    async def acopy_thread(self, *args: Any, **kwargs: Any) -> None:
        await self._inner(ClewSaver.copy_thread, *args, **kwargs)

    async def aprune(self, *args: Any, **kwargs: Any) -> None:
        await self._inner(ClewSaver.prune, *args, **kwargs)

    async def _inner(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        # On a plain saver: there the sync methods run the async ones of ClewSaver itself, not these.
        plain = ClewSaver(self.checkpointer)
        plain._memory = self._memory
        return await asyncio.to_thread(method, plain, *args, **kwargs)

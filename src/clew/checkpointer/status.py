"""How the checkpointer is doing."""

from __future__ import annotations

import asyncio

from clew.checkpointer.blocking import blocking
from clew.checkpointer.core import Core
from clew.errors import ClewError
from clew.model.status import Status
from clew.storage.offload import inline
from clew.storage.wrapper import StorageWrapper

PATIENCE = 2.0
"""For how many seconds a store may keep `astatus` waiting before it counts as one that does not answer."""


class StatusMethods(Core):
    """Methods that tell how it is going."""

    async def astatus(self) -> Status:
        """Whether the stores answer and what goes on beside. A store that is down is told of, never raised, within seconds."""
        wrong = await self._problem()
        auto = self._auto_cleanup
        found = Status(primary_healthy=wrong is None, last_error=wrong, cleanup=auto.status if auto else None)
        storage = self._storage
        return await storage.status(found) if isinstance(storage, StorageWrapper) else found

    status = blocking(astatus)

    async def _problem(self) -> str | None:
        """What is wrong with the storage, if it does not answer."""
        try:
            if inline.get():
                # A storage that never suspends: there is no loop to keep time on, and no network to wait for.
                await self._storage.ping()
            else:
                await asyncio.wait_for(self._storage.ping(), PATIENCE)
        except TimeoutError:
            return f"no answer within {PATIENCE:g} seconds"
        except ClewError as error:
            return str(error) or type(error).__name__
        return None

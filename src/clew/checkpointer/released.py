"""The end of a checkpointer: after its release, every call says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from clew.errors import StorageError
from clew.storage.wrapper import Kind, StorageWrapper

_T = TypeVar("_T")


class ReleasedStorage(StorageWrapper):
    """The storage of a released checkpointer. Closing it again does nothing."""

    async def setup(self) -> None:
        raise released()

    async def close(self) -> None:
        """Do nothing."""

    async def _around(self, kind: Kind, operation: Callable[[], Awaitable[_T]]) -> _T:
        raise released()


def released() -> StorageError:
    return StorageError("this checkpointer was released; call clew.connect() again")

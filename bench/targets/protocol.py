"""The target protocol: a way to store conversations that every workload can drive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from bench.places import Ground, Place

State = Mapping[str, Any]


class Unsupported(Exception):
    """The target does not support this; the message says why."""


class PeerError(Exception):
    """A peer failed unexpectedly. It is reported, and the others are measured without it."""

    def __init__(self, target: str, what: str, error: Exception) -> None:
        super().__init__(f"{target} failed in {what}: {type(error).__name__}: {str(error).strip()[:200]}")
        self.target = target
        self.what = what


class Target(ABC):
    """A store of conversations. `save` gets the whole state and its new
    messages, and writes what it needs.

    `storages` are those that it runs on. `tasks` is the number of concurrent
    users, for targets with a pool.
    """

    name: ClassVar[str]
    storages: ClassVar[Sequence[str]]

    def __init__(self, place: Place, ground: Ground, *, tasks: int = 1) -> None:
        self.place = place
        self.ground = ground
        self.tasks = tasks

    @abstractmethod
    async def open(self) -> None:
        """Connect and set up the store."""

    @abstractmethod
    async def close(self) -> None:
        """Close the store."""

    def again(self) -> Self:
        """Return another unopened connection to the same store, as another process would have."""
        return type(self)(self.place, self.ground, tasks=self.tasks)

    @property
    @abstractmethod
    def engine(self) -> object:
        """The object that does the work. The results name its class."""

    @property
    def code(self) -> str:
        """The name of the code that is measured, taken from the object that does the work."""
        kind = type(self.engine)
        return f"{kind.__module__}.{kind.__qualname__}"

    def message(self, plain: dict[str, Any]) -> Any:
        """Return a message in this target's own type. Not timed."""
        return plain

    @abstractmethod
    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        """Save `state` durably as the thread's head; `new` are the messages
        or values that are new in it."""

    @abstractmethod
    async def load(self, thread: str) -> Any:
        """Return the state at the head, fully decoded."""

    async def list(self, thread: str, limit: int) -> int:
        """List the newest checkpoints of a thread, and return their number."""
        raise Unsupported("keeps no history that could be listed")

    async def compact(self) -> None:
        """Compact the store, if supported."""
        raise Unsupported("has no compaction")

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

"""What a target is: one way to keep conversations, driven alike by every workload."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from bench.places import Ground, Place

State = Mapping[str, Any]


class Unsupported(Exception):
    """A target can't do this, and says why."""


class PeerError(Exception):
    """A peer failed where it should not have. The others are measured without it, and it is reported."""

    def __init__(self, target: str, what: str, error: Exception) -> None:
        super().__init__(f"{target} failed in {what}: {type(error).__name__}: {str(error).strip()[:200]}")
        self.target = target
        self.what = what


class Target(ABC):
    """A store of conversations. `save` is told the whole state and what of it is new, and writes what it needs of them.

    `storages` are those that it runs on. `tasks` is how many will use it at once, for those that have a pool then.
    """

    name: ClassVar[str]
    storages: ClassVar[Sequence[str]]

    def __init__(self, place: Place, ground: Ground, *, tasks: int = 1) -> None:
        self.place = place
        self.ground = ground
        self.tasks = tasks

    @abstractmethod
    async def open(self) -> None:
        """Connect, and make the store ready."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of what was opened."""

    def again(self) -> Self:
        """Another connection to the same store, as another process would have; not opened yet."""
        return type(self)(self.place, self.ground, tasks=self.tasks)

    @property
    @abstractmethod
    def engine(self) -> object:
        """The object that does the work, of the class that the results name."""

    @property
    def code(self) -> str:
        """The name of the code that is measured, taken from the object that does the work."""
        kind = type(self.engine)
        return f"{kind.__module__}.{kind.__qualname__}"

    def message(self, plain: dict[str, Any]) -> Any:
        """A message as users of this target have it. Not timed."""
        return plain

    @abstractmethod
    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        """Make `state` the thread's head, durably; `new` are the messages, or other values, that it did not have before."""

    @abstractmethod
    async def load(self, thread: str) -> Any:
        """The state at the head, decoded in full."""

    async def list(self, thread: str, limit: int) -> int:
        """List the newest checkpoints of a thread; how many were listed."""
        raise Unsupported("keeps no history that could be listed")

    async def compact(self) -> None:
        """Tidy up, if there is a way to."""
        raise Unsupported("has no compaction")

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

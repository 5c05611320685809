"""Shared parts of the workloads: the run, and its open targets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from bench.figure import Figure
from bench.measure import Measure, Report
from bench.places import File, Ground, Place
from bench.targets import OWN, PeerError, Target, Unsupported

Size = Literal["tiny", "usual", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One workload on one storage, with its targets and size. `peers`: in a peer's environment."""

    storage: str
    size: Size
    ground: Ground
    report: Report
    targets: Sequence[type[Target]]
    peers: bool = False
    code: dict[str, str] = field(default_factory=dict)
    """The measured code of each target, set when it is opened."""
    left_out: list[tuple[str, str, str]] = field(default_factory=list)
    """Skipped calls: the target, the call and the reason."""

    def only(self, *names: str) -> list[type[Target]]:
        return [each for each in self.targets if each.name in names]

    def without(self, *names: str) -> list[type[Target]]:
        return [each for each in self.targets if each.name not in names]

    @asynccontextmanager
    async def opened(self, classes: Sequence[type[Target]], *, tasks: int = 1) -> AsyncIterator[list[Opened]]:
        """Open these targets, each with a new store."""
        async with AsyncExitStack() as stack:
            found = []
            for cls in classes:
                place = await self.ground.place(self.storage)
                self.report(f"opening {cls.name}")
                target = await stack.enter_async_context(_guarded(cls(place, self.ground, tasks=tasks)))
                self.code[target.name] = target.code
                found.append(Opened(target, place, await place.stored()))
            yield found

    async def try_to(self, target: Target, what: str, call: Callable[[], Any]) -> bool:
        """Whether `target` supports `call`. If not, that is recorded."""
        try:
            await call()
        except Unsupported as error:
            self.left_out.append((target.name, what, str(error)))
            return False
        return True


def _guarded(target: Target) -> Target:
    """Return `target`; the failures of a peer are raised as PeerError."""
    if target.name in OWN:
        return target
    for what in ("open", "save", "load", "list"):
        setattr(target, what, _guarded_call(target.name, what, getattr(target, what)))
    again = target.again
    target.again = lambda: _guarded(again())  # type: ignore[method-assign]
    return target


def _guarded_call(name: str, what: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def call(*args: Any) -> Any:
        try:
            return await method(*args)
        except (Unsupported, AssertionError):
            raise
        except Exception as error:
            raise PeerError(name, what, error) from error

    return call


@dataclass(frozen=True, slots=True)
class Opened:
    """An open target, its place, and the size of an empty store there."""

    target: Target
    place: Place
    empty: int | None

    async def grown(self) -> int | None:
        """Return the bytes stored since opening; for SQLite, the size of the whole
        file, which is what users see."""
        now = await self.place.stored()
        if isinstance(self.place, File):
            return now
        return None if now is None or self.empty is None else now - self.empty


Results = list[Measure | Figure]

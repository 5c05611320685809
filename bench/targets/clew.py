"""Clew, on each of its storages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any, ClassVar

import clew
from bench.goals import BEFORE
from bench.places import STORAGES
from bench.targets.protocol import State, Target
from clew.clock import SystemClock
from clew.model.commit import Applied, Commit
from clew.storage.wrapper import StorageWrapper


class Clew(Target):
    """`aput_state`: the whole state is encoded and compared each time."""

    name = "clew"
    storages = STORAGES
    package: ClassVar[Any] = clew

    async def open(self) -> None:
        self.checkpointer: clew.Checkpointer = self.package.connect(self.place.url, **self.options())
        await self.checkpointer.asetup()

    def options(self) -> dict[str, Any]:
        return {}

    async def close(self) -> None:
        await self.checkpointer.arelease()

    @property
    def engine(self) -> object:
        return self.checkpointer

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        await self.checkpointer.aput_state(thread, state)

    async def load(self, thread: str) -> Any:
        return await self.checkpointer.aget_state(thread)

    async def list(self, thread: str, limit: int) -> int:
        return len(await self.checkpointer.alist_checkpoints(thread, limit=limit))

    async def compact(self) -> None:
        await self.checkpointer.acompact()


class ClewUpdate(Clew):
    """`aupdate_state`: only the new messages."""

    name = "clew update"

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        await self.checkpointer.aupdate_state(thread, append={"messages": new})


class Weighing(StorageWrapper):
    """Sums the sizes of commits: bodies, values, digests."""

    sent = 0

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | clew.ClewError]:
        for commit in commits:
            if commit.checkpoint is not None:
                row = commit.values
                self.sent += len(commit.checkpoint.body) + (len(row.data) + len(row.digests) if row is not None else 0)
        return await super().apply(commits)


class WeighedClew(Clew):
    """Clew, with the sizes of its commits."""

    async def open(self) -> None:
        await super().open()
        self.weighing = Weighing(self.checkpointer._engine.storage)
        self.checkpointer._engine.storage = self.weighing


class PassingClock(SystemClock):
    """A clock that advances half a second per commit, as if the threads had been active over days."""

    def __init__(self) -> None:
        self._now = super().now()

    def now(self) -> datetime:
        self._now += timedelta(seconds=0.5)
        return self._now


class OwnedClew(Clew):
    """Clew with all threads of one user, active over days, and with searchable messages."""

    def options(self) -> dict[str, Any]:
        return {"clock": PassingClock()}

    def message(self, plain: dict[str, Any]) -> Any:
        return {"message_id": plain["id"], **{name: value for name, value in plain.items() if name != "id"}}

    def config(self, thread: str) -> dict[str, str]:
        return {"thread_id": thread, "user_id": "ana"}

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        await self.checkpointer.aput_checkpoint(self.config(thread), state, messages=new)

    async def load(self, thread: str) -> Any:
        return await self.checkpointer.aget_state(self.config(thread))

    async def list(self, thread: str, limit: int) -> int:
        return len(await self.checkpointer.alist_checkpoints(self.config(thread), limit=limit))

    async def newest(self, limit: int) -> int:
        return len(await self.checkpointer.alist_threads({"user_id": "ana"}, limit=limit))

    async def search(self, thread: str, text: str) -> int:
        return len(await self.checkpointer.alist_messages(self.config(thread), search=text))

    async def search_threads(self, text: str) -> int:
        return len(await self.checkpointer.alist_threads({"user_id": "ana"}, search=text))

    async def cleanup(self, thread: str) -> int:
        policy = clew.RetentionPolicy(max_history=2)
        return (await self.checkpointer.acleanup(policy, config=self.config(thread))).checkpoints


def versions(package: ModuleType) -> list[type[Target]]:
    """Return the targets of this version of Clew and of another one, `package`."""
    now: list[type[Target]] = [Clew, ClewUpdate]
    return now + [type(each.__name__, (each,), {"name": each.name + BEFORE, "package": package}) for each in now]


STATE = (Clew,)
UPDATE = (ClewUpdate,)

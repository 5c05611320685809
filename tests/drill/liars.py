"""Storages that each break one promise, which the drill must notice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

import clew
from clew.errors import ClewError
from clew.ids import new_id
from clew.model.commit import Applied, Commit, Removal
from clew.model.queries import CheckpointPage, CheckpointQuery
from clew.storage.protocol import Storage
from clew.storage.redis import RedisStorage
from clew.storage.wrapper import StorageWrapper

OFTEN = 25


class Liar(StorageWrapper):
    """Breaks its promise with every 25th commit that has a checkpoint."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._count = 0

    def _is_time(self, commit: Commit) -> bool:
        self._count += commit.checkpoint is not None
        return commit.checkpoint is not None and self._count % OFTEN == 0


class Forgetful(Liar):
    """Acknowledges a commit that it does not keep."""

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        outcomes = await super().apply(commits)
        for commit in commits:
            if self._is_time(commit):
                assert commit.checkpoint
                gone = Removal(
                    checkpoints=((commit.checkpoint.namespace, commit.checkpoint.checkpoint_id),),
                    messages=tuple(each.message_id for each in commit.messages),
                )
                await super().apply([_after(commit, remove=gone)])
        return outcomes


class Doubling(Liar):
    """Applies a commit again, under new ids."""

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        outcomes = await super().apply(commits)
        for commit in commits:
            if self._is_time(commit):
                assert commit.checkpoint
                again = replace(commit.checkpoint, checkpoint_id=new_id(), on_conflict="branch")
                await super().apply([_after(commit, checkpoint=again)])
        return outcomes


class Stale(Liar):
    """Sometimes answers from an old copy."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._old: dict[CheckpointQuery, CheckpointPage] = {}

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        self._count += 1
        if self._count % OFTEN and query in self._old:
            return self._old[query]
        page = self._old[query] = await super().checkpoints(query)
        return page


class Undead(Liar):
    """Acknowledges deletions that it does not make."""

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        outcomes: list[Applied | ClewError] = []
        for commit in commits:
            if commit.remove is not None and commit.remove.thread:
                outcomes.append(Applied(sequence=1, basis=None))
            else:
                outcomes += await super().apply([commit])
        return outcomes


class Reviving(Liar):
    """Accepts a late writer's commit to a deleted thread, as if the thread were new."""

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        return await super().apply([_without_basis(each) for each in commits])


def _without_basis(commit: Commit) -> Commit:
    return commit if commit.checkpoint is not None else replace(commit, basis=None)


def _after(commit: Commit, **parts: Any) -> Commit:
    return Commit(commit_id=new_id(), thread_id=commit.thread_id, user=commit.user, at=commit.at, **parts)


def forgetful_redis(url: str) -> clew.BaseCheckpointer:
    """Open a forgetful Redis, for a writer process."""
    return clew.BaseCheckpointer(Forgetful(RedisStorage(url)), retry_for=60)

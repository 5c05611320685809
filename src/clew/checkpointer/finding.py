"""Finding checkpoints of a thread, page by page: what a storage can't tell apart by its indexes is told apart here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from clew.checkpointer.core import checked_limit
from clew.checkpointer.later import Later
from clew.checkpointer.records import checkpoint_info
from clew.codec.rows import OpenRows
from clew.errors import ConfigError, shown
from clew.model.checkpoint import CheckpointInfo
from clew.model.config import Address, checked_text
from clew.model.queries import CheckpointQuery, Detail
from clew.model.records import CheckpointRecord

Namespaces = Literal["own", "all"]

PAGE = 100
"""How many checkpoints are read at a time when not all of them may be wanted."""


class Wanted(Struct, frozen=True, kw_only=True):
    """Which checkpoints of a thread are asked for."""

    limit: int | None = None
    before: str | None = None
    run_id: str | None = None
    where: Mapping[str, Any] | None = None
    namespaces: Namespaces = "own"

    def __post_init__(self) -> None:
        checked_limit(self.limit)
        for name, text in (("before", self.before), ("run_id", self.run_id)):
            if text is not None:
                checked_text(name, text)
        if self.where is not None and not isinstance(self.where, Mapping):
            raise ConfigError(f"where must be a mapping of metadata, not {type(self.where).__name__}")
        if self.namespaces not in ("own", "all"):
            raise ConfigError(f'namespaces must be "own" or "all", not {shown(self.namespaces)}')

    def matches(self, info: CheckpointInfo) -> bool:
        return all(info.metadata.get(name) == value for name, value in (self.where or {}).items())


class Found(Struct, frozen=True):
    """Checkpoints that match, newest first, and the values that their states need (if they were asked for)."""

    found: list[tuple[CheckpointInfo, CheckpointRecord]]
    rows: OpenRows


class Finding(Later):
    """Reads the checkpoints that match, and no more of them than are wanted."""

    async def _matching(self, address: Address, wanted: Wanted, *, detail: Detail) -> AsyncIterator[Found]:
        """The checkpoints of the thread that are `wanted`, newest first."""
        left = wanted.limit
        # From page to page by number: an id may be another one's in another namespace.
        before: str | None = wanted.before
        before_sequence: int | None = None
        while left is None or left > 0:
            size = PAGE if wanted.where else left
            query = CheckpointQuery(
                thread_id=address.thread_id,
                user=address.user,
                namespace=None if wanted.namespaces == "all" else address.namespace,
                before=before,
                before_sequence=before_sequence,
                run_id=wanted.run_id,
                limit=size,
                detail=detail,
            )
            page = await self._ask_for(address, query)
            infos = [checkpoint_info(self._codec, address.thread_id, record) for record in page.checkpoints]
            found = [pair for pair in zip(infos, page.checkpoints, strict=True) if wanted.matches(pair[0])][:left]
            yield Found(found, OpenRows(page.rows))
            if size is None or len(infos) < size:
                return
            left = None if left is None else left - len(found)
            before, before_sequence = None, page.checkpoints[-1].sequence

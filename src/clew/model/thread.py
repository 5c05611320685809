"""Threads as users see them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

from clew.errors import ConfigError
from clew.model.checkpoint import CheckpointInfo
from clew.model.dict_record import DictRecord
from clew.model.retention import RetentionPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInfo(DictRecord):
    """A conversation: its owner, name and tags. `head` and counts are ignored when written.

    `retention` is the thread's own policy (`aput_retention`). After `ttl` seconds without a write, the
    thread has expired, and the next cleanup removes it. When a ThreadInfo is written, fields with their
    default value change nothing.
    """

    thread_id: str
    user_id: str | int | None = None
    thread_name: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    run_id: str | None = None
    forked_from: Mapping[str, str] | None = None
    head: CheckpointInfo | None = None
    checkpoint_count: int = 0
    message_count: int = 0
    size: int = 0
    retention: RetentionPolicy | None = None
    ttl: float | None = None

    @property
    def position(self) -> str:
        """The thread's place in the list of threads, for `alist_threads(before=…)`."""
        if self.updated_at is None:
            raise ConfigError(f"thread {self.thread_id!r} has no place in a list: it was not read from a store")
        return f"{self.updated_at.isoformat()} {self.thread_id}"

    @property
    def expires_at(self) -> datetime | None:
        """When the thread expires by its own `ttl` if nothing is written to it until then."""
        if self.ttl is None or self.updated_at is None:
            return None
        try:
            return self.updated_at + timedelta(seconds=self.ttl)
        except OverflowError:
            return None

    _nested: ClassVar[Mapping[str, type[DictRecord]]] = {"head": CheckpointInfo, "retention": RetentionPolicy}
    _times: ClassVar[frozenset[str]] = frozenset({"created_at", "updated_at"})
    _tuples: ClassVar[frozenset[str]] = frozenset({"tags"})
    _given: ClassVar[frozenset[str]] = frozenset({"metadata", "forked_from"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPart:
    """The part of a thread that `acopy_thread(…, choose=…)` copies. Checkpoints are pairs of namespace and id.

    `attachments` names the checkpoints whose attachments are copied. `messages` holds message ids.
    """

    checkpoints: Collection[tuple[str, str]]
    attachments: Collection[tuple[str, str]]
    messages: Collection[str]

"""Threads as users see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from clew.model.checkpoint import CheckpointInfo
from clew.model.plain import Plain
from clew.model.retention import RetentionPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInfo(Plain):
    """A conversation: its owner, its name, its tags. `head` and the counts are there when read, ignored when written.

    `retention` is the thread's own policy (`aput_retention`). Described without one, a thread keeps the one that it has.
    """

    thread_id: str
    user_id: str | None = None
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

    _nested: ClassVar[Mapping[str, type[Plain]]] = {"head": CheckpointInfo, "retention": RetentionPolicy}
    _times: ClassVar[frozenset[str]] = frozenset({"created_at", "updated_at"})
    _tuples: ClassVar[frozenset[str]] = frozenset({"tags"})

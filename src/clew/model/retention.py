"""Retention: how much of a thread's history cleanup keeps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from clew.errors import ConfigError, shown
from clew.model.dict_record import DictRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy(DictRecord):
    """The checkpoints that cleanup removes. Heads, messages and threads are always kept.

    `max_age` removes checkpoints older than this. `max_history` keeps this many of the newest in each
    namespace. `max_bytes` removes the oldest of a thread until the thread's size (`ThreadInfo.size`,
    messages included) is at most this. A checkpoint is removed if any of these rules says so.

    `keep_every` keeps at least every n-th checkpoint of a namespace: the first at or after each multiple
    of n in the sequence numbers, so that repeated cleanups keep the same ones. Sequence numbers count all
    commits of a thread. If messages, attachments or other namespaces are saved in between, more
    checkpoints than every n-th are kept, never fewer.
    """

    max_age: timedelta | None = None
    max_history: int | None = None
    keep_every: int | None = None
    max_bytes: int | None = None

    _durations: ClassVar[frozenset[str]] = frozenset({"max_age"})

    def __post_init__(self) -> None:
        for name, kind in (("max_age", timedelta), ("max_history", int), ("keep_every", int), ("max_bytes", int)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                raise ConfigError(f"{name} must be a {kind.__name__}, not {type(value).__name__}: {shown(value)}")
        if self.max_age is None and self.max_history is None and self.max_bytes is None:
            raise ConfigError(
                "a RetentionPolicy needs max_age, max_history or max_bytes; without them it would keep everything"
            )
        if self.max_history is not None and self.max_history < 1:
            raise ConfigError("max_history must be at least 1: the head is always kept")
        if self.keep_every is not None and self.keep_every < 1:
            raise ConfigError("keep_every must be at least 1")
        if self.max_age is not None and self.max_age < timedelta(0):
            raise ConfigError("max_age can't be negative")
        if self.max_bytes is not None and self.max_bytes < 0:
            raise ConfigError("max_bytes can't be negative")

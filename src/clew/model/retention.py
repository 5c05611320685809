"""Retention: how much of a thread's history cleanup keeps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Final

from clew.errors import ConfigError, shown
from clew.model.dict_record import DictRecord

LONGEST_TTL: Final = 36_525 * 86_400
"""The longest time to live of threads and messages, in seconds: a hundred years."""
_RULES: Final = (
    ("max_age", timedelta),
    ("max_history", int),
    ("keep_every", int),
    ("max_bytes", int),
    ("thread_ttl", timedelta),
    ("message_ttl", timedelta),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy(DictRecord):
    """The rules of a cleanup. Heads are kept; messages and threads, too, unless they have a time to live.

    `max_age` removes checkpoints older than this. `max_history` keeps this many of the newest in each
    namespace. `max_bytes` removes the oldest of a thread until the thread's size (`ThreadInfo.size`,
    messages included) is at most this. A checkpoint is removed if any of these rules says so.

    `keep_every` keeps at least every n-th checkpoint of a namespace: the first at or after each multiple
    of n in the sequence numbers, so that repeated cleanups keep the same ones. Sequence numbers count all
    commits of a thread. If messages, attachments or other namespaces are saved in between, more
    checkpoints than every n-th are kept, never fewer.

    `thread_ttl` removes threads with everything in them if nothing was written to them for longer. A
    thread's own `ttl` takes precedence. `message_ttl` removes messages older than this.
    """

    max_age: timedelta | None = None
    max_history: int | None = None
    keep_every: int | None = None
    max_bytes: int | None = None
    thread_ttl: timedelta | None = None
    message_ttl: timedelta | None = None

    _durations: ClassVar[frozenset[str]] = frozenset({"max_age", "thread_ttl", "message_ttl"})

    def __post_init__(self) -> None:
        for name, kind in _RULES:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                raise ConfigError(f"{name} must be a {kind.__name__}, not {type(value).__name__}: {shown(value)}")
        if all(getattr(self, name) is None for name, _ in _RULES if name != "keep_every"):
            raise ConfigError(
                "a RetentionPolicy needs max_age, max_history, max_bytes, thread_ttl or message_ttl; "
                "without them it would keep everything. To apply only the threads' own rules (ttl, put_retention), "
                "leave the policy out: cleanup()"
            )
        for name in ("thread_ttl", "message_ttl"):
            ttl = getattr(self, name)
            if ttl is not None and not timedelta(0) < ttl <= timedelta(seconds=LONGEST_TTL):
                raise ConfigError(f"{name} must be greater than zero, and at most a hundred years")
        if self.max_history is not None and self.max_history < 1:
            raise ConfigError("max_history must be at least 1: the head is always kept")
        if self.keep_every is not None and self.keep_every < 1:
            raise ConfigError("keep_every must be at least 1")
        if self.max_age is not None and self.max_age < timedelta(0):
            raise ConfigError("max_age can't be negative")
        if self.max_bytes is not None and self.max_bytes < 0:
            raise ConfigError("max_bytes can't be negative")

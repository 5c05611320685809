"""Watching: events of a thread, or of all threads of a user, as they happen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from clew.checkpointer.engine import Engine
from clew.checkpointer.feed import Scope
from clew.checkpointer.runner import Runner
from clew.checkpointer.users import Users
from clew.checkpointer.watch import Watch, Watchers
from clew.errors import ConfigError, shown
from clew.model.config import Config
from clew.model.event import Event
from clew.validation import checked_number

_LONGEST_POSITION: Final = 65_536


class SyncWatch:
    """The events of a watch, for sync code: `for event in checkpointer.watch(…)`.

    `with` begins the watch at once, and not with the first event. `close` ends it, also from another
    thread.
    """

    def __init__(self, watch: Watch, runner: Runner) -> None:
        self._watch = watch
        self._runner = runner

    @property
    def position(self) -> str | None:
        """The position to resume from: after the last event, or later if nothing has happened."""
        return self._watch.position

    def __enter__(self) -> Self:
        self._runner.run(self._watch.__aenter__(), "watch")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = self._runner.run(self._watch.next_event(), "watch")
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        """End the watch. Idempotent."""
        self._runner.run(self._watch.aclose(), "watch")


class WatchMethods:
    """Methods to watch threads."""

    _runner: Runner
    _engine: Engine
    _watchers: Watchers

    def awatch(self, config: Config | str, *, since: str | None = None, timeout: float | None = None) -> Watch:
        """Watch the config's thread, or all threads of its `user_id` if it names no thread.

            async for event in checkpointer.awatch({"user_id": "ana"}):
                print(event.kind, event.thread_id)

        Events come in each thread's order, whichever process wrote: see `clew.Event`. `since` is the
        position of the last event that was seen; without it, the watch begins now. `timeout` ends it
        after that many seconds without an event. A config with `clew.ANY_USER` watches all threads.
        """
        return Watch(
            self._watchers, self._engine, _scope(config, self._engine.users), _checked(since), _seconds(timeout)
        )

    def watch(self, config: Config | str, *, since: str | None = None, timeout: float | None = None) -> SyncWatch:
        """Watch the config's thread, or all threads of its `user_id`, with an iterator that blocks until the next event.

        `since` is the position of the last event that was seen; without it, the watch begins now. It ends
        after `timeout` seconds without an event, or when it is closed. A config with `clew.ANY_USER`
        watches all threads.

        Sync twin of `awatch`.
        """
        return SyncWatch(self.awatch(config, since=since, timeout=timeout), self._runner)


def _scope(config: Config | str, users: Users) -> Scope:
    if isinstance(config, Mapping) and config.get("thread_id") is None and config.get("session_id") is None:
        user = users.in_config(config)
        if "user_id" not in config:
            raise ConfigError(
                "watching needs a config with a 'thread_id' or a 'user_id'; clew.ANY_USER watches all threads"
            )
        return Scope(None, user)
    address = users.address(config)
    return Scope(address.thread_id, address.user)


def _checked(since: str | None) -> str | None:
    if since is not None and not isinstance(since, str):
        raise ConfigError(f"since must be the position of an event, not {type(since).__name__}: {shown(since)}")
    if since is not None and len(since) > _LONGEST_POSITION:
        raise ConfigError(f"since is not the position of an event: it has {len(since)} characters")
    return since


def _seconds(timeout: float | None) -> float | None:
    return None if timeout is None else float(checked_number("timeout", timeout, "number of seconds", at_least=0))

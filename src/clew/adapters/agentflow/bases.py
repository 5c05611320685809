"""Bases of saves: the checkpoint that a run, or a caller that read first, started from.

Agentflow passes one config to all calls of a run. So the config carries the base, as with
Agentflow's own PostgreSQL checkpointer.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final, NamedTuple

from clew.adapters.agentflow.addresses import Thread
from clew.errors import ConflictError, ThreadDeletedError
from clew.ids import new_id

KEY: Final = "_clew_base"


class Base(NamedTuple):
    """The parent of a config's next save; `None` if the thread had no checkpoint."""

    checkpoint_id: str | None


class _Carried(NamedTuple):
    """A base as a config carries it, with its checkpointer and thread: callers reuse configs for other ones."""

    owner: str
    thread: Thread
    base: Base | None
    is_run: bool
    begins: bool


class Bases:
    """The bases that one checkpointer puts into configs."""

    def __init__(self) -> None:
        self._owner = new_id()

    def of(self, config: MutableMapping[str, Any], thread: Thread) -> Base | None:
        """Return the base of the config's next save; `None` if nothing was read with it."""
        return self._carried(config, thread).base

    def is_running(self, config: MutableMapping[str, Any], thread: Thread) -> bool:
        """Return whether the config belongs to a run that has read its state."""
        carried = self._carried(config, thread)
        return carried.is_run and not carried.begins

    def begin(self, config: MutableMapping[str, Any], thread: Thread) -> None:
        """Let the next read of a run set its base. An existing base stays valid until then."""
        config[KEY] = self._carried(config, thread)._replace(is_run=True, begins=True)

    def read(self, config: MutableMapping[str, Any], thread: Thread, checkpoint_id: str | None) -> None:
        """Set the base after a read.

        A run keeps its first base: later reads only check for a stop request.
        """
        carried = self._carried(config, thread)
        if not carried.is_run or carried.begins:
            config[KEY] = carried._replace(base=Base(checkpoint_id), begins=False)

    def saved(self, config: MutableMapping[str, Any], thread: Thread, checkpoint_id: str) -> None:
        """Set the base to the checkpoint that was saved with the config."""
        config[KEY] = self._carried(config, thread)._replace(base=Base(checkpoint_id), begins=False)

    def forget(self, config: MutableMapping[str, Any], thread: Thread) -> None:
        """Drop the base after a removal.

        A run keeps its base, so that it can't restore what was removed.
        """
        if not self._carried(config, thread).is_run:
            config.pop(KEY, None)

    def _carried(self, config: MutableMapping[str, Any], thread: Thread) -> _Carried:
        found = config.get(KEY)
        if isinstance(found, _Carried) and (found.owner, found.thread) == (self._owner, thread):
            return found
        return _Carried(self._owner, thread, base=None, is_run=False, begins=False)


def gone(config: dict[str, Any]) -> ThreadDeletedError:
    """Return the error for a run (or a caller that read first) whose thread was deleted after the read."""
    thread_id, run_id = config.get("thread_id"), config.get("run_id")
    when, how = "after it was read", "read it again"
    if run_id is not None:
        when, how = f"during run {run_id!r}", "start another run"
    message = f"thread {thread_id!r} was deleted or cleared {when}; to create it again, {how}"
    return ThreadDeletedError(message, thread_id=thread_id, run_id=run_id)


def stale(config: dict[str, Any], base: Base | None, error: ConflictError) -> ConflictError:
    """Return the error for a save that another run has overtaken."""
    actual = error.facts.get("actual")
    if actual is None and base is not None and base.checkpoint_id is not None:
        return gone(config)
    thread_id = config.get("thread_id")
    return ConflictError(
        f"thread {thread_id!r} was saved by another run after this one read it; read it again and start another run "
        f'(ClewCheckpointer(…, on_conflict="branch") keeps both)',
        thread_id=thread_id,
        expected=base.checkpoint_id if base is not None else None,
        actual=actual,
    )

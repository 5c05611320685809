"""Bases of saves: the checkpoint that a run, or a caller that read first, started from.

Agentflow gives each run a config of its own and passes it to every call of the run. So the config carries the base, as
it does for Agentflow's own PostgreSQL checkpointer.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final, NamedTuple

from clew.adapters.agentflow.addresses import Thread
from clew.errors import ConflictError, ThreadDeletedError
from clew.ids import new_id

KEY: Final = "_clew_base"


class Base(NamedTuple):
    """The checkpoint that a config's saves go on from; `None` if the thread had none."""

    checkpoint_id: str | None


class _Carried(NamedTuple):
    """The value in a config. A config may be used again for another thread or another checkpointer: it says whose it is."""

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
        """The base of the config's next save; `None` if nothing was read with it."""
        return self._carried(config, thread).base

    def is_running(self, config: MutableMapping[str, Any], thread: Thread) -> bool:
        """Whether the config is a run's that has read its state."""
        carried = self._carried(config, thread)
        return carried.is_run and not carried.begins

    def begin(self, config: MutableMapping[str, Any], thread: Thread) -> None:
        """Let the next read of a run set its base. A base that is there stays valid until then."""
        config[KEY] = self._carried(config, thread)._replace(is_run=True, begins=True)

    def read(self, config: MutableMapping[str, Any], thread: Thread, checkpoint_id: str | None) -> None:
        """Set the base after a read. A run keeps its first one: it reads again only to see if it should stop."""
        carried = self._carried(config, thread)
        if not carried.is_run or carried.begins:
            config[KEY] = carried._replace(base=Base(checkpoint_id), begins=False)

    def saved(self, config: MutableMapping[str, Any], thread: Thread, checkpoint_id: str) -> None:
        """Go on from the checkpoint that was saved with the config."""
        config[KEY] = self._carried(config, thread)._replace(base=Base(checkpoint_id), begins=False)

    def forget(self, config: MutableMapping[str, Any], thread: Thread) -> None:
        """Start from nothing, after a removal. A run keeps its base, so that it does not bring back what was removed."""
        if not self._carried(config, thread).is_run:
            config.pop(KEY, None)

    def _carried(self, config: MutableMapping[str, Any], thread: Thread) -> _Carried:
        found = config.get(KEY)
        if isinstance(found, _Carried) and (found.owner, found.thread) == (self._owner, thread):
            return found
        return _Carried(self._owner, thread, base=None, is_run=False, begins=False)


def gone(config: dict[str, Any]) -> ThreadDeletedError:
    """The error for a run, or a caller that read first, whose thread has no state any more."""
    thread_id, run_id = config.get("thread_id"), config.get("run_id")
    when, how = "after it was read", "read it again"
    if run_id is not None:
        when, how = f"during run {run_id!r}", "start another run"
    message = f"thread {thread_id!r} was deleted or cleared {when}; to begin it anew, {how}"
    return ThreadDeletedError(message, thread_id=thread_id, run_id=run_id)


def stale(config: dict[str, Any], base: Base | None, error: ConflictError) -> ConflictError:
    """The error for a run that another one came before."""
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

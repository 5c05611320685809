"""The config of a call, for type checkers and editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from clew.model.config import AnyUser


class Config(TypedDict, total=False):
    """Names a thread, its owner and a checkpoint. Only `thread_id` is required.

    A literal with this annotation is checked by type checkers: `config: clew.Config = {"thread_id": "t"}`.
    """

    thread_id: str | int
    """The thread. A number is stored as text."""
    session_id: str | int
    """Another name for `thread_id`."""
    user_id: str | int | AnyUser | None
    """The owner. A thread with an owner is visible to that owner only. `clew.ANY_USER` acts for all users."""
    run_id: str | None
    """The run that saves. It is stored with what it saves."""
    checkpoint_id: str | None
    """The checkpoint to load, or the one that a save starts from. Without it, the newest one: the head."""
    checkpoint_ns: str | None
    """A separate line of checkpoints inside the thread, for a sub-agent."""

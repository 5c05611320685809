"""The config of a call, for type checkers and editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from clew.model.config import AnyUser


class Config(TypedDict, total=False):
    """Names a thread, its owner and a checkpoint. Only `thread_id` is required (or `session_id`, its other name).

    A literal with this annotation is checked by type checkers: `config: clew.Config = {"thread_id": "t"}`.
    """

    thread_id: str | int
    session_id: str | int
    user_id: str | int | AnyUser | None
    run_id: str | None
    checkpoint_id: str | None
    checkpoint_ns: str | None

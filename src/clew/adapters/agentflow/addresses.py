"""Translation of Agentflow's configs to Clew's."""

from __future__ import annotations

from typing import Any

from clew.adapters.agentflow.framework import DEFAULT_ANONYMOUS_USER_ID

Thread = tuple[str, str]
"""A thread id and a user id."""


def address_of(config: dict[str, Any]) -> dict[str, Any]:
    """Return Clew's config for Agentflow's, where ids may be numbers."""
    thread_id, run_id = config.get("thread_id"), config.get("run_id")
    return {
        "thread_id": str(thread_id) if isinstance(thread_id, int) else thread_id,
        "user_id": user_of(config),
        "run_id": None if run_id is None else str(run_id),
    }


def user_of(config: dict[str, Any]) -> Any:
    """Return the config's user, or the anonymous user: Clew's threads without an owner are open to all."""
    user_id = config.get("user_id")
    return DEFAULT_ANONYMOUS_USER_ID if user_id is None else user_id


def key_of(config: dict[str, Any]) -> Thread:
    """Return the thread and its user, as texts."""
    address = address_of(config)
    return str(address["thread_id"]), str(address["user_id"])

"""Addresses of threads: what an Agentflow config names in Clew."""

from __future__ import annotations

from typing import Any

from clew.adapters.agentflow.cache import OWNER as CACHE
from clew.adapters.agentflow.framework import DEFAULT_ANONYMOUS_USER_ID
from clew.errors import ConfigError

Thread = tuple[str, str]
"""A thread's id and its user's."""


def address_of(config: dict[str, Any]) -> dict[str, Any]:
    """Agentflow's config as Clew's: ids may be numbers there, and it holds much else.

    Raises ConfigError for the threads of the cache: whoever has one could read and stop everybody's runs.
    """
    thread_id, run_id = config.get("thread_id"), config.get("run_id")
    if isinstance(thread_id, str) and thread_id.startswith(f"{CACHE}/"):
        raise ConfigError(
            f"thread ids that begin with {CACHE + '/'!r} are reserved; take another one, not {thread_id!r}"
        )
    return {
        "thread_id": str(thread_id) if isinstance(thread_id, int) else thread_id,
        "user_id": user_of(config),
        "run_id": None if run_id is None else str(run_id),
    }


def user_of(config: dict[str, Any]) -> Any:
    """The config's user. `None` is the anonymous one as well: in Clew, a thread of nobody is open to everybody."""
    user_id = config.get("user_id")
    if user_id == CACHE:
        raise ConfigError(f"the user id {CACHE!r} is reserved; take another one")
    return DEFAULT_ANONYMOUS_USER_ID if user_id is None else user_id


def key_of(config: dict[str, Any]) -> Thread:
    """The thread and its user, as texts."""
    address = address_of(config)
    return str(address["thread_id"]), str(address["user_id"])

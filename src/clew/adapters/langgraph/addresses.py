"""Between LangGraph's configs and Clew's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from langchain_core.runnables import RunnableConfig

from clew.model.config import ANY_USER

_HEX: Final = re.compile(r"[0-9a-fA-F-]+")
_SPELLED: Final = "c1e4c1e4-"
"""Begins the spelling of an id that is not hexadecimal: of a thread that was forked, or begun without LangGraph."""


def outer_id(checkpoint_id: str) -> str:
    """The id for LangGraph, which computes with its hexadecimal digits."""
    if _HEX.fullmatch(checkpoint_id) and len(checkpoint_id.replace("-", "")) % 2 == 0:
        return checkpoint_id
    return _SPELLED + checkpoint_id.encode().hex()


def inner_id(checkpoint_id: str) -> str:
    """The id as it is stored."""
    if not checkpoint_id.startswith(_SPELLED):
        return checkpoint_id
    return bytes.fromhex(checkpoint_id.removeprefix(_SPELLED)).decode()


def clew_config(config: RunnableConfig, **more: Any) -> dict[str, Any]:
    """Clew's config for what LangGraph's names; `user_id` is the owner, and a number or a UUID stands for its text."""
    given: Mapping[str, Any] = config.get("configurable", {})
    checkpoint_id, user_id = given.get("checkpoint_id"), given.get("user_id")
    return {
        "thread_id": str(given["thread_id"]),
        "user_id": None if user_id is None else str(user_id),
        "checkpoint_id": inner_id(checkpoint_id) if checkpoint_id else None,
        "checkpoint_ns": given.get("checkpoint_ns") or "",
        **more,
    }


def of_everybody(thread_id: str) -> dict[str, Any]:
    """Clew's config for what LangGraph says without a config: it acts for everybody."""
    return {"thread_id": str(thread_id), "user_id": ANY_USER}


def runnable_config(thread_id: str, namespace: str, checkpoint_id: str, **more: Any) -> RunnableConfig:
    """LangGraph's config of a checkpoint."""
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": outer_id(checkpoint_id),
            **more,
        }
    }

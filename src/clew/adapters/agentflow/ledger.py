"""Ledger of tool results: where they are stored in the thread, and in which form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clew.adapters.agentflow.framework import AgentState, Message
from clew.adapters.agentflow.models import plain
from clew.checkpointer.base import BaseCheckpointer
from clew.errors import ConflictError, LeaseError, ThreadDeletedError

NAMESPACE: Final = "agentflow.tools"
_KIND: Final = "__agentflow__"


def namespace(tool_call_id: str) -> dict[str, str]:
    """Return the namespace of a call's result, as part of a config.

    Calls of the same message share a namespace, so that looking up a result reads little. Results
    belong to the thread: they have its owner and are deleted with it.
    """
    message_id = tool_call_id.rpartition(":")[0]
    return {"checkpoint_ns": f"{NAMESPACE}/{message_id}"}


async def add(store: BaseCheckpointer, place: dict[str, Any], entry: Mapping[str, Any]) -> None:
    """Record `entry` (one call and its result) at `place`, unless the call has a result there.

    Raises ThreadDeletedError if the thread was deleted meanwhile.
    """
    try:
        # Usually this is the first result of its message. Reading first would accept a deleted
        # thread as a new one.
        await store.aput_checkpoint(place, dict(entry), parent=None, on_conflict="reject")
        return
    except (ThreadDeletedError, LeaseError):
        raise
    except ConflictError:
        pass
    while True:
        head = await store.aget_checkpoint(place)
        if head is None:
            message = f"thread {place['thread_id']!r} was deleted while a tool result was recorded"
            raise ThreadDeletedError(message, thread_id=place["thread_id"])
        if entry.keys() <= head.state.keys():
            return
        try:
            await store.aupdate_state(place | {"checkpoint_id": head.checkpoint_id}, set=entry, on_conflict="reject")
            return
        except (ThreadDeletedError, LeaseError):
            raise
        except ConflictError:
            # Another tool result was recorded first.
            continue


def packed(value: Any) -> Any:
    """Convert the models in `value` to plain data.

    A tool that changes the state returns the state and a message.
    """
    if isinstance(value, AgentState):
        # On replay, the run has its own values of these.
        own = {"context", "context_summary", "execution_meta"}
        return {_KIND: "state", "value": plain(value, exclude=own)}
    if isinstance(value, Message):
        return {_KIND: "message", "value": plain(value)}
    if isinstance(value, dict):
        return {name: packed(each) for name, each in value.items()}
    return [packed(each) for each in value] if isinstance(value, list) else value


def unpacked(value: Any, state_type: type[AgentState]) -> Any:
    """Return the value that `packed` converted."""
    if isinstance(value, dict):
        if _KIND in value:
            model = Message if value[_KIND] == "message" else state_type
            return model.model_validate(value["value"])
        return {name: unpacked(each, state_type) for name, each in value.items()}
    return [unpacked(each, state_type) for each in value] if isinstance(value, list) else value

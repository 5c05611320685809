"""Results of tools: in which namespace of the thread they are, and what they look like there."""

from __future__ import annotations

from typing import Any, Final

from clew.adapters.agentflow.framework import AgentState, Message
from clew.adapters.agentflow.plain import plain

NAMESPACE: Final = "agentflow.tools"
_KIND: Final = "__agentflow__"


def namespace(tool_call_id: str) -> dict[str, str]:
    """The part of a config that names where a call's result is: with those of the same message.

    So few are together, and looking one up reads little. They belong to the thread: its user, its end.
    """
    message_id = tool_call_id.rpartition(":")[0]
    return {"checkpoint_ns": f"{NAMESPACE}/{message_id}"}


def packed(value: Any) -> Any:
    """`value` with the models in it as plain data: a tool that changes the state gives the state and a message."""
    if isinstance(value, AgentState):
        # When it is played back, these are the run's own.
        own = {"context", "context_summary", "execution_meta"}
        return {_KIND: "state", "value": plain(value, exclude=own)}
    if isinstance(value, Message):
        return {_KIND: "message", "value": plain(value)}
    if isinstance(value, dict):
        return {name: packed(each) for name, each in value.items()}
    return [packed(each) for each in value] if isinstance(value, list) else value


def unpacked(value: Any, state_type: type[AgentState]) -> Any:
    """What `packed` was given."""
    if isinstance(value, dict):
        if _KIND in value:
            model = Message if value[_KIND] == "message" else state_type
            return model.model_validate(value["value"])
        return {name: unpacked(each, state_type) for name, each in value.items()}
    return [unpacked(each, state_type) for each in value] if isinstance(value, list) else value

"""llmfy's metadata of checkpoints, of both its generations, to Clew's and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from llmfy.flow_engine.checkpointer.base_checkpointer import CheckpointMetadata as TheirMetadata

from clew.model.checkpoint import CheckpointMetadata

LLMFY: Final = "llmfy"
"""In a checkpoint's metadata: what llmfy said of it, field by field, as it said it."""

_OTHER_NAMES: Final = {"node": "node_name", "node_name": "node", "created_at": "timestamp", "timestamp": "created_at"}
"""What 0.11 calls a field, 0.9 calls by another name."""


def told_by(metadata: Any) -> dict[str, Any]:
    """All that llmfy's `metadata` says, of whichever generation it is, but for the ids of checkpoint and session."""
    return {
        each.name: getattr(metadata, each.name)
        for each in fields(metadata)
        if each.name not in ("checkpoint_id", "session_id")
    }


def field_of(told: Mapping[str, Any], name: str) -> Any:
    """A field by either generation's name; `None` if there is none."""
    return told.get(name, told.get(_OTHER_NAMES.get(name, name)))


def their_metadata(metadata: CheckpointMetadata) -> TheirMetadata:
    """What the installed llmfy calls metadata, also of a checkpoint that another generation, or not llmfy at all, has saved."""
    told = metadata.metadata.get(LLMFY, {})
    found: dict[str, Any] = {}
    for each in fields(TheirMetadata):
        value = field_of(told, each.name)
        found[each.name] = _known_to_clew(metadata, each.name) if value is None else value
    return TheirMetadata(**found)


def _known_to_clew(metadata: CheckpointMetadata, name: str) -> Any:
    match name:
        case "checkpoint_id":
            return metadata.checkpoint_id
        case "session_id":
            return metadata.thread_id
        case "created_at" | "timestamp":
            return metadata.timestamp
        case "node" | "node_name":
            return metadata.node_name or ""
        case "run_id":
            return metadata.run_id or ""
        case "step":
            return metadata.step or 0
        case "prev_node":
            return "__start__"
        case "updated_fields":
            return []
    return None

"""Conversion of checkpoint metadata between Clew and both generations of llmfy (0.9 and 0.11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from llmfy.flow_engine.checkpointer.base_checkpointer import CheckpointMetadata as TheirMetadata

from clew.model.checkpoint import CheckpointMetadata

LLMFY: Final = "llmfy"
"""Metadata key for all fields of llmfy's own metadata."""

_OTHER_NAMES: Final = {"node": "node_name", "node_name": "node", "created_at": "timestamp", "timestamp": "created_at"}
"""The name of a field in the other generation."""


def fields_of(metadata: Any) -> dict[str, Any]:
    """Return the fields of llmfy's `metadata` except the ids of checkpoint and session."""
    return {
        each.name: getattr(metadata, each.name)
        for each in fields(metadata)
        if each.name not in ("checkpoint_id", "session_id")
    }


def field_of(given: Mapping[str, Any], name: str) -> Any:
    """Return a field by either generation's name; `None` if it is missing."""
    return given.get(name, given.get(_OTHER_NAMES.get(name, name)))


def their_metadata(metadata: CheckpointMetadata) -> TheirMetadata:
    """Return metadata for the installed llmfy, also of checkpoints that another version saved."""
    given = metadata.metadata.get(LLMFY, {})
    found: dict[str, Any] = {}
    for each in fields(TheirMetadata):
        value = field_of(given, each.name)
        found[each.name] = _from_clew(metadata, each.name) if value is None else value
    return TheirMetadata(**found)


def _from_clew(metadata: CheckpointMetadata, name: str) -> Any:
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

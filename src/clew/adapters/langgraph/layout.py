"""Layout of LangGraph's checkpoints in a store.

Each channel is a field of the state, and one more field (`BOOK`) holds the rest of the checkpoint.
Pending writes are attachments of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from langgraph.checkpoint.base import Checkpoint as GraphCheckpoint
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.langgraph.ids import outer_id
from clew.adapters.langgraph.values import listed, loaded, stored
from clew.model.checkpoint import Checkpoint, CheckpointMetadata

SENDS: Final = "pending_sends"
BOOK: Final = "__langgraph__"
"""The field with everything but the channels: versions, and the versions that each node has seen.
"""
WRITE: Final = "write:"
"""Prefix of the attachment keys of pending writes."""
FIRST: Final = "langgraph:first"
"""Attachment key that marks a checkpoint whose parent was pruned."""
STARTED: Final = "__clew_started_at__"
"""Configurable that says whether a run started at the head or at a named checkpoint."""


def book_of(checkpoint: GraphCheckpoint, serde: SerializerProtocol) -> dict[str, Any]:
    """Return the content of the `BOOK` field.

    The id is not in it; the stored checkpoint has the same one.

    All of it is plain data except `pending_sends`, from graphs before LangGraph 0.5.
    """
    rest = {name: value for name, value in checkpoint.items() if name not in ("id", "channel_values")}
    return {name: stored(value, serde, name) if name == SENDS else value for name, value in rest.items()}


def is_layout(state: Any) -> bool:
    """Return whether LangGraph saved this state."""
    return isinstance(state, dict) and BOOK in state


def fields_of(channels: Mapping[str, Any]) -> dict[str, Any]:
    return {field_of(name): value for name, value in channels.items()}


def field_of(channel: str) -> str:
    """Return the field of a channel: its own name, prefixed if it could collide with `BOOK`."""
    return BOOK + channel if channel.startswith(BOOK) else channel


def channel_of(field: str) -> str:
    return field.removeprefix(BOOK) if field.startswith(BOOK) else field


def graph_checkpoint(found: Checkpoint, serde: SerializerProtocol) -> Any:
    """Return the checkpoint in LangGraph's form."""
    # A state that was saved without LangGraph may be anything. Channels need textual names.
    state = found.state if isinstance(found.state, dict) and all(isinstance(name, str) for name in found.state) else {}
    values = {channel_of(name): loaded(value, serde) for name, value in state.items() if name != BOOK}
    book = state.get(BOOK)
    if book is None:
        # Saved without LangGraph: the fields become channels that no node has seen.
        book = {
            "v": 4,
            "ts": found.metadata.timestamp.isoformat(),
            "channel_versions": dict.fromkeys(values, 1),
            "versions_seen": {},
            "updated_channels": None,
        }
    if SENDS in book:
        book = {**book, SENDS: loaded(book[SENDS], serde)}
    return {**book, "id": outer_id(found.checkpoint_id), "channel_values": values}


def graph_metadata(found: Checkpoint, serde: SerializerProtocol) -> Any:
    """Return the metadata in LangGraph's form."""
    # Older versions of the adapter stored tuples.
    given = {name: listed(loaded(value, serde)) for name, value in found.metadata.metadata.items()}
    # LangGraph expects these keys, which a checkpoint that was saved without it lacks.
    return {"source": "update", "step": found.metadata.step or 0, "parents": {}, **given}


def parents_of(info: CheckpointMetadata, serde: SerializerProtocol) -> Mapping[str, Any]:
    """Return the checkpoints above a subgraph's checkpoint: LangGraph's ids by namespace."""
    return loaded(info.metadata.get("parents"), serde) or {}

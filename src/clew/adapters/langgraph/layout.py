"""How a checkpoint of LangGraph's lies in a state: its channels are the fields, and one field holds the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from langgraph.checkpoint.base import Checkpoint as GraphCheckpoint
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.langgraph.ids import outer_id
from clew.adapters.langgraph.values import listed, loaded, stored
from clew.model.checkpoint import Checkpoint

SENDS: Final = "pending_sends"
BOOK: Final = "__langgraph__"
"""The field that holds what LangGraph notes beside the channels: versions, what each node has seen."""


def book_of(checkpoint: GraphCheckpoint, serde: SerializerProtocol) -> dict[str, Any]:
    """What is noted of a checkpoint. Its id is the stored checkpoint's own.

    All of it is plain, but for what graphs before LangGraph 0.5 were to send next (`pending_sends`).
    """
    noted = {name: value for name, value in checkpoint.items() if name not in ("id", "channel_values")}
    return {name: stored(value, serde, name) if name == SENDS else value for name, value in noted.items()}


def is_layout(state: Any) -> bool:
    """Whether this is a state of LangGraph's."""
    return isinstance(state, dict) and BOOK in state


def fields_of(channels: Mapping[str, Any]) -> dict[str, Any]:
    return {field_of(name): value for name, value in channels.items()}


def field_of(channel: str) -> str:
    """The field that holds a channel: its own name, or another one if that is taken."""
    return BOOK + channel if channel.startswith(BOOK) else channel


def channel_of(field: str) -> str:
    return field.removeprefix(BOOK) if field.startswith(BOOK) else field


def graph_checkpoint(found: Checkpoint, serde: SerializerProtocol) -> Any:
    """The checkpoint as LangGraph knows it."""
    # One saved without LangGraph may be anything; what is no field can't be a channel.
    state = found.state if isinstance(found.state, dict) and all(isinstance(name, str) for name in found.state) else {}
    values = {channel_of(name): loaded(value, serde) for name, value in state.items() if name != BOOK}
    book = state.get(BOOK)
    if book is None:
        # Saved without LangGraph: its fields are channels that nobody has seen yet.
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
    """The metadata as LangGraph knows it."""
    # Older versions kept tuples.
    told = {name: listed(loaded(value, serde)) for name, value in found.metadata.metadata.items()}
    # One saved without LangGraph lacks what it always expects.
    return {"source": "update", "step": found.metadata.step or 0, "parents": {}, **told}

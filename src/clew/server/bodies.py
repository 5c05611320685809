"""Bodies of requests. Unknown fields are refused."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

Step = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]


class NewCheckpoint(Struct, forbid_unknown_fields=True):
    """A state to save, with the messages that were said on the way to it."""

    state: Any
    messages: list[dict[str, Any]] = []
    node_name: str | None = None
    step: Step | None = None
    metadata: dict[str, Any] = {}
    run_id: str | None = None


class StateChange(Struct, forbid_unknown_fields=True):
    """A change of some fields of the head's state."""

    set: dict[str, Any] = {}
    append: dict[str, list[Any]] = {}
    remove: list[str] = []
    messages: list[dict[str, Any]] = []
    node_name: str | None = None
    step: Step | None = None
    metadata: dict[str, Any] = {}


class NewMessages(Struct, forbid_unknown_fields=True):
    """Messages to append, in a provider's format or as role and content."""

    messages: list[dict[str, Any]]
    metadata: dict[str, Any] = {}


class NewFork(Struct, forbid_unknown_fields=True):
    """A fork from the head, or from a checkpoint."""

    checkpoint_id: str | None = None
    namespace: str | None = None
    thread_id: str | None = None


class Rewind(Struct, forbid_unknown_fields=True):
    """Where to go back to: a checkpoint, or before the last user messages."""

    to: str | None = None
    turns: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class Attachments(Struct, forbid_unknown_fields=True):
    """Records to attach to a checkpoint, by key."""

    attachments: dict[str, Any]


class Policy(Struct, forbid_unknown_fields=True):
    """A retention policy; times in seconds. See the page on retention for the fields."""

    policy: dict[str, Any]
    dry_run: bool = True

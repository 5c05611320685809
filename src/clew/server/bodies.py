"""Bodies of requests. Unknown fields are refused."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

Step = Annotated[
    int, Meta(ge=-(1 << 31), le=(1 << 31) - 1, description="The step of the run, as the agent's framework counts.")
]
NodeName = Annotated[str, Meta(description="The step of the agent that saves, such as a node of its graph.")]
RunId = Annotated[str, Meta(description="The run that saves.")]
Values = Annotated[dict[str, Any], Meta(description="Values to keep with the checkpoint.")]
Messages = Annotated[
    list[dict[str, Any]],
    Meta(description="Messages to append, in a provider's format or as role and content. Ids are optional."),
]


class NewCheckpoint(Struct, forbid_unknown_fields=True):
    """A state to save, with the messages that were said on the way to it."""

    state: Annotated[Any, Meta(description="The whole state.")]
    messages: Messages = []
    node_name: NodeName | None = None
    step: Step | None = None
    metadata: Values = {}
    run_id: RunId | None = None


class StateChange(Struct, forbid_unknown_fields=True):
    """A change of some fields of the head's state."""

    set: Annotated[dict[str, Any], Meta(description="Fields with their new values.")] = {}
    append: Annotated[dict[str, list[Any]], Meta(description="Items to append to fields that are lists.")] = {}
    remove: Annotated[list[str], Meta(description="Names of fields to remove.")] = []
    messages: Messages = []
    node_name: NodeName | None = None
    step: Step | None = None
    metadata: Values = {}


class NewMessages(Struct, forbid_unknown_fields=True):
    """Messages to append, in a provider's format or as role and content."""

    messages: Messages
    metadata: Annotated[dict[str, Any], Meta(description="Metadata that each of the messages gets.")] = {}


class NewFork(Struct, forbid_unknown_fields=True):
    """A fork from the head, or from a checkpoint."""

    checkpoint_id: Annotated[str, Meta(description="The checkpoint to fork from; without it, the head.")] | None = None
    namespace: Annotated[str, Meta(description="The checkpoint's namespace.")] | None = None
    thread_id: Annotated[str, Meta(description="The new thread's id; without it, a new one is made.")] | None = None


class Rewind(Struct, forbid_unknown_fields=True):
    """Where to go back to: a checkpoint, or before the last user messages."""

    to: Annotated[str, Meta(description="The id of the checkpoint.")] | None = None
    namespace: (
        Annotated[str, Meta(description="The checkpoint's namespace. User messages are counted in the main one.")]
        | None
    ) = None
    turns: Annotated[int, Meta(ge=1, le=1_000_000, description="How many user messages to go back.")] | None = None


class Attachments(Struct, forbid_unknown_fields=True):
    """Records to attach to a checkpoint, by key."""

    attachments: Annotated[dict[str, Any], Meta(description="The records. A key that exists is replaced.")]


class Policy(Struct, forbid_unknown_fields=True):
    """A retention policy; times in seconds. See the page on retention for the fields."""

    policy: Annotated[
        dict[str, Any] | None,
        Meta(
            description="Fields of `RetentionPolicy`: `max_history`, `thread_ttl` and others. Without it, the "
            "server's own policy, or else only the threads' own rules."
        ),
    ] = None
    dry_run: Annotated[bool, Meta(description="Only report what would be removed.")] = True

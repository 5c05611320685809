"""Types of the answers: the schemas in the OpenAPI document are derived from them.

Where a route answers with a record of the public API, that record's class is the type, and `told` gives its
form. All other answers are dicts of these types, so that type checkers compare what routes build with what the
document promises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict, TypeVar, cast

import clew
from clew.server.interchange import to_json


class Told(Protocol):
    """A record that has a form for answers."""

    def to_dict(self, *, convert: Callable[[Any], Any] | None = None) -> dict[str, Any]: ...


T = TypeVar("T", bound=Told)
ResultT = TypeVar("ResultT")
Next = str | int | None


def told(record: T) -> T:
    """Return `record` as a dict of JSON's types. The annotation stays the record's class, because the schema
    is derived from it."""
    return cast("T", record.to_dict(convert=to_json))


def split_page(
    read: Sequence[ResultT], limit: int, position: Callable[[ResultT], str], offset: int | None = None
) -> tuple[Sequence[ResultT], Next]:
    """Return the first `limit` results of `read`, which has one more result if there is a next page.

    The second part says where that page begins: the position of the last result, or an offset if the caller counts.
    """
    shown = read[:limit]
    following: Next = None
    if len(read) > limit:
        following = position(shown[-1]) if offset is None else offset + limit
    return shown, following


def page(
    read: Sequence[T], limit: int, position: Callable[[T], str], offset: int | None = None
) -> tuple[list[T], Next]:
    """Return a page as `split_page` does, with its results as dicts of JSON's types."""
    shown, following = split_page(read, limit, position, offset)
    return [told(each) for each in shown], following


class ThreadPage(TypedDict):
    """Threads, the most recently active first. `next` is `null` on the last page."""

    threads: list[clew.ThreadInfo]
    next: Next


class CheckpointPage(TypedDict):
    """Checkpoints without their states, newest first. `next` is `null` on the last page."""

    checkpoints: list[clew.CheckpointInfo]
    next: Next


class NamespaceSummary(TypedDict):
    """A namespace of a thread: the number of its checkpoints, and the newest one."""

    namespace: str
    checkpoints: int
    head: clew.CheckpointInfo


class Namespaces(TypedDict):
    """The namespaces of a thread, the most recently active first. The main one has the empty name.

    If `complete` is false, the thread has more checkpoints than were counted: only namespaces of the newest ones
    are listed, and the main one.
    """

    namespaces: list[NamespaceSummary]
    complete: bool


class HistoryPage(TypedDict):
    """Checkpoints with their states, newest first. `next` is `null` on the last page."""

    checkpoints: list[clew.Checkpoint]
    next: Next


class MessagePage(TypedDict):
    """Messages in order. `next` is `null` if there are no more."""

    messages: list[clew.Message]
    next: Next


class RenderedMessages(TypedDict):
    """Messages in a provider's format, with `as`.

    `system` is the text for the call's own parameter, in formats that have one. `left_out` lists what the format
    can't express.
    """

    messages: list[dict[str, Any]]
    system: str | None
    left_out: list[str]


class Appended(TypedDict):
    """The number of appended messages."""

    appended: int


class HitPage(TypedDict):
    """Messages that a search found, newest first. `next` is `null` on the last page."""

    hits: list[clew.SearchHit]
    next: Next


class PlacedChange(TypedDict):
    """A difference between two states. `place` is its path as text: `plan.steps[3]`.

    Adjacent elements that were added to a list or removed from it are one change with their `count`.
    """

    path: list[Any]
    kind: Literal["added", "removed", "changed"]
    before: Any
    after: Any
    count: int | None
    place: str


def placed(change: clew.Change) -> PlacedChange:
    """Return the form of `change` for answers."""
    return {
        "path": list(change.path),
        "kind": change.kind,
        "before": change.before,
        "after": change.after,
        "count": change.count,
        "place": change.place,
    }


class Changes(TypedDict):
    """All differences between two states, in the state's order."""

    changes: list[PlacedChange]


class AttachmentRecords(TypedDict):
    """The records that are attached to a checkpoint, by key."""

    attachments: Mapping[str, Any]


class AttachedKeys(TypedDict):
    """The keys of the records that were attached, sorted."""

    attachments: list[str]


class BegunTurn(TypedDict):
    """An open turn: its id, the thread's state, and after how many seconds without a request it ends."""

    turn_id: str
    state: Any
    ttl: float


class Erased(TypedDict):
    """The number of deleted threads."""

    threads: int


class Me(TypedDict):
    """The rights of the caller's token. `user` is `null` for a token that may act for all users."""

    name: str
    user: str | None
    scope: Literal["read", "write"]


class Counts(TypedDict):
    """Totals of a store. Callers that act for one user get neither the size of the store nor the index."""

    total_sessions: int
    total_checkpoints: int
    total_messages: int
    total_tool_calls: int
    total_input_tokens: int
    total_output_tokens: int
    total_bytes: int
    stored_bytes: int
    index: clew.IndexStats | None


def counts(stats: clew.Stats, *, whole: bool) -> Counts:
    """Return the totals. Without `whole`, the sizes of the store and of the server's memory are left out,
    because they tell something about other tenants.
    """
    return {
        "total_sessions": stats.total_sessions,
        "total_checkpoints": stats.total_checkpoints,
        "total_messages": stats.total_messages,
        "total_tool_calls": stats.total_tool_calls,
        "total_input_tokens": stats.total_input_tokens,
        "total_output_tokens": stats.total_output_tokens,
        "total_bytes": stats.total_bytes,
        "stored_bytes": stats.stored_bytes if whole else 0,
        "index": told(stats.index) if whole else None,
    }


class StoreStats(Counts):
    """Totals of a store, of each thread and of each day (`2026-01-31`), for one user or for all.

    Callers that act for one user get neither the size of the store nor the index.
    """

    checkpoints_per_session: Mapping[str, int]
    by_thread: Mapping[str, clew.Totals]
    by_day: Mapping[str, clew.Totals]


class LargeThread(TypedDict):
    """A thread and its totals."""

    thread_id: str
    thread_name: str | None
    user_id: str | int | None
    messages: int
    tool_calls: int
    checkpoints: int
    bytes: int
    input_tokens: int
    output_tokens: int


class Overview(Counts):
    """Totals of a store and of the last days with activity, and the largest threads.

    Callers that act for one user get neither the size of the store nor the index.
    """

    by_day: Mapping[str, clew.Totals]
    largest: list[LargeThread]


class Health(TypedDict):
    """The state of the server: `unavailable` if its store does not answer."""

    status: Literal["ok", "unavailable"]


class StreamError(TypedDict):
    """The data of an event `error`, with which a stream ends: the error's name, and what to do."""

    error: str
    detail: str


class Conversation(TypedDict):
    """A conversation, in OpenAI's form. `created_at` is in seconds since 1970."""

    id: str
    object: Literal["conversation"]
    created_at: int
    metadata: Mapping[str, Any]


class DeletedConversation(TypedDict):
    """The id of a conversation that was deleted."""

    id: str
    object: Literal["conversation.deleted"]
    deleted: Literal[True]


class Item(TypedDict):
    """An item of OpenAI's Responses API. Its `type` decides what else is in it."""

    id: str
    type: str


class ItemList(TypedDict):
    """Items of a conversation, in OpenAI's form."""

    object: Literal["list"]
    data: list[Item]
    first_id: str
    last_id: str
    has_more: bool

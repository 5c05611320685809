"""The feed of a store: what each commit changed, by ids only, for watchers."""

from __future__ import annotations

from msgspec import Struct


class FeedParts(Struct, frozen=True, kw_only=True, array_like=True, omit_defaults=True):
    """The parts of a thread that a commit changed.

    `checkpoint` is the namespace and id of the added or replaced checkpoint; `messages` are the ids of
    added and replaced messages. `deleted`: the thread was deleted; other fields are then about the thread
    that the same commit created again. `cleared`: all checkpoints were removed. `gone_checkpoints` and
    `gone_messages` name removed records; some may not have existed. `former` is the space of the owner
    before the commit (`storage.holders.space_name`), if that changed.
    """

    checkpoint: tuple[str, str] | None = None
    messages: tuple[str, ...] = ()
    described: bool = False
    deleted: bool = False
    cleared: bool = False
    gone_checkpoints: tuple[tuple[str, str], ...] = ()
    gone_messages: tuple[str, ...] = ()
    former: str | None = None


class FeedEntry(Struct, frozen=True, kw_only=True):
    """One commit in the feed. `owner` is the thread's owner after the commit, or before it if the thread was
    deleted."""

    position: str
    thread_id: str
    owner: str | None
    incarnation: str
    sequence: int
    parts: FeedParts


class FeedQuery(Struct, frozen=True, kw_only=True):
    """Entries after the position `after`, in order, and not after `until`.

    `after=None` asks for the current position, and makes the store write its feed from now on. `wait` is how
    many seconds the answer may wait for a first entry; it may come earlier, with no entry.
    """

    after: str | None = None
    until: str | None = None
    limit: int = 500
    wait: float = 0.0


class FeedPage(Struct, frozen=True, kw_only=True):
    """Entries of the feed. `position` is where the next page begins; `more`: there are more entries now.

    `gap`: the store does not know `after` (any more), so entries may be missing. `position` is then the
    current position, and there are no entries.
    """

    position: str
    entries: tuple[FeedEntry, ...] = ()
    more: bool = False
    gap: bool = False

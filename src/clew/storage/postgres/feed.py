"""The feed of a schema: positions are snapshots, so that commits out of order are not missed.

A transaction that began earlier may commit later. So a position is not a number but the snapshot in which the
last page was read: an entry that the snapshot does not show is new. Within a page, a position also has the
snapshot of the page and the number of the last entry.

A snapshot in a position ends with the newest entry's transaction, and not with the server's newest
transaction: a server that crashes may use a number again if its transaction had changed nothing on disk
(NOTIFY, temporary tables). Transactions with entries were flushed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from clew.model.feed import FeedEntry, FeedPage, FeedParts, FeedQuery
from clew.storage import feed
from clew.storage.postgres.texts import unescaped, unescaped_or_none
from clew.storage.postgres.users import UserColumn

_DESCRIBED, _DELETED, _CLEARED = 1, 2, 4
_LONGEST: Final = 20_000
"""The longest position that is read. A snapshot names each transaction that was running."""
_BEFORE_ALL: Final = 2
"""PostgreSQL's last number that no transaction has."""


class Snapshot(NamedTuple):
    """A snapshot: transactions from `after` on, and those in `running`, are not in it."""

    text: str
    oldest: int
    after: int
    running: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Snapshot | None:
        """The snapshot that PostgreSQL writes as `oldest:after:running,…`; `None` if the text is invalid."""
        match text.split(":"):
            case [oldest, after, running]:
                numbers = [oldest, after, *(running.split(",") if running else ())]
                if all(each.isascii() and each.isdigit() and len(each) < 20 for each in numbers):
                    return cls(text, int(oldest), int(after), tuple(numbers[2:]))
        return None

    def ending(self, after: int) -> Snapshot:
        """The snapshot of all transactions before `after`."""
        running = [each for each in self.running if int(each) < after]
        oldest = min(self.oldest, after)
        return Snapshot(f"{oldest}:{after}:{','.join(running)}", oldest, after, tuple(running))


class Position(NamedTuple):
    """Everything that `seen` shows, and the entries that `page` shows up to the entry `number`."""

    generation: str
    seen: Snapshot
    page: Snapshot | None = None
    number: int = 0

    def __str__(self) -> str:
        start = f"{self.generation}.{self.seen.text}"
        return start if self.page is None else f"{start}.{self.page.text}.{self.number}"

    @classmethod
    def read(cls, text: str) -> Position | None:
        """The position; `None` if the text is invalid."""
        generation, *rest = text.split(".") if len(text) < _LONGEST else [""]
        if len(rest) not in (1, 3) or (seen := Snapshot.read(rest[0])) is None:
            return None
        if len(rest) == 1:
            return cls(generation, seen)
        page, number = Snapshot.read(rest[1]), rest[2]
        if page is None or not (number.isascii() and number.isdigit() and len(number) < 19):
            return None
        return cls(generation, seen, page, int(number))


class Asked(NamedTuple):
    """A query of the feed: entries after `start` that the snapshot `end` shows (`None`: all entries)."""

    start: Position | None
    end: Snapshot | None
    limit: int

    def parameters(self) -> list[Any]:
        """The parameters of the statement `feed`."""
        start = self.start
        if start is None:
            return ["0", [], None, 0, 0, _interval(feed.KEPT_FOR - feed.RENEWED)]
        end = start.page or self.end
        return [
            str(start.seen.after),
            list(start.seen.running),
            end.text if end else None,
            start.number,
            self.limit + 1,
            _interval(feed.KEPT_FOR - feed.RENEWED),
        ]


def asked(query: FeedQuery) -> Asked:
    """The position that `query` asks for. An unreadable one becomes the current position."""
    until = Position.read(query.until) if query.until is not None else None
    return Asked(Position.read(query.after or ""), until.seen if until else None, query.limit)


def watch_parameters(generation: str) -> list[Any]:
    """The parameters of the statement `watch`: an older feed is only continued if it is sure to be complete."""
    return [generation, _interval(feed.KEPT_FOR), _interval(feed.RENEWED)]


def _interval(seconds: int) -> str:
    return f"{seconds} seconds"


def page(question: Asked, query: FeedQuery, rows: Sequence[Any], users: UserColumn) -> FeedPage | None:
    """The answer to `query`; `None` if the feed is not written."""
    if not rows or not rows[0]["written"]:
        return None
    generation, trimmed = rows[0]["generation"], rows[0]["trimmed"]
    snapshot = Snapshot.read(rows[0]["snapshot"])
    assert snapshot is not None
    shown = snapshot.ending(int(rows[0]["newest"] or trimmed or _BEFORE_ALL) + 1)
    now, start = Position(generation, shown), question.start
    if query.after is None:
        return FeedPage(position=str(now))
    if (
        start is None
        or start.generation != generation
        or start.seen.after > snapshot.after
        or (trimmed is not None and int(trimmed) >= start.seen.oldest)
    ):
        return FeedPage(position=str(now), gap=True)
    found = [row for row in rows if row["number"] is not None]
    whole = start.page or question.end or shown
    more = len(found) > question.limit
    places = [Position(generation, start.seen, whole, row["number"]) for row in found[: question.limit]]
    last = places[-1] if more else Position(generation, whole)
    if places:
        places[-1] = last
    try:
        entries = [_entry(str(place), row, users) for place, row in zip(places, found, strict=False)]
    except (ValueError, TypeError):
        # An entry is damaged, and nobody knows which thread it is about.
        return FeedPage(position=str(now), gap=True)
    return FeedPage(position=str(last), entries=tuple(entries), more=more or start.page is not None)


def _entry(position: str, row: Any, users: UserColumn) -> FeedEntry:
    flags, checkpoint_id, former = row["flags"], row["checkpoint_id"], row["former"]
    if former is not None and former != "-" and not users.takes_any:
        former = f"+{users.read(int(former[1:]))}"
    gone = zip(_texts(row["gone_namespaces"]), _texts(row["gone_checkpoints"]), strict=False)
    return FeedEntry(
        position=position,
        thread_id=unescaped(row["thread_id"]),
        owner=users.read(row["owner"]),
        incarnation=row["incarnation"],
        sequence=row["sequence"],
        parts=FeedParts(
            checkpoint=None if checkpoint_id is None else (unescaped(row["namespace"]), unescaped(checkpoint_id)),
            messages=_texts(row["messages"]),
            described=bool(flags & _DESCRIBED),
            deleted=bool(flags & _DELETED),
            cleared=bool(flags & _CLEARED),
            gone_checkpoints=tuple(gone),
            gone_messages=_texts(row["gone_messages"]),
            former=unescaped_or_none(former),
        ),
    )


def _texts(stored: str | None) -> tuple[str, ...]:
    return tuple(map(unescaped, json.loads(stored))) if stored else ()

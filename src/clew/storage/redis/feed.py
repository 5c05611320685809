"""The feed of a Redis store: a stream that the commit script writes while somebody watches.

Positions are ids of its entries, which Redis returns in order, even if its clock goes back. A position is known
as long as its entry exists. A watcher waits with a blocking XREAD on a connection of its own. Where that is
refused, it reads the feed ten times a second.

In a cluster, the commit script can't write the feed, which has another slot. There the writer adds the
entry when the commit was applied and before it is acknowledged, if the store is watched. The writer asks once
a second whether the store is watched (`ClusterFeed`), so a new feed is complete only a little more than a
second after it began.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from hiredis import ReplyError

from clew.errors import ClewError
from clew.model.feed import FeedEntry, FeedPage, FeedParts, FeedQuery
from clew.storage import feed
from clew.storage.conversions import bytes_text
from clew.storage.redis.caller import Argument, Caller
from clew.storage.redis.keys import Keys
from clew.storage.redis.layout import incarnation_name, owner_name
from clew.storage.redis.router import Node
from clew.storage.redis.scripts import WATCH

_LOOK_SECONDS: Final = 0.1
"""How long a watcher waits that can't block."""
_ASKED_SECONDS: Final = 1.0
"""How long a writer in a cluster relies on its answer to whether the store is watched."""
_ID = re.compile(r"\d{1,19}-\d{1,19}", re.ASCII)
_DESCRIBED, _DELETED, _CLEARED = 1, 2, 4


class FeedReader:
    """Reads the feed on one event loop."""

    def __init__(self, caller: Caller, keys: Keys) -> None:
        self._caller = caller
        self._keys = keys
        self._noted: float | None = None
        """When the store was last told that it is watched."""
        self._waiting: Node | None = None
        self._waiting_lock = asyncio.Lock()

    async def page(self, query: FeedQuery) -> FeedPage:
        """Answer `query`. See `Storage.feed`."""
        page = await self._page(query)
        if query.wait and query.after is not None and not page.entries and not page.gap:
            await self._await_entry(page.position, query.wait)
            page = await self._page(query)
        return page

    async def _page(self, query: FeedQuery) -> FeedPage:
        if query.after is None:
            return FeedPage(position=await self._watch())
        loop = asyncio.get_running_loop()
        if self._noted is None or loop.time() - self._noted > feed.RENEWED:
            await self._watch()
        after, until = query.after, query.until
        if _ID.fullmatch(after) is None or (until is not None and _ID.fullmatch(until) is None):
            return FeedPage(position=await self._watch(), gap=True)
        if until is not None and _order(until) <= _order(after):
            return FeedPage(position=after)
        end: Argument = b"+" if until is None else until
        found = await self._caller.command(
            self._keys.feed, "XRANGE", self._keys.feed, after, end, "COUNT", query.limit + 2
        )
        if not found or found[0][0] != after.encode():
            return FeedPage(position=await self._watch(), gap=True)
        rest = found[1:]
        try:
            entries = tuple([self._entry(*each) for each in rest[: query.limit]])
        except ValueError:
            # An entry is damaged, and nobody knows which thread it is about.
            return FeedPage(position=await self._watch(), gap=True)
        return FeedPage(
            position=entries[-1].position if entries else after, entries=entries, more=len(rest) > query.limit
        )

    async def _watch(self) -> str:
        """Begin the feed, or note that it is watched. Returns the current position."""
        key = self._keys.feed
        position, new = await self._caller.call(WATCH, key, feed.KEPT_FOR * 1000)
        if new and not self._caller.router.single:
            # Until then, writers may not know that the store is watched.
            await asyncio.sleep(1.25 * _ASKED_SECONDS)
            position, _ = await self._caller.call(WATCH, key, feed.KEPT_FOR * 1000)
        self._noted = asyncio.get_running_loop().time()
        return str(position.decode())

    async def _await_entry(self, position: str, seconds: float) -> None:
        """Wait until there is an entry after `position`."""
        if self._waiting_lock.locked():
            # One blocked connection is enough: other waiting calls read the feed again.
            await asyncio.sleep(min(seconds, _LOOK_SECONDS))
            return
        async with self._waiting_lock:
            key = self._keys.feed
            try:
                node = self._caller.router.node_for(key)
                if self._waiting is None or self._waiting.where != node.where:
                    await self._drop()
                    self._waiting = node.apart()
                link = await self._waiting.link(commits=True)
                milliseconds = max(1, round(min(seconds, node.read_timeout / 2) * 1000))
                answer = await link.call("XREAD", "COUNT", 1, "BLOCK", milliseconds, "STREAMS", key, position)
            except ClewError as error:
                answer = error
            except asyncio.CancelledError:
                # Its link is blocked, and no caller waits for the answer.
                if self._waiting is not None:
                    self._waiting.drop()
                raise
            if isinstance(answer, ReplyError | ClewError):
                await self._drop()
                await asyncio.sleep(min(seconds, _LOOK_SECONDS))

    async def _drop(self) -> None:
        if self._waiting is not None:
            self._waiting.drop()
            self._waiting = None

    async def close(self) -> None:
        """Close the connection that waits."""
        await self._drop()

    def abandon(self) -> None:
        """Forget the connection: its event loop ended."""
        if self._waiting is not None:
            self._waiting.drop()

    def _entry(self, position: bytes, stored: list[bytes]) -> FeedEntry:
        fields = dict(zip(stored[::2], stored[1::2], strict=False))
        flags = int(fields.get(b"f", b"0"))
        gone = _texts(fields.get(b"x", b""))
        former = fields.get(b"p")
        checkpoint_id = fields.get(b"c")
        return FeedEntry(
            position=position.decode(),
            thread_id=self._keys.thread_of(fields.get(b"t", b"")) or "",
            owner=owner_name(fields.get(b"o", b"-")),
            incarnation=incarnation_name(fields.get(b"i", b"")),
            sequence=int(fields.get(b"s", b"0")),
            parts=FeedParts(
                checkpoint=None
                if checkpoint_id is None
                else (bytes_text(fields.get(b"n", b"")), bytes_text(checkpoint_id)),
                messages=_texts(fields.get(b"m", b"")),
                described=bool(flags & _DESCRIBED),
                deleted=bool(flags & _DELETED),
                cleared=bool(flags & _CLEARED),
                gone_checkpoints=tuple(zip(gone[::2], gone[1::2], strict=False)),
                gone_messages=_texts(fields.get(b"y", b"")),
                former=None if former is None else bytes_text(former),
            ),
        )


class ClusterFeed:
    """The feed for a writer in a cluster, whose commit script can't write it."""

    def __init__(self, caller: Caller, keys: Keys) -> None:
        self._caller = caller
        self._keys = keys
        self._watched = False
        self._asked: float | None = None

    def is_unwatched(self) -> bool:
        """Return whether the store had no watcher when it was last asked."""
        return not self._watched and not self._is_outdated()

    def _is_outdated(self) -> bool:
        return self._asked is None or asyncio.get_running_loop().time() - self._asked > _ASKED_SECONDS

    async def tell(self, thread_id: str, told: list[Any]) -> None:
        """Add the fields `told` of the thread's commit to the feed, if the store is watched."""
        key = self._keys.feed
        if self._is_outdated():
            asked = asyncio.get_running_loop().time()
            self._watched = bool(await self._caller.command(key, "EXISTS", key))
            self._asked = asked
        if self._watched:
            fields: list[Argument] = ["t", self._keys.thread(thread_id), *told]
            bound = ("NOMKSTREAM", "MAXLEN", "~", feed.LENGTH)
            await self._caller.command(key, "XADD", key, *bound, "*", *fields)


def _order(position: str) -> tuple[int, int]:
    milliseconds, _, number = position.partition("-")
    return int(milliseconds), int(number)


def _texts(packed: bytes) -> tuple[str, ...]:
    found: list[str] = []
    at = 0
    while at < len(packed):
        end = at + 4 + int.from_bytes(packed[at : at + 4], "big")
        found.append(bytes_text(packed[at + 4 : end]))
        at = end
    return tuple(found)

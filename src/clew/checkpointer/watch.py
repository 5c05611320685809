"""A watch: the events of a scope, from a position on, at the pace of its consumer."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Self

from clew.checkpointer.background import SettledStorage
from clew.checkpointer.engine import Engine
from clew.checkpointer.events import EventReader
from clew.checkpointer.feed import Hub, Member, Scope, read_feed
from clew.model.event import Event
from clew.model.feed import FeedEntry, FeedQuery
from clew.storage.execution import may_block
from clew.storage.loops import forget_closed
from clew.storage.protocol import Storage

_SLICE: Final = 0.5
"""Seconds after which a sync watch looks whether it was closed."""
_MARK: Final = "~"
"""Separates the parts of an event's position. No feed's position contains it."""


class Watchers:
    """The hubs of a checkpointer, one for each event loop that watches."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._hubs: dict[asyncio.AbstractEventLoop, Hub] = {}
        self.released = False

    @property
    def storage(self) -> Storage:
        """The storage without waiting for background saves: only durable commits have events."""
        storage = self._engine.storage
        return storage.inner if isinstance(storage, SettledStorage) else storage

    def hub(self) -> Hub:
        """The running loop's hub."""
        loop = asyncio.get_running_loop()
        hub = self._hubs.get(loop)
        if hub is None:
            forget_closed(self._hubs)
            hub = self._hubs[loop] = Hub(self.storage)
        return hub

    async def close(self) -> None:
        """End all watches. Those of other event loops end soon."""
        self.released = True
        for loop, hub in list(self._hubs.items()):
            if not may_block() and loop is asyncio.get_running_loop():
                hub.end()
                await hub.ended()
            else:
                try:
                    loop.call_soon_threadsafe(hub.end)
                except RuntimeError:
                    # The loop was closed along with its tasks.
                    continue


class Watch:
    """The events of a watch, in order: `async for event in checkpointer.awatch(…)`.

    `async with` begins the watch at once, and not with the first event. `aclose` ends it. It reads at its
    consumer's pace. One task at a time may wait for the next event.
    """

    def __init__(self, watchers: Watchers, engine: Engine, scope: Scope, since: str | None, timeout: float | None):
        self._watchers = watchers
        self._reader = EventReader(watchers.storage, engine.codec, engine.users, scope)
        self._scope = scope
        self._timeout = timeout
        self._hub: Hub | None = None
        self._finalizer: weakref.finalize[..., Watch] | None = None
        self._member = Member(scope)
        self._begun = False
        self._closed = False
        self._until: str | None = None
        """Entries up to this position have to be read from the store; later ones come from the hub."""
        self._entries: deque[FeedEntry] = deque()
        self._events: deque[Event] = deque()
        self._cursor: str | None = None
        """The end of what was read: the position of the last entry, or of a page without more."""
        self._told: tuple[int, int] | None = None
        """The sequence number of the next entry, and how many of its events were delivered before."""
        self._position = since
        if since is not None:
            self._cursor, self._told = _split(since)

    @property
    def position(self) -> str | None:
        """The position to resume from: after the last event, or later if nothing has happened. `None` before the start."""
        if self._events or self._entries or self._member.entries or self._hub is None:
            return self._position
        if self._until is not None or self._member.is_behind or self._member.gap is not None:
            return self._position
        return self._hub.position

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event. Ends after `timeout` seconds without one, when it is closed, or when the
        checkpointer is released."""
        event = await self.next_event()
        if event is None:
            raise StopAsyncIteration
        return event

    async def next_event(self) -> Event | None:
        """Return the next event, or `None` at the end."""
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        event = await self._next_before(deadline)
        if event is None:
            await self.aclose()
        return event

    async def aclose(self) -> None:
        """End the watch. Idempotent."""
        self._closed = True
        if self._finalizer is not None:
            self._finalizer.detach()
        if self._hub is not None:
            self._hub.leave(self._member)
        self._member.wake()

    @property
    def has_ended(self) -> bool:
        return self._closed or self._watchers.released or self._member.ended

    async def _next_before(self, deadline: float | None) -> Event | None:
        """Return the next event; `None` at the deadline, or if the watch has ended."""
        while not self._events:
            if not self._begun:
                await self._begin()
            entry = await self._next_entry(deadline)
            if entry is None:
                return None
            if isinstance(entry, Event):
                self._position = entry.position
                return entry
            # The entry stays until its events are there: the caller may be cancelled meanwhile.
            events = self._placed(entry, await self._reader.events(entry))
            self._entries.popleft()
            self._cursor = entry.position
            if not events:
                self._position = entry.position
            self._events.extend(events)
        event = self._events.popleft()
        self._position = event.position
        return event

    # Entries

    async def _begin(self) -> None:
        if self._begun:
            return
        if self._watchers.released:
            # Raises what every call after the release raises.
            await self._watchers.storage.ping()
        if self.has_ended:
            return
        if may_block():
            if self._cursor is None:
                self._cursor = (await read_feed(self._watchers.storage, FeedQuery())).position
        else:
            await self._join()
        if self._position is None:
            self._position = self._cursor
        self._begun = True

    async def _join(self) -> None:
        """Join the hub. What lies between the cursor and that moment is read from the store."""
        hub = self._hub = self._watchers.hub()
        member = self._member = Member(self._scope)
        joined = await hub.join(member)
        self._finalizer = weakref.finalize(self, _leave, hub, member)
        self._finalizer.atexit = False
        if self._cursor is None:
            self._cursor = joined
        else:
            self._until = joined

    async def _next_entry(self, deadline: float | None) -> FeedEntry | Event | None:
        """Return the next entry, which stays in `_entries`, or a gap."""
        while not self._entries:
            if self.has_ended:
                return None
            if self._hub is None:
                if (gap := await self._ask_store(deadline)) is not None:
                    return gap
                if not self._entries and deadline is not None and time.monotonic() >= deadline:
                    return None
            elif self._until is not None:
                if (gap := await self._catch_up(self._until)) is not None:
                    return gap
            elif self._member.entries:
                self._entries.append(self._member.entries.popleft())
            elif self._member.gap is not None:
                self._cursor, self._member.gap = self._member.gap, None
                return self._gap(self._cursor)
            elif self._member.error is not None:
                error, self._begun, self._hub = self._member.error, False, None
                raise error
            elif self._member.is_behind:
                self._hub.leave(self._member)
                await self._join()
            elif not await self._wait_for_hub(deadline):
                return None
        return self._entries[0]

    async def _catch_up(self, until: str) -> Event | None:
        """Read a page from the store, up to where the hub began. Returns the event of a gap."""
        page = await read_feed(self._watchers.storage, FeedQuery(after=self._cursor, until=until))
        if page.gap:
            self._until, self._cursor, self._told = None, until, None
            return self._gap(until)
        self._take(page.entries)
        if page.more:
            self._advance(page.position)
        else:
            self._until = None
            self._advance(until)
        return None

    async def _ask_store(self, deadline: float | None) -> Event | None:
        """Ask the store for entries, in the calling thread. Returns the event of a gap."""
        left = _SLICE if deadline is None else min(_SLICE, deadline - time.monotonic())
        page = await read_feed(self._watchers.storage, FeedQuery(after=self._cursor, wait=max(left, 0.0)))
        if page.gap:
            self._cursor, self._told = page.position, None
            return self._gap(page.position)
        self._take(page.entries)
        self._advance(page.position)
        return None

    def _take(self, entries: Sequence[FeedEntry]) -> None:
        self._entries.extend(entry for entry in entries if self._scope.concerns(entry))

    def _advance(self, position: str) -> None:
        """Note that everything up to `position` was read, if nothing of it waits to be delivered."""
        if not self._entries:
            self._cursor = position

    async def _wait_for_hub(self, deadline: float | None) -> bool:
        """Wait until something comes. Returns whether that was before the deadline."""
        loop = asyncio.get_running_loop()
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return False
        woken = self._member.woken = loop.create_future()
        timer = None if left is None else loop.call_later(left, self._member.wake)
        try:
            await woken
        finally:
            self._member.woken = None
            if timer is not None:
                timer.cancel()
        return True

    def _gap(self, position: str) -> Event:
        return Event(kind="gap", position=position, thread_id=self._scope.thread_id)

    def _placed(self, entry: FeedEntry, events: Sequence[Event]) -> list[Event]:
        """The events with their positions, without those that were delivered before the watch was resumed."""
        sequence, delivered = self._told or (0, 0)
        self._told = None
        last = len(events) - 1
        placed = [
            replace(
                event,
                position=entry.position if at == last else f"{self._cursor}{_MARK}{entry.sequence}{_MARK}{at + 1}",
            )
            for at, event in enumerate(events)
        ]
        return placed[delivered:] if sequence == entry.sequence else placed


def _split(since: str) -> tuple[str, tuple[int, int] | None]:
    """Split an event's position: the feed's position, and how many events of which commit were delivered after it."""
    match since.split(_MARK):
        case [position, sequence, delivered] if _is_number(sequence) and _is_number(delivered):
            return position, (int(sequence), int(delivered))
    return since, None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _leave(hub: Hub, member: Member) -> None:
    """Leave the hub for a watch that was dropped without being closed, in any thread."""
    try:
        hub.loop.call_soon_threadsafe(hub.leave, member)
    except RuntimeError:
        # The loop was closed along with its tasks.
        pass

"""The feed of two stores: each has its own, and a position has one in both.

The serving store's feed is read. The position in the other one is read before, every few seconds. A commit
reaches the other store after the serving one, so an entry after a position is after both parts of the
position. When the other store takes over, its feed continues from there: nothing is missing, and some entries
are repeated. If its position is not known, that is a gap.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from clew.clock import Clock
from clew.errors import ClewError
from clew.model.feed import FeedPage, FeedQuery
from clew.storage.replicated.failover import Side
from clew.storage.replicated.timeout import TimeoutStorage

_MARK: Final = "|"
"""Separates both positions. No store's position contains it."""
_OTHER_SECONDS: Final = 2.0
"""How often the position in the other store is read."""
_PATIENCE: Final = 0.15
"""Seconds that reading it may take. Meanwhile no entries are handed out."""
_DOWN_SECONDS: Final = 10.0
"""How often that is tried while the other store does not answer."""
_OTHER: Final[dict[Side, Side]] = {"primary": "secondary", "secondary": "primary"}


class PairFeed:
    """Reads the feeds of both stores as one."""

    def __init__(self, primary: TimeoutStorage, secondary: TimeoutStorage, clock: Clock) -> None:
        self._stores: dict[Side, TimeoutStorage] = {"primary": primary, "secondary": secondary}
        self._clock = clock
        self._ends: dict[Side, str] = {}
        """A position in each store that was its end when it was read."""
        self._next_look: dict[Side, float] = {}

    async def page(self, side: Side, query: FeedQuery) -> FeedPage:
        """Answer `query` from the store on `side`, which serves."""
        store, other = self._stores[side], _OTHER[side]
        await self._look(other)
        # This position is read before the page, so nothing that the page lacks comes before it.
        end = self._ends.get(other, "")
        after, until = _read(query.after), _read(query.until)
        if query.after is None or after is None or not after[side]:
            page = await store.feed(FeedQuery())
            return FeedPage(position=_written(side, page.position, end), gap=query.after is not None)
        asked = replace(query, after=after[side], until=until[side] or None if until else None)
        page = await store.feed(asked)
        before = after[other]
        return FeedPage(
            position=_written(side, page.position, end or before),
            entries=tuple([replace(each, position=_written(side, each.position, before)) for each in page.entries]),
            more=page.more,
            gap=page.gap,
        )

    async def _look(self, side: Side) -> None:
        """Read the end of the other store's feed, now and then. This also makes the store write its feed."""
        now = self._clock.monotonic()
        if now < self._next_look.get(side, now):
            return
        self._next_look[side] = now + _OTHER_SECONDS
        try:
            page = await self._stores[side].within(_PATIENCE, lambda store: store.feed(FeedQuery()))
        except ClewError:
            self._next_look[side] = now + _DOWN_SECONDS
        else:
            self._ends[side] = page.position


def _written(side: Side, position: str, other: str) -> str:
    return _MARK.join((position, other) if side == "primary" else (other, position))


def _read(position: str | None) -> dict[Side, str] | None:
    if position is None:
        return None
    primary, mark, secondary = position.partition(_MARK)
    return {"primary": primary, "secondary": secondary} if mark else None

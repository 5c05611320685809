"""The feed of a memory store."""

from __future__ import annotations

from bisect import bisect_right

from clew.ids import new_id
from clew.model.commit import Commit
from clew.model.feed import FeedEntry, FeedPage, FeedQuery
from clew.storage import feed
from clew.storage.memory.thread import Thread
from clew.storage.memory.undo import Undo


class MemoryFeed:
    """The last entries, once somebody has asked for them. The storage's lock guards all but the bell."""

    def __init__(self) -> None:
        self.began = False
        self.bell = feed.Bell()
        self._generation = new_id()
        self._entries: list[tuple[int, FeedEntry]] = []
        self._last = 0
        """The last number that was given."""

    def add(
        self, commit: Commit, found: Thread | None, owner: str | None, left: Thread | None, removed: int, undo: Undo
    ) -> None:
        """Add the entry of an applied commit, if there is one. `owner` is the one that it found."""
        if not self.began:
            return
        after = left.owner if left else owner
        parts = feed.parts_of(
            commit, existed=found is not None, left=left is not None, owners=(owner, after), removed=removed
        )
        thread = left or found
        if parts is None or thread is None:
            return
        if len(self._entries) >= feed.LENGTH + feed.TRIMMED:
            self._entries = self._entries[-feed.LENGTH :]
        self._last += 1
        entry = FeedEntry(
            position=feed.numbered(self._generation, self._last),
            thread_id=commit.thread_id,
            owner=after,
            incarnation=thread.incarnation,
            sequence=thread.sequence,
            parts=parts,
        )
        undo.append(self._entries, (self._last, entry))

    def page(self, query: FeedQuery) -> FeedPage:
        """Answer `query` without waiting."""
        now = feed.numbered(self._generation, self._last)
        if query.after is None:
            self.began = True
            return FeedPage(position=now)
        after = feed.read_number(query.after, self._generation)
        until = self._last if query.until is None else feed.read_number(query.until, self._generation)
        oldest = self._entries[0][0] if self._entries else self._last + 1
        if not self.began or after is None or until is None or not oldest - 1 <= after <= self._last:
            self.began = True
            return FeedPage(position=now, gap=True)
        start = bisect_right(self._entries, after, key=lambda each: each[0])
        found = [entry for number, entry in self._entries[start : start + query.limit + 1] if number <= until]
        if len(found) > query.limit:
            return FeedPage(position=found[-2].position, entries=tuple(found[:-1]), more=True)
        return FeedPage(position=feed.numbered(self._generation, max(after, until)), entries=tuple(found))

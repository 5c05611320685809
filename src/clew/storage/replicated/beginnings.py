"""Beginnings of threads: the incarnation that a commit names, if it creates its thread."""

from __future__ import annotations

from typing import Final

from clew.ids import new_id
from clew.model.commit import Begin, Commit
from clew.storage.replicated.failover import Side

_REMEMBERED: Final = 10_000


class Beginnings:
    """What commits that are not acknowledged yet have named.

    A retry on the other store names the same incarnation, because the first try may have created the thread in the first
    store. A retry on the same store names another one: if the first try had created the thread and it is not there any
    more, it was deleted since, and whoever knew it has to be told.
    """

    def __init__(self) -> None:
        self._named: dict[tuple[str, str], tuple[Side, Begin]] = {}

    def of(self, commit: Commit, side: Side) -> Begin:
        """The beginning for a try of `commit` on the store of that side."""
        key = commit.thread_id, commit.commit_id
        known = self._named.pop(key, None)
        begin = Begin(incarnation=new_id()) if known is None or known[0] == side else known[1]
        self._named[key] = side, begin
        if len(self._named) > _REMEMBERED:
            self._named.pop(next(iter(self._named)), None)
        return begin

    def forget(self, commit: Commit) -> None:
        """`commit` is through."""
        self._named.pop((commit.thread_id, commit.commit_id), None)

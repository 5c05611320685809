"""Commits on their way: sent together, each with its own outcome, acknowledged when the indexes know their threads, and what
they left in the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from clew.errors import ClewError, StorageError
from clew.model.commit import Applied, Commit
from clew.storage.packing import text_bytes
from clew.storage.redis.calling import Call, Caller
from clew.storage.redis.committing import Source, commit_arguments, listing_of, outcome, read_source, user_field
from clew.storage.redis.journal import Awaited
from clew.storage.redis.keys import Keys
from clew.storage.redis.layout import group_prefix
from clew.storage.redis.link import Answer, Link
from clew.storage.redis.listing import Listed
from clew.storage.redis.scripts import COMMIT, SOURCE


class Applier:
    """Applies commits through one session."""

    def __init__(self, caller: Caller, keys: Keys, listed: Listed, awaited: Awaited, ttl: int | None) -> None:
        self._caller = caller
        self._keys = keys
        self._listed = listed
        self._awaited = awaited
        self._ttl = ttl

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        """The outcomes, in order. Raises StorageError if not one of the commits reached a server."""
        begun: list[_Begun] = []
        outcomes: list[Applied | ClewError] = []
        for commit in commits:
            if commit.fork is not None:
                # It reads its source, which the commits before it may have made.
                outcomes += [await self._outcome(each) for each in begun]
                begun.clear()
            # No detour through a coroutine if the connection is there: most calls bring one commit.
            begun.append(self._send(commit) or await self._begin(commit))
        for each in begun:
            answer = await each.answered if each.answered is not None else None
            result = self._known_outcome(each, answer) if type(answer) is list else None
            outcomes.append(result if result is not None else await self._outcome(each))
        if (
            outcomes
            and isinstance(outcomes[0], StorageError)
            and all(isinstance(each, StorageError) for each in outcomes)
        ):
            raise outcomes[0]
        return outcomes

    def _send(self, commit: Commit) -> _Begun | None:
        """Send the commit now, if it can be: it needs no source, and its server is connected to."""
        if commit.fork is not None:
            return None
        key = self._keys.thread(commit.thread_id)
        try:
            link = self._caller.router.node_for(key).for_commits()
            return None if link is None else self._sent(commit, key, link, None)
        except StorageError:
            return None

    def _sent(self, commit: Commit, key: bytes, link: Link, source: Source | None) -> _Begun:
        call = Call(self._caller, COMMIT, key, commit_arguments(commit, self._ttl, source), commits=True)
        return _Begun(commit, call, call.begin(link))

    async def _begin(self, commit: Commit) -> _Begun:
        """Send the commit, so that it is on its way before the next one."""
        key = self._keys.thread(commit.thread_id)
        try:
            source = await self._source(commit) if commit.fork is not None else None
            link = await self._caller.router.node_for(key).link(commits=True)
            return self._sent(commit, key, link, source)
        except StorageError as error:
            return _Begun(commit, await self._caller.gone(error), None)

    async def _source(self, commit: Commit) -> Source | None:
        fork = commit.fork
        if fork is None:
            return None
        asked = b"" if fork.checkpoint_id is None else b"+" + text_bytes(fork.checkpoint_id)
        answer = await self._caller.call(
            SOURCE,
            self._keys.thread(fork.thread_id),
            user_field(commit.user),
            text_bytes(fork.namespace),
            asked,
            group_prefix(fork.namespace),
        )
        return read_source(answer, commit, fork)

    def _known_outcome(self, begun: _Begun, answer: list[Any]) -> Applied | ClewError | None:
        """The outcome, if nothing more has to be done for it."""
        thread_id = begun.commit.thread_id
        result, standing = outcome(answer, begun.commit)
        if standing is None and isinstance(result, Applied):
            self._listed.forget(thread_id)
        if not self._awaited.has(thread_id, listing_of(answer)):
            return None
        return result if standing is None or self._listed.has(thread_id, standing) else None

    async def _outcome(self, begun: _Begun) -> Applied | ClewError:
        if isinstance(begun.call, ClewError):
            return begun.call
        try:
            answer = await begun.call.answer()
            known = self._known_outcome(begun, answer)
            if known is not None:
                return known
            thread_id = begun.commit.thread_id
            result, standing = outcome(answer, begun.commit)
            waiting = self._awaited.calls(thread_id, listing_of(answer))
            if standing is None or self._listed.has(thread_id, standing):
                await self._caller.call_all(waiting)
            else:
                await self._listed.add(self._caller, thread_id, standing, waiting)
            self._awaited.remember(thread_id, listing_of(answer))
        except ClewError as error:
            return error
        return result


class _Begun:
    """A commit that was sent, or the error that kept it from being sent; and the first answer, when that comes."""

    __slots__ = ("answered", "call", "commit")

    def __init__(self, commit: Commit, call: Call | ClewError, answered: asyncio.Future[Answer] | None) -> None:
        self.commit, self.call, self.answered = commit, call, answered

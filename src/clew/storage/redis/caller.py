"""Script calls and commands: each goes to the server of its key and follows redirections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from hiredis import ReplyError

from clew.errors import ClewError, CorruptRecordError, TransientStorageError
from clew.storage.redis.failures import failure
from clew.storage.redis.link import Answer, Link
from clew.storage.redis.router import Node, Router
from clew.storage.redis.scripts import Script

Argument = bytes | str | int
_ATTEMPTS = 16
_KEYS_PER_CALL = 200
"""Keys of one script call. The server is blocked while a script runs."""
_PAUSE = 0.005
"""Seconds before the first retry of a call whose slot is being moved; doubled each time."""


class Call:
    """A script call that was sent on a link. `answer` waits for it and follows redirections."""

    __slots__ = ("_arguments", "_caller", "_commits", "_link", "_script", "future")

    def __init__(
        self, caller: Caller, link: Link, script: Script, *arguments: Argument, keys: int = 1, commits: bool = False
    ) -> None:
        """The first `keys` of `arguments` are keys. Calls on one link run in order."""
        self._caller, self._link, self._script, self._commits = caller, link, script, commits
        self._arguments = (keys, *arguments)
        self.future = link.call(b"EVALSHA", script.digest, *self._arguments)
        """The first answer."""

    async def answer(self) -> Answer:
        """Return the answer. Raises StorageError if the call failed."""
        answer = await self.future
        if not isinstance(answer, ReplyError | ClewError):
            return answer
        if str(answer).startswith("NOSCRIPT"):
            # EVAL loads the script, so that later calls find it by its digest.
            answer = await self._send(self._link)
        return await self._caller.follow(self._send, self._link, answer, commits=self._commits)

    def _send(self, link: Link) -> asyncio.Future[Answer]:
        return link.call(b"EVAL", self._script.text, *self._arguments)


class Caller:
    """Calls scripts and commands through a router."""

    def __init__(self, router: Router) -> None:
        self.router = router

    async def call(self, script: Script, key: bytes, *arguments: Argument) -> Answer:
        """Return the answer to a script call that is not a commit."""
        return await Call(self, await self._link_for(key, {}), script, key, *arguments).answer()

    async def call_all(self, calls: Sequence[tuple[Script, bytes, Sequence[Argument]]]) -> list[Answer]:
        """Return the answers to several script calls, which are pipelined to each server."""
        links: dict[str, Link] = {}
        sent = [Call(self, await self._link_for(key, links), script, key, *given) for script, key, given in calls]
        return [await call.answer() for call in sent]

    async def call_threads(
        self, calls: Sequence[tuple[Script, bytes, Sequence[Argument]]]
    ) -> list[Answer | CorruptRecordError]:
        """Like `call_all` for threads of which some may be damaged: their errors are in their places."""
        links: dict[str, Link] = {}
        sent = [Call(self, await self._link_for(key, links), script, key, *given) for script, key, given in calls]
        return [await _answer_or_damage(call) for call in sent]

    async def call_for_each(self, script: Script, keys: Sequence[bytes], *arguments: Argument) -> list[Answer]:
        """Return a script's answer for each key: many keys per call, in a cluster one."""
        keys_per_call = _KEYS_PER_CALL if self.router.single else 1
        sent: list[Call] = []
        for at in range(0, len(keys), keys_per_call):
            some = keys[at : at + keys_per_call]
            sent.append(Call(self, await self._link_for(some[0], {}), script, *some, *arguments, keys=len(some)))
        return [answer for call in sent for answer in await call.answer()]

    async def command(self, key: bytes, *command: Argument) -> Answer:
        """Return the answer to a command on `key`."""
        return (await self.commands([(key, command)]))[0]

    async def commands(self, commands: Sequence[tuple[bytes, Sequence[Argument]]]) -> list[Answer]:
        """Return the answers to several commands, each with the key that it is on."""
        links: dict[str, Link] = {}
        sent: list[tuple[Link, asyncio.Future[Answer]]] = []
        for key, command in commands:
            link = await self._link_for(key, links)
            sent.append((link, link.call(*command)))
        return [
            await self.follow(partial(_send, command), link, await future)
            for (_, command), (link, future) in zip(commands, sent, strict=True)
        ]

    async def command_on(self, node: Node, *command: Argument) -> Answer:
        """Return one server's answer to a command without a key."""
        link = await self._link(node, commits=False)
        answer = await link.call(*command)
        if isinstance(answer, ReplyError):
            raise failure(answer, node.where)
        if isinstance(answer, ClewError):
            raise await self.rediscover(answer)
        return answer

    async def scan(self, node: Node, pattern: bytes, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the next cursor (0 at the end) and some of a server's keys that match `pattern`."""
        cursor, found = await self.command_on(node, "SCAN", cursor, "MATCH", pattern, "COUNT", count)
        return int(cursor), found

    async def follow(
        self, send: Callable[[Link], asyncio.Future[Answer]], link: Link, answer: Answer, *, commits: bool = False
    ) -> Answer:
        """Return `answer`, which came on `link`, or that of the server to which the cluster redirects.

        `send` sends the command again. Raises StorageError for other errors.
        """
        node = self.router.at(link.where)
        for attempt in range(_ATTEMPTS):
            if isinstance(answer, ClewError):
                raise await self.rediscover(answer)
            if not isinstance(answer, ReplyError):
                return answer
            error, target = failure(answer, node.where), node
            word, *rest = str(answer).split(" ")
            if word in ("MOVED", "ASK"):
                # An empty host stands for the host that was asked.
                where = node.where.rpartition(":")[0] + rest[1] if rest[1].startswith(":") else rest[1]
                target = self.router.at(where)
            if word == "MOVED":
                self.router.moved(int(rest[0]), where)
                node = target
            elif word == "TRYAGAIN" or "non local key" in str(error):
                await asyncio.sleep(_PAUSE * 2 ** min(attempt, 5))
            elif word != "ASK":
                raise await self.rediscover(error) if isinstance(error, TransientStorageError) else error
            link = await self._link(target, commits=commits)
            if word == "ASK":
                link.call("ASKING")
            answer = await send(link)
        raise TransientStorageError("the cluster's servers keep redirecting to each other; try again")

    async def _link_for(self, key: bytes, links: dict[str, Link]) -> Link:
        """Return a link for queries to the server of `key`: from `links`, by server, or a new one."""
        try:
            node = self.router.node_for(key)
            link = links.get(node.where)
            if link is None:
                link = links[node.where] = await node.link(commits=False)
            return link
        except TransientStorageError as error:
            await self.rediscover(error)
            raise

    async def _link(self, node: Node, *, commits: bool) -> Link:
        try:
            return await node.link(commits=commits)
        except TransientStorageError as error:
            await self.rediscover(error)
            raise

    async def rediscover(self, error: ClewError) -> ClewError:
        """Update the router, so that the next call finds the servers. Returns `error`."""
        await self.router.after(error)
        return error


def _send(command: Sequence[Argument], link: Link) -> asyncio.Future[Answer]:
    return link.call(*command)


async def _answer_or_damage(call: Call) -> Answer | CorruptRecordError:
    try:
        return await call.answer()
    except CorruptRecordError as error:
        return error

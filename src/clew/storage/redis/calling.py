"""Sends a script call to the server that has the key, wherever that is by now, and turns its errors into Clew's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from hiredis import ReplyError

from clew.errors import ClewError, TransientStorageError
from clew.storage.redis.failures import failure
from clew.storage.redis.link import Answer, Link
from clew.storage.redis.routing import Node, Router
from clew.storage.redis.scripts import Script

Argument = bytes | str | int
_ATTEMPTS = 16
_TOGETHER = 200
"""Keys of one script call, on one server: it does nothing else meanwhile."""
_PAUSE = 0.005
"""A slot that moves holds up the threads that are half on their way; this long at first, and longer each time."""


class Call:
    """One script call, under way: `answer` waits for it, and sends it again where the servers say it belongs."""

    __slots__ = ("_arguments", "_caller", "_commits", "_future", "_key", "_keys", "_link", "_script")

    def __init__(
        self,
        caller: Caller,
        script: Script,
        key: bytes,
        arguments: Sequence[Argument],
        *,
        commits: bool,
        keys: bytes = b"1",
    ) -> None:
        """`keys` is the number of keys: the first of `arguments` are the others."""
        self._caller, self._script, self._key, self._arguments = caller, script, key, arguments
        self._commits, self._keys = commits, keys
        self._link: Link | None = None
        self._future: asyncio.Future[Answer] | None = None

    def begin(self, link: Link) -> asyncio.Future[Answer]:
        """Send it now, before anything else that is sent on `link` after this; the future gets the first answer."""
        self._link = link
        self._future = link.call(b"EVALSHA", self._script.digest, self._keys, self._key, *self._arguments)
        return self._future

    async def answer(self) -> Answer:
        """The answer. Raises the StorageError that kept the call from being done."""
        if self._future is not None and self._link is not None:
            answer = await self._future
            if not isinstance(answer, ReplyError | ClewError):
                return answer
            if isinstance(answer, ClewError):
                raise await self._caller.gone(answer)
            return await self._again(answer, self._link)
        return await self._again(None, None)

    async def _again(self, answer: ReplyError | None, link: Link | None) -> Answer:
        """Go on after the first answer: where it was sent to, or with the script's text."""
        script, key, keys, arguments = self._script, self._key, self._keys, self._arguments

        def send(to: Link) -> asyncio.Future[Answer]:
            return to.call(b"EVAL", script.text, keys, key, *arguments)

        if answer is not None and link is not None and str(answer).startswith("NOSCRIPT"):
            # The text brings the script along: the server knows it from then on.
            answer = await send(link)
            if not isinstance(answer, ReplyError | ClewError):
                return answer
        caller = self._caller
        return await caller.directed(send, caller.router.node_for(key), commits=self._commits, answer=answer)


class Caller:
    """Calls scripts and commands through a router."""

    def __init__(self, router: Router) -> None:
        self.router = router

    async def call(self, script: Script, key: bytes, *arguments: Argument) -> Answer:
        """The answer to a script call that is not a commit."""
        link = await self.router.node_for(key).link(commits=False)
        call = Call(self, script, key, arguments, commits=False)
        call.begin(link)
        return await call.answer()

    async def call_all(self, calls: Sequence[tuple[Script, bytes, Sequence[Argument]]]) -> list[Answer]:
        """The answers to several script calls, those for one server in one go."""
        links: dict[str, Link] = {}
        begun: list[Call] = []
        for script, key, arguments in calls:
            node = self.router.node_for(key)
            link = links.get(node.where)
            if link is None:
                link = links[node.where] = await node.link(commits=False)
            call = Call(self, script, key, arguments, commits=False)
            call.begin(link)
            begun.append(call)
        return [await call.answer() for call in begun]

    async def call_for_each(self, script: Script, keys: Sequence[bytes], *arguments: Argument) -> list[Answer]:
        """The answers of a script for each key. One server is asked for many at once; in a cluster each key has its own way."""
        together = _TOGETHER if self.router.alone else 1
        begun: list[Call] = []
        for at in range(0, len(keys), together):
            first, *others = keys[at : at + together]
            call = Call(self, script, first, [*others, *arguments], commits=False, keys=b"%d" % (1 + len(others)))
            call.begin(await self.router.node_for(first).link(commits=False))
            begun.append(call)
        return [answer for call in begun for answer in await call.answer()]

    async def command(self, key: bytes, *command: Argument) -> Answer:
        """The answer to a plain command on `key`."""
        return (await self.commands([(key, command)]))[0]

    async def commands(self, commands: Sequence[tuple[bytes, Sequence[Argument]]]) -> list[Answer]:
        """The answers to several plain commands, each on its key."""
        nodes = [self.router.node_for(key) for key, _ in commands]
        links = {
            node.where: await self._link(node, commits=False) for node in {node.where: node for node in nodes}.values()
        }
        begun = [links[node.where].call(*command) for node, (_, command) in zip(nodes, commands, strict=True)]
        answers: list[Answer] = []
        for node, (_, command), future in zip(nodes, commands, begun, strict=True):
            answer = await future
            if isinstance(answer, ReplyError | ClewError):
                answer = await self.directed(partial(_send, command), node, commits=False, answer=answer)
            answers.append(answer)
        return answers

    async def command_on(self, node: Node, *command: Argument) -> Answer:
        """The answer of one server to a command without a key."""
        link = await node.link(commits=False)
        answer = await link.call(*command)
        if isinstance(answer, ReplyError):
            raise failure(answer, node.where)
        if isinstance(answer, ClewError):
            raise answer
        return answer

    async def scan(self, node: Node, pattern: bytes, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Some of a server's keys that look like `pattern`, and the cursor to go on with; that is 0 at the end."""
        cursor, found = await self.command_on(node, "SCAN", cursor, "MATCH", pattern, "COUNT", count)
        return int(cursor), found

    async def directed(
        self,
        send: Callable[[Link], asyncio.Future[Answer]],
        node: Node,
        *,
        commits: bool,
        answer: ReplyError | ClewError | None = None,
    ) -> Answer:
        """The answer to what `send` sends, followed through the redirections of a cluster. `answer` is a first one."""
        link: Link | None = None
        for attempt in range(_ATTEMPTS):
            if answer is None:
                link = await self._link(node, commits=commits)
                answer = await send(link)
                if not isinstance(answer, ReplyError | ClewError):
                    return answer
            if isinstance(answer, ClewError):
                raise await self.gone(answer)
            word, *rest = str(answer).split(" ")
            error, answer = failure(answer, node.where), None
            if word in ("MOVED", "ASK"):
                # A server that does not know an address leaves out the host: it is its own.
                where = node.where.rpartition(":")[0] + rest[1] if rest[1].startswith(":") else rest[1]
            if word == "MOVED":
                self.router.moved(int(rest[0]), where)
                node = self.router.at(where)
            elif word == "ASK":
                asked = await self._link(self.router.at(where), commits=commits)
                asked.call("ASKING")
                answer = await send(asked)
                if not isinstance(answer, ReplyError | ClewError):
                    return answer
                if isinstance(answer, ReplyError) and str(answer).startswith("TRYAGAIN"):
                    answer = None
                    await asyncio.sleep(_PAUSE * 2 ** min(attempt, 5))
            elif word == "TRYAGAIN" or "non local key" in str(error):
                await asyncio.sleep(_PAUSE * 2 ** min(attempt, 5))
            else:
                if isinstance(error, TransientStorageError):
                    raise await self.gone(error)
                raise error
        raise TransientStorageError("the servers of the cluster keep pointing at each other; try again")

    async def _link(self, node: Node, *, commits: bool) -> Link:
        try:
            return await node.link(commits=commits)
        except TransientStorageError as error:
            raise await self.gone(error) from error

    async def gone(self, error: ClewError) -> ClewError:
        """Have the next call find the servers where they are now; `error`, to be raised."""
        await self.router.after(error)
        return error


def _send(command: Sequence[Argument], link: Link) -> asyncio.Future[Answer]:
    return link.call(*command)

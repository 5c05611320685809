"""The feed of a store: what goes into it, its bounds, positions, and waiting for entries.

A store writes a feed only while somebody watches it: a query for the current position begins it, and it ends
after `KEPT_FOR` seconds without a query. It has at least the last `LENGTH` commits that changed something
visible. An older position, or one from another feed, is a gap.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from clew.answers import Answer
from clew.model.commit import Commit, Removal
from clew.model.feed import FeedParts
from clew.storage.execution import may_block
from clew.storage.holders import space_name

LENGTH: Final = 50_000
"""How many entries a feed keeps, at least."""
TRIMMED: Final = 1_000
"""How many more entries there may be before the oldest are removed."""
KEPT_FOR: Final = 86_400
"""Seconds after the last watcher was seen until the feed ends."""
RENEWED: Final = KEPT_FOR // 24
"""Seconds after which a watcher is noted again."""
_NOTHING: Final = Removal()


def parts_of(
    commit: Commit, *, existed: bool, left: bool, owners: tuple[str | None, str | None], removed: int
) -> FeedParts | None:
    """The entry's parts for an applied `commit`; `None` if it changed nothing that watchers see.

    `existed`: the commit found a thread; `left`: it left one. `owners` are the thread's before and after,
    and `removed` is how many records the commit removed.
    """
    removal, fork, new = commit.remove, commit.fork, commit.checkpoint
    deleted = existed and removal is not None and removal.thread
    gone = removal if removal is not None and not deleted and removed else _NOTHING
    moved = existed and left and owners[0] != owners[1]
    added = new is not None or fork is not None or commit.messages or commit.thread
    if not deleted and not (left and (added or gone is not _NOTHING)):
        return None
    checkpoint = (new.namespace, new.checkpoint_id) if new is not None else None
    if fork is not None:
        checkpoint = fork.namespace, fork.as_checkpoint_id
    return FeedParts(
        checkpoint=checkpoint,
        messages=tuple([message.message_id for message in commit.messages]),
        described=commit.thread is not None or fork is not None,
        deleted=deleted,
        cleared=gone.state,
        gone_checkpoints=gone.checkpoints,
        gone_messages=gone.messages,
        former=space_name(owners[0]) if moved else None,
    )


def numbered(generation: str, number: int) -> str:
    """The position of an entry in a feed whose entries have ascending numbers."""
    return f"{generation}.{number}"


def read_number(position: str, generation: str) -> int | None:
    """The entry's number in `position`; `None` if it belongs to another feed, or is not a position."""
    mine, _, number = position.rpartition(".")
    return int(number) if mine == generation and number.isascii() and number.isdigit() and len(number) < 19 else None


class Bell:
    """Wakes those who wait for it, in any thread and event loop."""

    def __init__(self) -> None:
        self._waiting: deque[Answer[None]] = deque()

    def listen(self) -> Answer[None]:
        """An answer that comes with the next `ring`. Listen first, then look, then wait."""
        heard: Answer[None] = Answer()
        self._waiting.append(heard)
        return heard

    def ring(self) -> None:
        """Wake all who listen."""
        while self._waiting:
            try:
                self._waiting.popleft().give(None)
            except IndexError:
                return

    def hang_up(self, heard: Answer[None]) -> None:
        """Stop listening."""
        try:
            self._waiting.remove(heard)
        except ValueError:
            # It has rung.
            pass


async def heard_within(heard: Answer[None], seconds: float) -> bool:
    """Wait for up to `seconds`, in the calling thread if that may block. Returns whether the bell rang."""
    if may_block():
        return heard.comes_within(seconds)
    if heard.done:
        return True
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, _wake, woken)
    heard.then(partial(_wake_from_afar, loop, woken))
    try:
        await woken
    finally:
        timer.cancel()
    return heard.done


async def heard_or_seen(heard: Answer[None], look: Callable[[], bool], every: float) -> bool:
    """Wait until the bell rings, or `look()` returns True; it is called each `every` seconds, and must not raise.

    Returns whether the bell rang. A look that sees nothing wakes no task.
    """
    if may_block():
        while not heard.comes_within(every):
            if look():
                return False
        return True
    if heard.done:
        return True
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def look_again() -> None:
        # Once the wait is over, the next look is the last.
        if not woken.done():
            if look():
                woken.set_result(None)
            else:
                loop.call_later(every, look_again)

    loop.call_later(every, look_again)
    heard.then(partial(_wake_from_afar, loop, woken))
    await woken
    return heard.done


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def _wake_from_afar(loop: asyncio.AbstractEventLoop, woken: asyncio.Future[None]) -> None:
    try:
        loop.call_soon_threadsafe(_wake, woken)
    except RuntimeError:
        # The loop was closed along with its tasks.
        pass

"""Work of a writer: concurrent lanes that make one commit after another and note the results.

Every commit has an entry `writer/number` in its state, metadata and message, with a text derived
from it. It shows which commits are in a store, and that their content is unchanged.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Literal

import clew
from clew.testing.verdict.entries import item, message, message_entries, state_entries
from clew.testing.verdict.history import Kind
from drill.ledger import Ledger, now

Lane = Literal["own", "shared", "talk", "reader", "victims", "deleter"]
SHARED, TALKS, VICTIMS = (
    [f"shared-{number}" for number in range(4)],
    [f"talk-{number}" for number in range(2)],
    [f"victim-{number}" for number in range(4)],
)
WINDOW = 40
"""The size of the sliding window of entries in the state of a writer's own thread."""
Opener = Callable[[], clew.BaseCheckpointer]


class Worker:
    """The lanes of one writer, on one checkpointer.

    With `removals`, own threads are sometimes cleared and deleted. `opener` opens another
    checkpointer, for reads without any knowledge. `pause` is the longest that a lane rests between
    two commits, in seconds, like an agent that thinks.
    """

    def __init__(
        self,
        checkpointer: clew.BaseCheckpointer,
        ledger: Ledger,
        *,
        opener: Opener,
        writers: int,
        chance: random.Random,
        removals: bool = True,
        pause: float = 0.0,
    ) -> None:
        self._checkpointer = checkpointer
        self._ledger = ledger
        self._opener = opener
        self._own = f"own-{ledger.writer}"
        self._owns = [f"own-{writer}" for writer in range(writers)]
        self._chance = chance
        self._removals = removals
        self._pause = pause
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Stop each lane after its current call."""
        self._stopped.set()

    async def run(self, lanes: Iterable[Lane]) -> None:
        """Work until stopped. Unexpected errors are raised."""
        work: dict[Lane, Callable[[], Awaitable[None]]] = {
            "own": self._save,
            "shared": self._append,
            "talk": self._say,
            "reader": self._look_around,
            "victims": self._write_to_victim,
            "deleter": self._delete_victim,
        }
        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(self._repeat(work[lane]))

    async def _repeat(self, turn: Callable[[], Awaitable[None]]) -> None:
        while not self._stopped.is_set():
            await turn()

    # Writes

    async def _save(self) -> None:
        log: list[dict[str, str]] = []
        while not self._stopped.is_set():
            kind: Kind = "save"
            if self._removals and self._chance.random() < 0.03:
                kind = self._chance.choice(("clear", "delete"))
            if kind == "save":
                await self._put(self._own, log)
            elif kind == "clear":
                await self._write(self._own, kind, lambda _: self._checkpointer.aclear_state(self._own))
            else:
                await self._write(self._own, kind, lambda _: self._checkpointer.adelete_thread(self._own))

    async def _put(self, thread: str, log: list[dict[str, str]]) -> None:
        async def put(entry: str) -> None:
            log.append(item(entry))
            del log[:-WINDOW]
            state = {"entry": entry, "log": log}
            await self._checkpointer.aput_checkpoint(
                thread, state, messages=[message(entry)], metadata={"entry": entry}
            )

        await self._write(thread, "save", put)

    async def _append(self) -> None:
        await self._append_to(self._chance.choice(SHARED))

    async def _append_to(self, thread: str) -> None:
        async def append(entry: str) -> None:
            await self._checkpointer.aupdate_state(
                thread, append={"log": [item(entry)]}, messages=[message(entry)], metadata={"entry": entry}
            )

        await self._write(thread, "append", append)

    async def _say(self) -> None:
        await self._say_in(self._chance.choice(TALKS))

    async def _say_in(self, thread: str) -> None:
        await self._write(thread, "message", lambda entry: self._checkpointer.aput_messages(thread, [message(entry)]))

    async def _write_to_victim(self) -> None:
        """Write to a thread that may be deleted at any time, without reading it in between."""
        thread = self._chance.choice(VICTIMS)
        if self._chance.random() < 0.5:
            await self._look(thread)
        for _ in range(self._chance.randrange(2, 20)):
            if self._stopped.is_set():
                return
            if self._chance.random() < 0.7:
                await self._append_to(thread)
            else:
                await self._say_in(thread)

    async def _delete_victim(self) -> None:
        await self._rest(0.15)
        thread = self._chance.choice(VICTIMS)
        await self._write(thread, "delete", lambda _: self._checkpointer.adelete_thread(thread))
        await self._look(thread)
        if self._chance.random() < 0.3:
            await self._append_to(thread)

    async def _write(self, thread: str, kind: Kind, call: Callable[[str], Awaitable[object]]) -> None:
        if self._pause:
            await self._rest(self._pause)
        number = self._ledger.attempt(thread, kind)
        try:
            await call(f"{self._ledger.writer}/{number}")
        except clew.ThreadDeletedError as error:
            self._ledger.end(thread, number, type(error).__name__)
            await self._look(thread)
        except clew.StorageError as error:
            self._ledger.end(thread, number, type(error).__name__)
        else:
            self._ledger.end(thread, number)

    # Reads

    async def _look_around(self) -> None:
        await self._rest(0.05)
        thread = self._chance.choice(self._chance.choice((self._owns, SHARED, TALKS)))
        if self._chance.random() < 0.02:
            # A new checkpointer knows nothing, and reads everything from the stores.
            with suppress(clew.TransientStorageError):
                async with self._opener() as fresh:
                    await self._look(thread, fresh)
        else:
            await self._look(thread)

    async def _look(self, thread: str, checkpointer: clew.BaseCheckpointer | None = None) -> None:
        """Read the thread and note the result. A read that fails is not noted."""
        checkpointer = checkpointer or self._checkpointer
        try:
            if thread not in TALKS:
                await self._look_at_state(thread, checkpointer)
            if thread in TALKS or thread in VICTIMS:
                await self._look_at_messages(thread, checkpointer)
        except clew.TransientStorageError:
            return

    async def _look_at_state(self, thread: str, checkpointer: clew.BaseCheckpointer) -> None:
        before = await _is_elsewhere(checkpointer)
        begun = now()
        state = await checkpointer.aget_state(thread)
        view, entries = state_entries(thread, state, last=10)
        self._ledger.look(begun, thread, view, entries, elsewhere=before or await _is_elsewhere(checkpointer))

    async def _look_at_messages(self, thread: str, checkpointer: clew.BaseCheckpointer) -> None:
        before = await _is_elsewhere(checkpointer)
        begun = now()
        messages = await checkpointer.alist_messages(thread, limit=None)
        entries = message_entries(messages, last=10)
        self._ledger.look(begun, thread, "messages", entries, elsewhere=before or await _is_elsewhere(checkpointer))

    async def _rest(self, longest: float) -> None:
        try:
            await asyncio.wait_for(self._stopped.wait(), self._chance.uniform(0, longest))
        except TimeoutError:
            return


async def _is_elsewhere(checkpointer: clew.BaseCheckpointer) -> bool:
    return (await checkpointer.astatus()).active_backend != "primary"

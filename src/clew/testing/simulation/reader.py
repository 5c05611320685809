"""Reads of a simulated client, and its deferred saves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import clew
from clew.clock import Clock
from clew.model.status import Status
from clew.storage.wrapper import StorageWrapper
from clew.testing.simulation.loop import Process
from clew.testing.simulation.notes import Knowledge, Notes
from clew.testing.simulation.plan import Step
from clew.testing.simulation.trace import Trace
from clew.testing.verdict.branches import PREFIX, Crossing, log_of, said
from clew.testing.verdict.entries import StrangeError, check, message_entries, parsed, state_entries
from clew.testing.verdict.history import Entry
from clew.testing.verdict.judge import Findings

UNKNOWN: Final = "unknown"
"""The noted error of an attempt whose result is unknown."""
Opener = Callable[[], clew.BaseCheckpointer]


class Reader:
    """One process of a client: its reads and its knowledge. `knowledge`, by thread, outlives it.

    With `defers`, saves return before they are written (`durability="background"`). They count as
    acknowledged when a later call for their thread has waited for them.
    """

    def __init__(
        self,
        process: Process,
        checkpointer: clew.BaseCheckpointer,
        *,
        notes: Notes,
        knowledge: dict[str, Knowledge],
        opener: Opener,
        findings: Findings,
        trace: Trace,
        now: Callable[[], float],
        clock: Clock,
        may_hide: bool,
        defers: bool,
    ) -> None:
        self._process = process
        self._checkpointer = checkpointer
        self._notes = notes
        self._knowledge = knowledge
        self._opener = opener
        self._findings = findings
        self._trace = trace
        self._now = now
        self._clock = clock
        self._may_hide = may_hide
        self._defers = defers
        self._pending: dict[str, list[int]] = {}

    def _known(self, thread: str) -> Knowledge:
        return self._knowledge.setdefault(thread, Knowledge())

    def _entry(self, number: int) -> Entry:
        return self._notes.writer, number

    def _told(self, thread: str, error: clew.ClewError) -> str:
        """Return the error's name for the notes. An unexpected error becomes a finding.

        If saves are deferred, the error may be that of an earlier save. All writes to strict
        threads wait, so there it is certain.
        """
        expected = (clew.StorageError, clew.ConflictError)
        if not isinstance(error, expected):
            self._findings.add("damaged", f"{thread}: {type(error).__name__}: {error}")
        certain = not self._defers or thread.startswith("strict-")
        return type(error).__name__ if certain else UNKNOWN

    def _must_live(self) -> None:
        if not self._process.alive:
            raise asyncio.CancelledError

    # Deferred saves

    def _settled(self, thread: str, numbers: Sequence[int]) -> None:
        """Note deferred saves as acknowledged: a call that began after them has waited for them."""
        for number in numbers:
            if number in self._pending.get(thread, ()):
                self._pending[thread].remove(number)
                # Before the end of the call that waited.
                self._notes.end(thread, number, early=1e-9)

    def _give_up(self, thread: str) -> None:
        """Note the thread's deferred saves as unknown, because one of them failed."""
        known = self._known(thread)
        for number in self._pending.pop(thread, ()):
            if self._process.alive:
                self._notes.end(thread, number, UNKNOWN)
            for part, kept in (("messages", known.messages), ("checkpoints", known.checkpoints)):
                if number in kept:
                    del kept[number]
                    known.doubtful.add((part, self._entry(number)))  # type: ignore[arg-type]
            known.attachments.pop(number, None)

    def give_up_all(self) -> None:
        """Note all deferred saves as unknown: the process has died with them."""
        for thread in list(self._pending):
            self._give_up(thread)

    def settle_all(self) -> None:
        """Note all deferred saves as acknowledged: the checkpointer was released."""
        for thread in list(self._pending):
            self._settled(thread, list(self._pending[thread]))

    # Reads

    async def _look_at(self, step: Step) -> None:
        await self._look(step.thread)

    async def _look_fresh(self, step: Step) -> None:
        """Read like a new process, which knows nothing."""
        fresh = self._opener()
        try:
            await self._look(step.thread, fresh)
        finally:
            try:
                await fresh.arelease()
            except clew.StorageError:
                pass

    async def _look(self, thread: str, checkpointer: clew.BaseCheckpointer | None = None) -> None:
        """Read the thread and note the result. A read that fails is not noted."""
        fresh, checkpointer = checkpointer is not None, checkpointer or self._checkpointer
        accepted = list(self._pending.get(thread, ())) if not fresh else []
        looks = [
            (self._look_at_state, not thread.startswith(("talk-", PREFIX))),
            (self._look_at_messages, thread.startswith(("talk-", "victim-", "own-", "loose-", "strict-", PREFIX))),
            (self._look_at_branch, thread.startswith(PREFIX)),
            (self._look_at_description, thread.startswith("own-")),
        ]
        try:
            for look in (each for each, has in looks if has):
                await look(thread, checkpointer)
                # The first read has already waited for them, so its result is newer.
                self._settled(thread, accepted)
        except clew.ClewError as error:
            self._must_live()
            told = self._told(thread, error)
            self._trace.note(self._process.name, f"read failed: {told}: {error}", thread)
            self._give_up(thread)
        except StrangeError as error:
            self._findings.add("strange", f"{thread}: {error}")

    async def _look_at_state(self, thread: str, checkpointer: clew.BaseCheckpointer) -> None:
        before, begun = await _is_elsewhere(checkpointer), self._now()
        await self._seen(thread, await checkpointer.aget_state(thread), checkpointer, begun, elsewhere=before)

    async def _head(self, thread: str) -> clew.Checkpoint | None:
        """Return the head of a thread, and note the read."""
        before, begun = await _is_elsewhere(self._checkpointer), self._now()
        head = await self._checkpointer.aget_checkpoint(thread)
        state = None if head is None else head.state
        await self._seen(thread, state, self._checkpointer, begun, elsewhere=before)
        return head

    async def _seen(
        self, thread: str, state: Any, checkpointer: clew.BaseCheckpointer, begun: float, *, elsewhere: bool
    ) -> None:
        view, entries = state_entries(thread, state)
        elsewhere = elsewhere or await _is_elsewhere(checkpointer)
        self._must_live()
        self._notes.look(begun, thread, view, entries, elsewhere=elsewhere)
        self._trace.note(self._process.name, f"reads {view}: {_shown(entries)}{' elsewhere' * elsewhere}", thread)

    async def _look_at_messages(self, thread: str, checkpointer: clew.BaseCheckpointer) -> None:
        before, begun = await _is_elsewhere(checkpointer), self._now()
        accepted = list(self._pending.get(thread, ()))
        entries = message_entries(await checkpointer.alist_messages(thread, limit=None, branches="all"))
        elsewhere = before or await _is_elsewhere(checkpointer)
        self._must_live()
        if checkpointer is self._checkpointer:
            self._expect(thread, accepted, entries)
        self._notes.look(begun, thread, "messages", entries, elsewhere=elsewhere)
        self._trace.note(self._process.name, f"reads messages: {_shown(entries)}{' elsewhere' * elsewhere}", thread)

    def _expect(self, thread: str, accepted: Sequence[int], entries: Sequence[Entry]) -> None:
        """Check that a process reads its own deferred saves."""
        known = self._known(thread)
        for number in accepted:
            if thread.startswith("talk-") and number in known.messages and self._entry(number) not in entries:
                self._findings.add("stale", f"{thread}: a process does not read its own deferred save {number}")

    async def _look_at_branch(self, thread: str, checkpointer: clew.BaseCheckpointer) -> None:
        """Check that the head's branch has the messages that its state was saved with, unless some of
        them may be hidden."""
        before = await _is_elsewhere(checkpointer)
        head = await checkpointer.aget_checkpoint(thread)
        if head is None:
            return
        log, name = log_of(head.state), head.metadata.checkpoint_id
        found = await said(checkpointer, thread, name)
        hidden = self._may_hide and (before or await _is_elsewhere(checkpointer))
        self._must_live()
        # The store that serves now may not have the checkpoint yet.
        if found and found != log and not hidden:
            self._findings.crossings.append(Crossing(thread, name, log, found))
        self._trace.note(self._process.name, f"reads branch of {name[-6:]}: {_shown(found)}", thread)

    async def _look_at_description(self, thread: str, checkpointer: clew.BaseCheckpointer) -> None:
        before, begun = await _is_elsewhere(checkpointer), self._now()
        info = await checkpointer.aget_thread(thread)
        elsewhere = before or await _is_elsewhere(checkpointer)
        self._must_live()
        entries: list[Entry] = []
        if info is not None and info.metadata:
            check([dict(info.metadata)])
            entries = [parsed(info.metadata["entry"])]
        self._notes.look(begun, thread, "description", entries, elsewhere=elsewhere)


async def _is_elsewhere(checkpointer: clew.BaseCheckpointer) -> bool:
    """Return whether the secondary serves, or may serve because this process can't reach it."""
    status = await status_of(checkpointer)
    return status is not None and (status.active_backend != "primary" or status.secondary_healthy is False)


async def status_of(checkpointer: clew.BaseCheckpointer) -> Status | None:
    """Return what the checkpointer knows about its stores, if they are wrapped. Asks no store."""
    storage = checkpointer.storage
    return await storage.status(Status(primary_healthy=True)) if isinstance(storage, StorageWrapper) else None


def _shown(entries: Sequence[Entry] | None) -> str:
    if entries is None:
        return "nothing"
    return " ".join(f"{writer}/{number}" for writer, number in entries[-40:])

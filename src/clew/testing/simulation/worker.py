"""Steps of a simulated client: each is one call of a checkpointer, noted before and after."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import clew
from clew.testing.simulation.notes import Knowledge
from clew.testing.simulation.plan import Step
from clew.testing.simulation.reader import UNKNOWN, Reader, status_of
from clew.testing.verdict.entries import item, message, parsed
from clew.testing.verdict.history import Kind, Named

WINDOW: Final = 6
"""The size of the sliding window of entries in the state of a client's own thread."""
_KEPT: Final = 3
"""The number of checkpoints that a cleanup keeps."""
_STATES: Final = ("save", "append", "follow")
"""Writes of a state with a message."""


class Worker(Reader):
    """Performs the steps of one process of a client."""

    async def perform(self, step: Step) -> None:
        """Perform one step. Errors that a storage may raise are noted, others are raised."""
        work: dict[str, Callable[[Step], Awaitable[None]]] = {
            "save": self._save,
            "append": self._append,
            "say": self._say,
            "forget": self._forget,
            "drop": self._drop,
            "attach": self._attach,
            "describe": self._describe,
            "fork": self._fork,
            "clear": self._clear,
            "delete": self._delete,
            "thin": self._thin,
            "compact": self._compact,
            "turn": self._turn,
            "follow": self._follow,
            "answer": self._answer,
            "rewind": self._rewind,
            "look": self._look_at,
            "look-fresh": self._look_fresh,
        }
        await work[step.op](step)

    def _message(self, entry: str) -> dict[str, Any]:
        """Return a message with the time of the client's clock instead of the machine's."""
        return {**message(entry), "created_at": self._clock.now()}

    # Writes

    async def _save(self, step: Step) -> None:
        thread, known = step.thread, self._known(step.thread)
        gone = _some(known.messages, step.draw) if step.draw < 0.25 else []
        removes: list[Named] = [("messages", self._entry(each)) for each in gone]

        async def put(entry: str) -> clew.Checkpoint:
            known.log.append(entry)
            del known.log[:-WINDOW]
            return await self._checkpointer.aput_checkpoint(
                thread,
                {"entry": entry, "log": [item(each) for each in known.log]},
                messages=[self._message(entry)],
                remove_messages=[f"{self._notes.writer}/{each}" for each in gone],
                metadata={"entry": entry},
            )

        await self._write(thread, "save", put, removes, defers=True)

    async def _append(self, step: Step) -> None:
        async def append(entry: str) -> object:
            return await self._checkpointer.aupdate_state(
                step.thread, append={"log": [item(entry)]}, messages=[self._message(entry)], metadata={"entry": entry}
            )

        await self._write(step.thread, "append", append, defers=True)

    async def _say(self, step: Step) -> None:
        async def say(entry: str) -> None:
            await self._checkpointer.aput_messages(step.thread, [self._message(entry)])

        await self._write(step.thread, "message", say, defers=True)

    async def _forget(self, step: Step) -> None:
        thread = step.thread
        for number in _some(self._known(thread).messages, step.draw):

            async def remove(_: str, gone: int = number) -> None:
                await self._checkpointer.adelete_message(thread, f"{self._notes.writer}/{gone}")

            await self._write(thread, "remove", remove, [("messages", self._entry(number))])

    async def _drop(self, step: Step) -> None:
        known = self._known(step.thread)
        for number in _some(dict.fromkeys(sorted(known.checkpoints)[:-1]), step.draw):
            config = {"thread_id": step.thread, "checkpoint_id": known.checkpoints[number]}

            async def remove(_: str, at: dict[str, str] = config) -> None:
                await self._checkpointer.adelete_checkpoint(at)

            await self._write(step.thread, "remove", remove, self._with_attachments(known, [number]))

    async def _thin(self, step: Step) -> None:
        """Clean up. Every checkpoint may go that is not certainly one of the newest."""
        known = self._known(step.thread)
        doubtful = [number for part, (_, number) in sorted(known.doubtful) if part == "checkpoints"]
        status = await status_of(self._checkpointer)
        # In async mode, the cleaning store may lack a removal, and count what was removed among the
        # newest.
        hides = status is not None and status.replication_mode == "async"
        certain = 0 if hides else max(0, _KEPT - len(doubtful))
        safe = sorted(known.checkpoints)[-certain:] if certain else []
        going = [number for number in known.checkpoints if number not in safe] + doubtful
        policy = clew.RetentionPolicy(max_history=_KEPT)
        await self._write(
            step.thread,
            "thin",
            lambda _: self._checkpointer.acleanup(policy, config=step.thread),
            self._with_attachments(known, going),
        )

    def _with_attachments(self, known: Knowledge, numbers: Sequence[int]) -> list[Named]:
        removes: list[Named] = [("checkpoints", self._entry(number)) for number in numbers]
        removes += [("attachments", self._entry(each)) for each, at in known.attachments.items() if at in numbers]
        return removes

    async def _attach(self, step: Step) -> None:
        known = self._known(step.thread)
        for number in _some(dict.fromkeys(known.checkpoints), step.draw):
            config = {"thread_id": step.thread, "checkpoint_id": known.checkpoints[number]}

            async def attach(entry: str, at: dict[str, str] = config, to: int = number) -> int:
                known.attached[parsed(entry)[1]] = to
                await self._checkpointer.aput_attachments(at, {entry: item(entry)})
                return to

            await self._write(step.thread, "attach", attach, defers=True)

    async def _describe(self, step: Step) -> None:
        async def describe(entry: str) -> None:
            await self._checkpointer.aput_thread(step.thread, {"thread_name": entry, "metadata": item(entry)})

        await self._write(step.thread, "describe", describe)

    async def _fork(self, step: Step) -> None:
        """Fork a thread that only this client writes to, so that the fork's content is known."""
        known = self._known(step.thread)
        target = f"fork-{self._notes.writer}-{step.number}"
        origins = [each for each in known.checkpoints if ("messages", self._entry(each)) not in known.doubtful]
        if self._may_hide:
            # The removal of the message may be hidden: then the fork has it.
            origins = [each for each in origins if each in known.messages]
        for origin in _some(dict.fromkeys(origins), step.draw):
            config = {"thread_id": step.thread, "checkpoint_id": known.checkpoints[origin]}
            sure = {each for each in known.messages if each <= origin}
            maybe = {number for part, (_, number) in known.doubtful if part == "messages" and number <= origin}
            if self._may_hide:
                # The secondary may lack the last additions and removals.
                maybe = {each for each in known.said if each < origin}
                sure &= {origin}
            tried: dict[int, str | None] = {}
            for number in sorted(sure | maybe | {origin}):
                kind: Kind = "message" if number != origin else "save" if origin in sure else "state"
                self._notes.attempt(target, kind, number=number)
                tried[number] = None if number == origin or number in sure else UNKNOWN
            for number, at in known.attached.items():
                if at == origin:
                    self._notes.attempt(target, "attach", number=number)
                    tried[number] = UNKNOWN
            error: str | None = None
            accepted = list(self._pending.get(step.thread, ()))
            try:
                await self._checkpointer.afork(config, target)
            except clew.ClewError as raised:
                self._must_live()
                error = self._told(target, raised)
                self._give_up(step.thread)
            else:
                self._must_live()
                self._settled(step.thread, accepted)
            self._trace.note(
                self._process.name, f"fork of {step.thread} at {origin}: {error or 'acknowledged'}", target
            )
            for number, doubt in tried.items():
                self._notes.end(target, number, error or doubt)

    async def _clear(self, step: Step) -> None:
        await self._write(step.thread, "clear", lambda _: self._checkpointer.aclear_state(step.thread))

    async def _delete(self, step: Step) -> None:
        await self._write(step.thread, "delete", lambda _: self._checkpointer.adelete_thread(step.thread))
        if step.draw < 0.5:
            await self._look(step.thread)

    async def _compact(self, step: Step) -> None:
        await self._write(step.thread, "compact", lambda _: self._checkpointer.acompact(step.thread))

    async def _turn(self, step: Step) -> None:
        """Under a lease, read the state and save it with one more entry. The state must have the
        entries of all earlier leases."""
        thread = step.thread

        async def put(entry: str) -> None:
            # The default holder contains the id of the OS process, which differs between runs.
            holder = f"{self._process.name}:{entry}"
            async with self._checkpointer.alease(thread, ttl=1.5, wait=0.5 * step.draw, holder=holder):
                state = await self._checkpointer.aget_state(thread)
                await asyncio.sleep(step.draw * 0.1)
                log = [*(state["log"] if state else ()), item(entry)]
                await self._checkpointer.aput_checkpoint(
                    thread, {"log": log}, messages=[self._message(entry)], metadata={"entry": entry}
                )

        await self._write(thread, "append", put, defers=True)

    async def _follow(self, step: Step) -> None:
        """Save the head with one more entry, unless the head has moved. Some saves start from the
        head that this client saw last, without reading it again."""
        thread, known = step.thread, self._known(step.thread)

        async def put(entry: str) -> None:
            if known.base is None or step.draw > 0.3:
                head = await self._head(thread)
                known.base = None if head is None else (head.metadata.checkpoint_id, head.state["log"])
                await asyncio.sleep(step.draw * 0.2)
            # Another lane of this client can't change it: a client has one lane for these threads.
            base, new = known.base, item(entry)
            at = {"thread_id": thread} if base is None else {"thread_id": thread, "checkpoint_id": base[0]}
            log = [*(base[1] if base else ()), new]
            more: dict[str, Any] = {
                "messages": [self._message(entry)], "metadata": {"entry": entry}, "on_conflict": "reject",
            }  # fmt: skip
            if base is None:
                made = await self._checkpointer.aput_checkpoint(at, {"log": log}, parent=None, **more)
            elif step.draw < 0.6:
                made = await self._checkpointer.aput_checkpoint(at, {"log": log}, **more)
            else:
                made = await self._checkpointer.aupdate_state(at, append={"log": [new]}, **more)
            known.base = made.metadata.checkpoint_id, log

        await self._write(thread, "follow", put)

    async def _answer(self, step: Step) -> None:
        """Save a state with one more message than an earlier one: mostly the head's, or else one
        from which the conversation branches."""
        thread, known = step.thread, self._known(step.thread)

        async def put(entry: str) -> clew.Checkpoint:
            at = {"thread_id": thread}
            for number in _some(dict.fromkeys(known.checkpoints), step.draw) if step.draw < 0.3 else ():
                at["checkpoint_id"] = known.checkpoints[number]
            base = await self._checkpointer.aget_checkpoint(at)
            log = [] if base is None or base.state is None else base.state["log"]
            await asyncio.sleep(step.draw * 0.1)
            if base is not None:
                at["checkpoint_id"] = base.metadata.checkpoint_id
            more: dict[str, Any] = {} if base is not None else {"parent": None}
            return await self._checkpointer.aput_checkpoint(
                at,
                {"log": [*log, item(entry)]},
                messages=[self._message(entry)],
                metadata={"entry": entry},
                **more,
            )

        await self._write(thread, "save", put, defers=True)

    async def _rewind(self, step: Step) -> None:
        """Go back to an earlier checkpoint, or by one message."""
        thread, known = step.thread, self._known(step.thread)
        for number in _some(dict.fromkeys(known.checkpoints), step.draw):
            name = known.checkpoints[number] if step.draw < 0.6 else None

            async def rewind(_: str, to: str | None = name) -> None:
                if to is None and not await self._checkpointer.alist_messages(thread, limit=1):
                    return
                try:
                    await self._checkpointer.arewind(thread, to=to)
                except clew.ConfigError:
                    # The secondary serves by now, and has no message yet.
                    if to is not None or await self._checkpointer.alist_messages(thread, limit=1):
                        raise

            await self._write(thread, "compact", rewind)

    async def _is_alone(self) -> bool:
        status = await status_of(self._checkpointer)
        return status is not None and status.secondary_healthy is False

    async def _write(
        self,
        thread: str,
        kind: Kind,
        call: Callable[[str], Awaitable[Any]],
        removes: Sequence[Named] = (),
        *,
        defers: bool = False,
    ) -> None:
        number = self._notes.attempt(thread, kind, removes)
        removed = self._doubt(thread, kind, number, removes)
        self._trace.note(self._process.name, f"{kind} {number}{_named(removes)}: begins", thread)
        accepted = list(self._pending.get(thread, ()))
        # It may be applied now, and acknowledged to a retry when the other store is there again.
        alone = await self._is_alone()
        try:
            result = await call(f"{self._notes.writer}/{number}")
        except clew.ClewError as error:
            self._must_live()
            self._notes.end(thread, number, self._told(thread, error))
            self._trace.note(self._process.name, f"{kind} {number}: {type(error).__name__}: {error}", thread)
            self._give_up(thread)
            if isinstance(error, clew.ThreadDeletedError):
                await self._look(thread)
            return
        self._must_live()
        self._trace.note(self._process.name, f"{kind} {number}: acknowledged", thread)
        if defers and self._defers:
            self._pending.setdefault(thread, []).append(number)
        else:
            self._settled(thread, accepted)
            self._notes.end(thread, number, alone=alone or await self._is_alone())
        self._believe(thread, kind, number, result)
        if kind != "thin" and not (defers and self._defers):
            self._known(thread).doubtful -= removed

    def _doubt(self, thread: str, kind: Kind, number: int, removes: Sequence[Named]) -> set[Named]:
        """Mark what the attempt adds and removes as doubtful until its end is known. Returns what
        it removes."""
        known, entry = self._known(thread), self._entry(number)
        known.doubtful |= {("checkpoints", entry), ("messages", entry)} if kind in _STATES else set()
        known.doubtful |= {("messages", entry)} if kind == "message" else set()
        if kind in (*_STATES, "message"):
            known.said.add(number)
        removed = set(removes)
        for part, (_, gone) in removes:
            kept: dict[int, Any] = getattr(known, part)
            kept.pop(gone, None)
        if kind in ("clear", "delete"):
            removed |= {("checkpoints", self._entry(each)) for each in known.checkpoints}
            known.checkpoints.clear()
            known.attachments.clear()
        if kind == "delete":
            removed |= {("messages", self._entry(each)) for each in known.messages}
            known.messages.clear()
        known.doubtful |= removed
        return removed

    def _believe(self, thread: str, kind: Kind, number: int, result: Any) -> None:
        known, entry = self._known(thread), self._entry(number)
        if kind in (*_STATES, "message"):
            known.messages[number] = None
            known.doubtful.discard(("messages", entry))
        if kind == "save":
            known.checkpoints[number] = result.metadata.checkpoint_id
            known.doubtful.discard(("checkpoints", entry))
        if kind == "attach" and result in known.checkpoints:
            known.attachments[number] = result


def _some(numbers: dict[int, None], draw: float) -> list[int]:
    """Return one of the numbers, if there are any."""
    listed = list(numbers)
    return [listed[int(draw * 997) % len(listed)]] if listed else []


def _named(removes: Sequence[Named]) -> str:
    return "".join(f", removes {part} {writer}/{number}" for part, (writer, number) in removes)

"""Turns: load a thread's state, work on it and save it, while no other turn on the thread runs."""

from __future__ import annotations

import asyncio
import copy
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, cast

from clew.checkpointer.leases import Lease
from clew.checkpointer.loader import NOT_LOADED
from clew.checkpointer.records import check_message, checked_messages
from clew.errors import ConfigError, LeaseError, shown
from clew.ids import new_id
from clew.model.checkpoint import Checkpoint
from clew.model.commit import HEAD, OnConflict, TheHead
from clew.model.config import Address, Config, checked_text, read_config
from clew.model.generic import StateT
from clew.model.message import Message
from clew.storage.execution import run_to_end

DEFAULT_WAIT: Final = 30.0
"""How many seconds a turn waits for the turn before it."""


class _Checkpointer(Protocol):
    """The methods of a checkpointer that a turn calls."""

    def run(self, coroutine: Coroutine[Any, Any, Any], name: str) -> Any: ...
    def _as_state(self, state: Any) -> Any: ...
    def _received(self, message: Any, name: str) -> Message: ...
    def alease(self, config: Config | str, ttl: float = 30, *, wait: float = 0, holder: str | None = None) -> Lease: ...
    async def aget_checkpoint(self, config: Config | str, *, known: Checkpoint | None = None) -> Checkpoint | None: ...
    async def aput_checkpoint(
        self,
        config: Config | str,
        state: Any,
        *,
        messages: Any = (),
        node_name: str | None = None,
        step: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        on_conflict: OnConflict = "branch",
        parent: None | TheHead = HEAD,
    ) -> Checkpoint: ...
    async def aput_messages(self, config: Config | str, messages: Any) -> None: ...


class Turn(Generic[StateT]):
    """One turn on a thread: `with memory.turn(config) as turn:`, or `async with memory.aturn(config) as turn:`.

    The turn holds the thread's lease, so the turns of all processes run one after the other. `state` is
    the state at the head, or at the config's `checkpoint_id`; change it in place or assign to it. When
    the block ends, the state and the messages are saved in one commit, and `saved` is the checkpoint. If
    the block raises, nothing more is saved.

    Raises LeaseError on entering if another turn still runs after `wait` seconds, and at the end if the
    lease was lost. Raises ConflictError if somebody saved to the thread without a turn in the meantime.
    """

    def __init__(
        self,
        checkpointer: _Checkpointer,
        config: Config | str,
        *,
        begin: Any,
        wait: float,
        ttl: float,
        node_name: str | None,
        holder: str | None,
    ) -> None:
        self._checkpointer = checkpointer
        self._address: Address = read_config(config)
        self._config: dict[str, Any] = dict(config) if isinstance(config, Mapping) else {"thread_id": config}
        self._begin = begin
        self._node_name = node_name
        # Two turns with one holder's name must not both have the lease.
        holder = None if holder is None else f"{checked_text('holder', holder)}:{new_id()}"
        self._lease = checkpointer.alease(config, ttl, wait=wait, holder=holder)
        self._lease.method = "turn"
        self._used = self._entered = False
        self._said: list[Message] = []
        self._saving, self._saving_task = threading.Lock(), asyncio.Lock()
        self._had_state = False
        self.state: StateT = cast(StateT, None)
        """The thread's state, for the block to change."""
        self.base: Checkpoint | None = None
        """The checkpoint that the turn started from, or saved last, without its state."""
        self.saved: Checkpoint[StateT] | None = None
        """The checkpoint that the turn saved last."""

    @property
    def lost(self) -> bool:
        """Whether the lease was lost. Check it before side effects; a save checks it anyway."""
        return self._lease.lost

    def say(self, message: Message | Mapping[str, Any] | Any) -> Message:
        """Add a message to the conversation record, together with the next save of this turn.

        Returns the message as it will be stored. Raises ConfigError at once if it is not a message. If
        that save fails, the message waits for the one after it: don't say it again.
        """
        self._check_entered("say")
        said = self._stored_form(message, "message")
        self._said.append(said)
        return said

    def _stored_form(self, message: Any, name: str) -> Message:
        """Return the message as it will be stored, independent of later changes to the caller's object."""
        copied = _copied(name, message) if isinstance(message, Mapping) else message
        said = self._checkpointer._received(copied, name)
        check_message(said, name)
        return said

    async def acheckpoint(
        self,
        *,
        messages: Sequence[Message | Mapping[str, Any] | Any] = (),
        node_name: str | None = None,
        step: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Checkpoint[StateT]:
        """Save the state and the messages so far, before the turn ends.

        `messages` are said with this save, after those before it. If it fails, they were not said.
        """
        self._check_entered("checkpoint")
        listed = checked_messages(messages)
        added = tuple(self._stored_form(each, f"messages[{at}]") for at, each in enumerate(listed))
        return await self._save(added, node_name=node_name, step=step, metadata=metadata)

    def checkpoint(
        self,
        *,
        messages: Sequence[Message | Mapping[str, Any] | Any] = (),
        node_name: str | None = None,
        step: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Checkpoint[StateT]:
        """Save the state and the messages so far, before the turn ends.

        `messages` are said with this save, after those before it. If it fails, they were not said.

        Sync twin of `acheckpoint`.
        """
        with self._saving:
            work = self.acheckpoint(messages=messages, node_name=node_name, step=step, metadata=metadata)
            saved: Checkpoint[StateT] = self._checkpointer.run(work, "checkpoint")
            return saved

    async def __aenter__(self) -> Self:
        self._use()
        await self._lease.__aenter__()
        try:
            await self._load()
        except BaseException as error:
            await self._lease.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self._end()
        finally:
            self._entered = False
            await self._lease.__aexit__(kind, error, trace)

    def __enter__(self) -> Self:
        self._use()
        self._lease.__enter__()
        try:
            self._checkpointer.run(self._load(), "turn")
        except BaseException as error:
            self._lease.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._checkpointer.run(self._end(), "turn")
        finally:
            self._entered = False
            self._lease.__exit__(kind, error, trace)

    def _use(self) -> None:
        if self._used:
            raise ConfigError("a turn can be entered once; call turn() or aturn() again")
        self._used = True

    def _check_entered(self, method: str) -> None:
        if not self._entered:
            raise ConfigError(f"turn.{method}() works inside the turn's `with` block only")

    async def _load(self) -> None:
        found = await self._checkpointer.aget_checkpoint(self._config)
        if found is None and self._address.checkpoint_id is not None:
            raise ConfigError(
                f"checkpoint {self._address.checkpoint_id!r} of thread {self._address.thread_id!r} does not exist; "
                f"leave checkpoint_id out to start from the head"
            )
        self.state = cast(StateT, None if found is None else found.state)
        self.base = None if found is None else replace(found, state=NOT_LOADED)
        if self.state is None:
            # A copy: the caller may use the same value for other threads.
            begun = self._begin() if callable(self._begin) else _copied("begin", self._begin)
            self.state = self._checkpointer._as_state(await begun if inspect.isawaitable(begun) else begun)
        self._had_state = found is not None and found.state is not None
        self._entered = True

    async def _end(self) -> None:
        if self.state is not None:
            await self._save(node_name=self._node_name)
        elif self._had_state:
            raise ConfigError("turn.state is None at the end of the turn; to remove a thread's state, use clear_state")
        elif self._said:
            self._check_lease()
            await self._checkpointer.aput_messages(self._config, self._said)

    async def _save(self, messages: tuple[Message, ...] = (), **more: Any) -> Checkpoint:
        async with self._saving_task:
            # Not cancelled halfway: a caller that gives up must still know what was saved.
            return await run_to_end(self._save_now(messages, **more))

    async def _save_now(
        self,
        messages: tuple[Message, ...],
        *,
        node_name: str | None = None,
        step: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        self._check_lease()
        config = {name: value for name, value in self._config.items() if name != "checkpoint_id"}
        # Going on from an older checkpoint is a branch, on purpose. Otherwise the head must still be the base.
        branches = self.saved is None and self._address.checkpoint_id is not None
        if self.base is not None:
            config["checkpoint_id"] = self.base.checkpoint_id
        said = tuple(self._said)
        saved = await self._checkpointer.aput_checkpoint(
            config,
            self.state,
            messages=(*said, *messages),
            node_name=node_name,
            step=step,
            metadata=metadata,
            on_conflict="branch" if branches else "reject",
            parent=HEAD if self.base is not None else None,
        )
        self.saved, self.base, self._had_state = saved, replace(saved, state=NOT_LOADED), True
        # Messages that were said meanwhile are for the next save.
        del self._said[: len(said)]
        return saved

    def _check_lease(self) -> None:
        if self._lease.lost:
            raise LeaseError(
                f"the turn on thread {shown(self._address.thread_id)} lost its lease, so its state was not saved; "
                f"start the turn again, with a longer ttl= if it was paused",
                thread_id=self._address.thread_id,
            )


class TurnMethods(Generic[StateT]):
    """Methods that begin turns."""

    def aturn(
        self: _Checkpointer,
        config: Config | str,
        *,
        begin: StateT | Callable[[], StateT | Awaitable[StateT]] | None = None,
        wait: float = DEFAULT_WAIT,
        ttl: float = 30,
        node_name: str | None = None,
        holder: str | None = None,
    ) -> Turn[StateT]:
        """Hold the thread for one turn: `async with memory.aturn(config, begin={"messages": []}) as turn: …`.

        `begin` is the first state of a thread that has none, or a function that makes it. If another turn
        holds the thread, entering waits up to `wait` seconds, then raises LeaseError, which names the
        holder. `ttl` is how long others wait if this process dies. `node_name` names the last checkpoint.
        """
        return Turn(self, config, begin=begin, wait=wait, ttl=ttl, node_name=node_name, holder=holder)

    def turn(
        self: _Checkpointer,
        config: Config | str,
        *,
        begin: StateT | Callable[[], StateT | Awaitable[StateT]] | None = None,
        wait: float = DEFAULT_WAIT,
        ttl: float = 30,
        node_name: str | None = None,
        holder: str | None = None,
    ) -> Turn[StateT]:
        """Hold the thread for one turn: `with memory.turn(config, begin={"messages": []}) as turn: …`.

        `begin` is the first state of a thread that has none, or a function that makes it. If another turn
        holds the thread, entering waits up to `wait` seconds, then raises LeaseError, which names the
        holder. `ttl` is how long others wait if this process dies. `node_name` names the last checkpoint.

        Sync twin of `aturn`.
        """
        return Turn(self, config, begin=begin, wait=wait, ttl=ttl, node_name=node_name, holder=holder)


def _copied(name: str, value: Any) -> Any:
    """Return a deep copy, so that later changes by the caller are not saved."""
    try:
        return copy.deepcopy(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name} can't be copied: {error}; got {shown(value)}") from error

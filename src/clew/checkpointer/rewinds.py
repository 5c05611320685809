"""Rewinds: going back to an earlier moment of a conversation, on a new branch."""

from __future__ import annotations

from functools import partial
from typing import Any, Generic

from msgspec.structs import replace

from clew.checkpointer.arguments import keyed_id
from clew.checkpointer.batch import Extras
from clew.checkpointer.blocking import blocking
from clew.checkpointer.engine import STALE_ATTEMPTS, Engine, same_log, too_busy
from clew.checkpointer.loader import NOT_LOADED, Loader, missing_checkpoint
from clew.checkpointer.records import listed_message
from clew.checkpointer.runner import Runner
from clew.checkpointer.saver import Saver
from clew.errors import ClewError, ConfigError, ConflictError, TransientStorageError
from clew.ids import new_id
from clew.model.checkpoint import Checkpoint
from clew.model.commit import HEAD, BackTo, NewCheckpoint, OnConflict, Removal, checked_conflict
from clew.model.config import Address, Config, checked_text
from clew.model.generic import StateT
from clew.model.message import Message
from clew.model.queries import CheckpointPage, CheckpointQuery, MessageQuery, ValuePage, ValueQuery
from clew.storage.branches import LAST_NUMBER, points_of, visible
from clew.storage.content import again
from clew.storage.protocol import StaleBasisError
from clew.validation import checked_number


class RewindMethods(Generic[StateT]):
    """Methods that go back."""

    _runner: Runner
    _engine: Engine
    _loader: Loader
    _saver: Saver

    async def arewind(
        self,
        config: Config | str,
        *,
        to: str | None = None,
        turns: int | None = None,
        on_conflict: OnConflict = "branch",
        idempotency_key: str | None = None,
    ) -> Checkpoint[StateT]:
        """Go back: save a new head with the state of an earlier checkpoint, and return it.

        `to` is the id of the checkpoint. The new head has the conversation as of that checkpoint. `turns`
        counts user messages instead: `turns=2` goes back to before the last but one user message of the
        branch. The new head then has the messages before it, and the state of the newest checkpoint before
        it. The default is one turn. If there is no such checkpoint, the new state is `None`. Tool results
        don't count as user messages.

        Raises ConfigError, and changes nothing, if the branch has fewer user messages. So it does if the user
        message was stored in the same commit as earlier ones (as in a fork), because the thread could only go
        back further.

        Nothing is removed: the history keeps all checkpoints, and `alist_messages(branches="all")` all
        messages. No state is loaded or encoded, so the state of the returned checkpoint is
        `clew.NOT_LOADED`. Attachments are not copied.

        `checkpoint_id` in the config names the branch that `turns` counts on, instead of the head's. With
        `on_conflict="reject"`, it must be the head; raises ConflictError if it is not, or if another
        writer is faster.

        `idempotency_key` names this call in its namespace. A repeated call with the same key changes
        nothing, and returns the checkpoint that the first one saved.
        """
        address = self._engine.address(config)
        if to is not None and turns is not None:
            raise ConfigError("rewind takes a checkpoint (to=) or a number of turns (turns=), not both")
        if turns is not None:
            checked_number("turns", turns, "whole number", at_least=1)
        if to is not None:
            to = checked_text("to", to)
        elif address.namespace:
            raise ConfigError("turns are counted in the main namespace; pass to= to go back in another one")
        if checked_conflict(on_conflict) == "reject" and address.checkpoint_id is None:
            raise ConfigError(
                'on_conflict="reject" has nothing to compare the head with: put the checkpoint_id of the head that you '
                "saw into the config"
            )
        keyed = keyed_id(idempotency_key, "rewind", address.thread_id, address.namespace)
        if keyed is not None and (done := await self._loader.stored(address, keyed)) is not None:
            return done
        try:
            return await self._rewind(address, to, turns or 1, reject=on_conflict == "reject", keyed=keyed)
        except TransientStorageError:
            raise
        except ClewError:
            # A concurrent call with the same key may have gone back already, so that too few turns are left.
            if keyed is None or (done := await self._loader.stored(address, keyed)) is None:
                raise
            return done

    rewind = blocking(arewind)

    async def _rewind(
        self, address: Address, to: str | None, turns: int, *, reject: bool, keyed: str | None
    ) -> Checkpoint[StateT]:
        for _ in range(STALE_ATTEMPTS):
            try:
                return await self._rewind_once(address, to, turns, reject=reject, keyed=keyed)
            except StaleBasisError as error:
                if reject:
                    raise _moved(address) from error
        raise too_busy(address.thread_id)

    async def _rewind_once(
        self, address: Address, to: str | None, turns: int, *, reject: bool, keyed: str | None
    ) -> Checkpoint[StateT]:
        log = await self._log(address)
        if log.basis is None:
            await self._engine.check_owner(address)
        if reject:
            heads = (await self._loader.page(address)).checkpoints
            if not heads or heads[0].checkpoint_id != address.checkpoint_id:
                raise _moved(address)
        back_to: BackTo | None
        origin: CheckpointPage | None
        if to is None:
            back_to, origin = await self._turns_back(address, log, turns)
        else:
            page = await self._loader.page(address, checkpoint_id=to, detail="body")
            if not page.checkpoints:
                raise missing_checkpoint(replace(address, checkpoint_id=to))
            # Other namespaces have no conversation of their own.
            back_to, origin = None if address.namespace else BackTo(parent=True), page
        # Turns are found by sequence numbers. After a failover, the other store may have other ones.
        remove = Removal(as_of=log.sequence) if reject or to is None else None
        if origin is None or not origin.checkpoints:
            return await self._start_over(address, back_to, remove, keyed)
        return await self._go_back(address, origin, back_to, remove, keyed)

    async def _go_back(
        self,
        address: Address,
        origin: CheckpointPage,
        back_to: BackTo | None,
        remove: Removal | None,
        keyed: str | None,
    ) -> Checkpoint[StateT]:
        """Save the checkpoint in `origin` again, as the head. It shares all values with the original."""
        old = origin.checkpoints[0]
        self._loader.metadata(address, old)  # A damaged checkpoint is not saved again.
        run_id = address.run_id or old.run_id
        name = keyed or new_id()
        new = replace(again(old), checkpoint_id=name, parent=old.checkpoint_id, run_id=run_id, created_at=None)
        commit = self._engine.new_commit(address, checkpoint=new, back_to=back_to, remove=remove, basis=origin.basis)
        applied = await self._engine.apply(replace(commit, commit_id=new.checkpoint_id))
        self._engine.cache.drop(address.thread_id)
        if applied.repeated and (done := await self._loader.stored(address, name)) is not None:
            return done
        made = replace(
            old,
            checkpoint_id=new.checkpoint_id,
            parent_id=old.checkpoint_id,
            sequence=applied.sequence,
            run_id=new.run_id,
            created_at=applied.created_at or commit.at,
            saved_at=applied.saved_at or commit.at,
        )
        state: Any = NOT_LOADED
        return Checkpoint(metadata=self._loader.metadata(address, made), state=state)

    async def _start_over(
        self, address: Address, back_to: BackTo | None, remove: Removal | None, keyed: str | None
    ) -> Checkpoint[StateT]:
        """Save the state `None` as the head."""
        new: NewCheckpoint = self._saver.new_checkpoint(address, parent=None, checkpoint_id=keyed)
        encode = partial(self._engine.codec.encode, None, namespace=address.namespace)
        saved = await self._saver.save(address, encode, new, Extras(back_to=back_to, remove=remove))
        self._engine.cache.drop(address.thread_id)
        if saved.applied.repeated and (done := await self._loader.stored(address, new.checkpoint_id)) is not None:
            return done
        return self._saver.checkpoint(address, new, saved, None)

    async def _turns_back(self, address: Address, log: ValuePage, turns: int) -> tuple[BackTo, CheckpointPage | None]:
        """Return where the conversation goes back to, and the checkpoint before that."""
        engine, upto, points = self._engine, LAST_NUMBER, points_of(address.thread_id, log)
        if address.checkpoint_id is not None:
            named = await self._loader.page(address, checkpoint_id=address.checkpoint_id)
            _must_be_same(address, log, named)
            if not named.checkpoints:
                raise missing_checkpoint(address)
            upto = named.checkpoints[0].sequence
        query = MessageQuery(
            thread_id=address.thread_id, user=address.user, branch=address.checkpoint_id or HEAD, limit=None
        )
        records = await engine.retry(lambda: engine.storage.messages(query))
        _must_be_same(address, log, await self._log(address))
        begun = [each for each in records if _begins_turn(listed_message(engine.codec, each))]
        if len(begun) < turns:
            raise ConfigError(
                f"thread {address.thread_id!r} has {len(begun)} user messages on this branch: it can't go back by {turns}; "
                f"to go back to a checkpoint, pass to=. Messages in the state don't count: record them with turn.say or "
                f"put_messages"
            )
        cut = begun[-turns].sequence
        if (together := sum(each.sequence >= cut for each in begun)) > turns:
            raise ConfigError(
                f"the last {together} user messages of thread {address.thread_id!r} were stored in one commit, as a fork or "
                f"an import does: it can't go back by {turns}, only by {together}, or to a checkpoint (to=). To leave a "
                f"fork's last question out, fork the checkpoint before it"
            )
        before = [each for each in records if each.sequence < cut]
        back_to = BackTo(before[-1].message_id if before else None)
        for first, last in reversed(visible(points, upto)):
            # In the order of the branch: checkpoints between the ranges are on other branches.
            page = await self._page_before(address, min(last + 1, cut))
            _must_be_same(address, log, page)
            if page.checkpoints and page.checkpoints[0].sequence >= first:
                return back_to, page
        return back_to, None

    async def _log(self, address: Address) -> ValuePage:
        return await self._engine.values(ValueQuery(thread_id=address.thread_id, user=address.user, ranges=()))

    async def _page_before(self, address: Address, sequence: int) -> CheckpointPage:
        """Return the newest checkpoint of the main namespace before a sequence number."""
        query = CheckpointQuery(
            thread_id=address.thread_id, user=address.user, before_sequence=sequence, limit=1, detail="body"
        )
        return await self._engine.retry(lambda: self._engine.storage.checkpoints(query))


def _begins_turn(message: Message) -> bool:
    """Return whether the message is a user's. Some providers give tools' results the role of the user."""
    return message.role == "user" and not message.tool_results


def _must_be_same(address: Address, log: ValuePage, read: ValuePage | CheckpointPage) -> None:
    """Raise StaleBasisError if the two were read from different threads of one id.

    The thread was deleted and created again, or the other store of a pair serves. Sequence numbers of
    one mean nothing in the other.
    """
    one, other = log.basis, read.basis
    if one is not other and not (one and other and same_log(one, other)):
        raise StaleBasisError(f"thread {address.thread_id!r} was replaced", thread_id=address.thread_id)


def _moved(address: Address) -> ConflictError:
    return ConflictError(
        f"thread {address.thread_id!r} has moved on: checkpoint {address.checkpoint_id!r} is not its head, or another "
        f"writer was faster; load the head and try again",
        thread_id=address.thread_id,
        checkpoint_id=address.checkpoint_id,
    )

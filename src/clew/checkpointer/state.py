"""States and checkpoints: saving, changing, loading, listing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from clew import ids
from clew.checkpointer.arguments import (
    checked_ids,
    checked_items,
    checked_mapping,
    checked_names,
    keyed_id,
)
from clew.checkpointer.batch import Extras, Saved
from clew.checkpointer.blocking import blocking
from clew.checkpointer.engine import Engine
from clew.checkpointer.loader import NOT_LOADED, CheckpointFilter, Loader, Namespaces, missing_checkpoint
from clew.checkpointer.records import message_records
from clew.checkpointer.runner import Runner
from clew.checkpointer.saver import Saver
from clew.codec.diff import diff
from clew.errors import ClewError, ConfigError, TransientStorageError, shown
from clew.model.checkpoint import Checkpoint, CheckpointInfo
from clew.model.commit import HEAD, BackTo, NewCheckpoint, OnConflict, Removal, TheHead, checked_conflict
from clew.model.config import Address, Config
from clew.model.diff import Diff
from clew.model.generic import StateT, Untyped
from clew.model.message import Message


class StateMethods(Generic[StateT]):
    """Methods that save and load states."""

    _runner: Runner
    _engine: Engine
    _loader: Loader
    _saver: Saver

    async def aput_state(self, config: Config | str, state: StateT) -> StateT:
        """Save `state` as the thread's new head and return it.

        Raises UnsupportedTypeError, and saves nothing, if the state contains an object that can't be saved.
        """
        address = self._engine.address(config)
        new = self._saver.new_checkpoint(address, parent=address.checkpoint_id or HEAD)
        await self._saver.save_state(address, state, new)
        if self._saver.after_save is not None:
            await self._saver.after_save(address)
        return state

    @overload
    async def aget_state(self: StateMethods[Untyped], config: Config | str) -> Any: ...
    @overload
    async def aget_state(self, config: Config | str) -> StateT | None: ...
    async def aget_state(self, config: Config | str) -> Any:
        """Return the state at the head, or at the config's `checkpoint_id`; `None` if there is none."""
        loaded = await self._loader.load(self._engine.address(config))
        return None if loaded is None else loaded.state

    async def aclear_state(self, config: Config | str) -> None:
        """Remove all checkpoints of the thread. Its messages and its description stay."""
        address = self._engine.address(config)
        await self._engine.remove(address, Removal(state=True))
        self._engine.cache.drop(address.thread_id)

    async def aupdate_state(
        self,
        config: Config | str,
        *,
        set: Mapping[str, Any] | None = None,
        append: Mapping[str, Iterable[Any]] | None = None,
        remove: Iterable[str] = (),
        messages: Sequence[Message | Mapping[str, Any] | Any] = (),
        node_name: str | None = None,
        step: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        on_conflict: OnConflict = "branch",
        new_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Checkpoint[StateT]:
        """Save a new checkpoint with some fields of the head changed.

        The cost depends on the change, not on the state. `set` replaces fields, `append` extends
        lists (a missing list is created), and `remove` removes fields (missing ones are ignored). A
        field that the state's class needs can't be removed, and one with a default gets it.
        `messages` are added to the conversation record atomically with it. The other fields are
        neither loaded nor encoded, so the state of the returned checkpoint is `clew.NOT_LOADED`.

        If a concurrent writer moves the head, the change is applied to the new head. With
        `checkpoint_id` in the config, it is applied to that checkpoint, and `on_conflict` decides
        as in `aput_checkpoint`, which also describes the other parameters.
        """
        address = self._engine.address(config)
        keyed = keyed_id(idempotency_key, "update_state", address.thread_id, address.namespace)
        changes = {
            "set": checked_mapping(set, "set", " of fields"),
            "append": {
                name: checked_items(each, f"append[{name!r}]")
                for name, each in checked_mapping(append, "append", " of fields").items()
            },
            "remove": checked_names(remove, "remove"),
        }
        on_conflict = checked_conflict(on_conflict)
        new = self._saver.new_checkpoint(
            address,
            parent=None,
            # Without a checkpoint to start from, a conflict tells that the head has moved.
            on_conflict=on_conflict if address.checkpoint_id else "reject",
            node_name=node_name,
            step=step,
            metadata=metadata,
            checkpoint_id=_one_of(new_id, keyed),
        )
        records = message_records(self._engine.codec, messages, None, address.run_id, self._engine.clock)
        extras = Extras(messages=records, commit_id=None if new_id is None else ids.new_id())
        save = partial(self._saver.update, address, changes, new, extras)
        return await self._saved(address, new, NOT_LOADED, save, keyed)

    async def aput_checkpoint(
        self,
        config: Config | str,
        state: StateT,
        *,
        messages: Sequence[Message | Mapping[str, Any] | Any] = (),
        remove_messages: Iterable[str] = (),
        conversation: Literal["continue", "new"] = "continue",
        node_name: str | None = None,
        step: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        on_conflict: OnConflict = "branch",
        parent: None | TheHead = HEAD,
        new_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Checkpoint[StateT]:
        """Save `state` and `messages` atomically as the thread's new head.

        `remove_messages` are ids of messages to remove in the same commit, from all branches; missing
        ones are ignored. With `conversation="new"`, `messages` are the whole conversation of a new
        branch, and the earlier messages stay on theirs.

        `checkpoint_id` in the config names the checkpoint that the caller started from. If the head has
        moved since, `on_conflict` decides: "branch" keeps both, "reject" raises ConflictError.
        `parent=None` starts from nothing: with "reject", the namespace must not have a checkpoint yet.

        `new_id` is the id of the new checkpoint; by default, one is generated. A checkpoint that
        has this id in the namespace is replaced in place: it keeps its parent and its sequence, and
        there is no conflict.

        `idempotency_key` names this call in its namespace. A repeated call with the same key changes
        nothing, and returns the checkpoint that the first one saved, without its state
        (`clew.NOT_LOADED`), also if both run at the same time. The key makes the checkpoint's id, so it
        can't be given together with `new_id`.
        """
        address = self._engine.address(config)
        if on_conflict == "reject" and parent is not None and address.checkpoint_id is None:
            raise ConfigError(
                'on_conflict="reject" has nothing to compare the head with: put the checkpoint_id that you started from '
                "into the config, or pass parent=None to begin a thread"
            )
        if conversation not in ("continue", "new"):
            raise ConfigError(f'conversation must be "continue" or "new", not {shown(conversation)}')
        if conversation == "new" and address.namespace:
            raise ConfigError(
                'conversation="new" works in the main namespace: others have no conversation of their own'
            )
        keyed = keyed_id(idempotency_key, "put_checkpoint", address.thread_id, address.namespace)
        new = self._saver.new_checkpoint(
            address,
            parent=None if parent is None else address.checkpoint_id or HEAD,
            on_conflict=on_conflict,
            node_name=node_name,
            step=step,
            metadata=metadata,
            checkpoint_id=_one_of(new_id, keyed),
        )
        records = message_records(self._engine.codec, messages, None, address.run_id, self._engine.clock)
        gone = checked_ids(remove_messages, "remove_messages")
        extras = Extras(
            messages=records,
            remove=Removal(messages=gone) if gone else None,
            back_to=BackTo() if conversation == "new" else None,
            commit_id=None if new_id is None else ids.new_id(),
        )
        save = partial(self._saver.save_state, address, state, new, extras)
        return await self._saved(address, new, state, save, keyed)

    async def aget_checkpoint(
        self, config: Config | str, *, known: Checkpoint | None = None
    ) -> Checkpoint[StateT] | None:
        """Return the head, or the checkpoint that the config's `checkpoint_id` names; `None` if it
        does not exist.

        `known` is a checkpoint that was saved or loaded before. If it is current (same id and
        `version`), the state is not loaded, and is `clew.NOT_LOADED`.
        """
        address = self._engine.address(config)
        if known is not None and not isinstance(known, Checkpoint):
            raise ConfigError(f"known must be a Checkpoint that was saved or loaded, not {type(known).__name__}")
        loaded = await self._loader.load(address, known)
        if loaded is None:
            return None
        metadata = self._loader.metadata(address, loaded.record)
        return Checkpoint(metadata=metadata, state=loaded.state, version=loaded.version)

    async def alist_checkpoints(
        self,
        config: Config | str,
        *,
        limit: int | None = 10,
        before: str | None = None,
        run_id: str | None = None,
        where: Mapping[str, Any] | None = None,
        namespaces: Namespaces = "own",
    ) -> list[CheckpointInfo]:
        """List checkpoints of the thread, newest first, without their states. `before` is a checkpoint's id.

        `where` selects checkpoints by values of their metadata (`None` matches a missing key); the
        client compares them, so they never become part of a query. `namespaces="all"` lists every
        namespace instead of the config's.
        """
        address = self._engine.address(config)
        wanted = CheckpointFilter(limit=limit, before=before, run_id=run_id, where=where, namespaces=namespaces)
        pages = self._loader.matching(address, wanted, detail="info")
        return [info async for page in pages for info, _ in page.found]

    async def aget_history(
        self,
        config: Config | str,
        limit: int | None = 10,
        *,
        before: str | None = None,
        run_id: str | None = None,
        where: Mapping[str, Any] | None = None,
        namespaces: Namespaces = "own",
    ) -> list[Checkpoint[StateT]]:
        """Return the newest checkpoints with their states, newest first.

        The other parameters are those of `alist_checkpoints`, which does not load the states.
        """
        address = self._engine.address(config)
        wanted = CheckpointFilter(limit=limit, before=before, run_id=run_id, where=where, namespaces=namespaces)
        loader = self._loader
        return [
            Checkpoint(metadata=loader.metadata(address, record), state=loader.decode(address, record, page.rows))
            async for page in loader.matching(address, wanted, detail="state")
            for _, record in page.found
        ]

    async def adelete_checkpoint(self, config: Config | str) -> bool:
        """Remove the checkpoint that the config's `checkpoint_id` names. Returns whether it existed.

        Its messages stay where they are in the conversation. If it was the last checkpoint of the head's
        branch, the newest checkpoint of another branch becomes the head, with that branch's conversation.
        """
        address = self._engine.address(config)
        if address.checkpoint_id is None:
            raise ConfigError(
                "delete_checkpoint needs a 'checkpoint_id' in the config; to remove all of a thread, use clear_state"
            )
        removal = Removal(checkpoints=((address.namespace, address.checkpoint_id),))
        applied = await self._engine.remove(address, removal)
        # A commit that was repeated because its answer was lost does not know how much it removed.
        return applied.removed > 0 or applied.repeated

    async def aexists(self, config: Config | str) -> bool:
        """Return whether the thread has a checkpoint, or the one that the config names."""
        address = self._engine.address(config)
        page = await self._loader.page(address, checkpoint_id=address.checkpoint_id)
        return bool(page.checkpoints)

    async def adiff(self, config_a: Config | str, config_b: Config | str) -> Diff:
        """Compare the states that two configs name; changes lead from `config_a` to `config_b`."""
        before, after = self._engine.address(config_a), self._engine.address(config_b)
        return diff(await self._state_to_compare(before), await self._state_to_compare(after))

    async def _saved(
        self,
        address: Address,
        new: NewCheckpoint,
        state: Any,
        save: Callable[[], Awaitable[Saved]],
        keyed: str | None,
    ) -> Checkpoint[StateT]:
        """Save `new`, unless an earlier call with the same key has done it. Returns the saved checkpoint.

        The key's commit has the id of its checkpoint. So the storage recognises a repetition for as long as
        the checkpoint exists, and applies only one of two concurrent calls.
        """
        if keyed is not None and (done := await self._loader.stored(address, new.checkpoint_id)) is not None:
            return done
        try:
            saved = await save()
        except TransientStorageError:
            raise
        except ClewError:
            # The other call of this key may have been faster, so that the change does not fit the new head.
            if keyed is None or (done := await self._loader.stored(address, new.checkpoint_id)) is None:
                raise
            return done
        if self._saver.after_save is not None:
            await self._saver.after_save(address)
        if (
            keyed is not None
            and saved.applied.repeated
            and (done := await self._loader.stored(address, new.checkpoint_id)) is not None
        ):
            return done
        return self._saver.checkpoint(address, new, saved, state)

    async def _state_to_compare(self, address: Address) -> Any:
        loaded = await self._loader.load(address)
        if loaded is None:
            await self._engine.check_owner(address)
            if address.checkpoint_id is not None:
                raise missing_checkpoint(address)
            raise ConfigError(f"thread {address.thread_id!r} has no checkpoint to compare")
        return loaded.state

    put_state = blocking(aput_state)
    if TYPE_CHECKING:

        @overload
        def get_state(self: StateMethods[Untyped], config: Config | str) -> Any: ...
        @overload
        def get_state(self, config: Config | str) -> StateT | None: ...
        def get_state(self, config: Config | str) -> Any:
            """Return the state at the head, or at the config's `checkpoint_id`; `None` if there is none."""
    else:
        get_state = blocking(aget_state)
    clear_state = blocking(aclear_state)
    update_state = blocking(aupdate_state)
    put_checkpoint = blocking(aput_checkpoint)
    get_checkpoint = blocking(aget_checkpoint)
    list_checkpoints = blocking(alist_checkpoints)
    get_history = blocking(aget_history)
    delete_checkpoint = blocking(adelete_checkpoint)
    exists = blocking(aexists)
    diff = blocking(adiff)


def _one_of(new_id: str | None, keyed: str | None) -> str | None:
    if new_id is not None and keyed is not None:
        raise ConfigError("give either new_id or idempotency_key: the key makes the checkpoint's id")
    return keyed if new_id is None else new_id

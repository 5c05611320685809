"""Saving and loading: state, changes, checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from clew import ids
from clew.checkpointer.blocking import blocking
from clew.checkpointer.core import STALE_ATTEMPTS, too_busy
from clew.checkpointer.finding import Finding, Namespaces, Wanted
from clew.checkpointer.records import message_records
from clew.checkpointer.saving import NOT_LOADED, OldViewError, Saved, damaged
from clew.errors import ConfigError, ConflictError, CorruptRecordError, shown
from clew.model.checkpoint import Checkpoint, CheckpointInfo
from clew.model.commit import HEAD, NewCheckpoint, OnConflict, Removal, TheHead
from clew.model.config import Address, Config, checked_text, read_config
from clew.model.message import Message


class StateMethods(Finding):
    """Methods that save and load states."""

    async def aput_state(self, config: Config | str, state: Any) -> Any:
        """Save `state` as the thread's new head; returns `state`. Raises UnsupportedTypeError before anything is written."""
        address = read_config(config)
        new = self._new_checkpoint(address, parent=address.checkpoint_id or HEAD)
        await self._save_state(address, state, new)
        return state

    async def aget_state(self, config: Config | str) -> Any:
        """The state at the head, or at the config's `checkpoint_id`; `None` if there is none."""
        loaded = await self._load(read_config(config))
        return None if loaded is None else loaded.state

    async def aclear_state(self, config: Config | str) -> None:
        """Remove all checkpoints of the thread. Its messages and its description stay."""
        address = read_config(config)
        await self._remove(address, Removal(state=True))
        self._cache.drop(address.thread_id)

    async def aupdate_state(
        self,
        config: Config | str,
        *,
        set: Mapping[str, Any] | None = None,
        append: Mapping[str, Iterable[Any]] | None = None,
        remove: Iterable[str] = (),
        messages: Sequence[Message | Mapping[str, Any]] = (),
        node_name: str | None = None,
        step: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        on_conflict: OnConflict = "branch",
        new_id: str | None = None,
    ) -> Checkpoint:
        """A new checkpoint from the head with some fields changed, at the cost of the change, whatever the state's size.

        `set` replaces fields, `append` adds to the end of lists (a missing one is begun), `remove` takes fields away
        (a missing one is none), `messages` go to the conversation record with it, atomically. The rest is neither loaded
        nor encoded, so the returned checkpoint's state is `clew.NOT_LOADED`. If another writer moves the head meanwhile,
        the change is made to the new head; with `checkpoint_id` in the config, it is made to that checkpoint, and
        `on_conflict` decides as in `aput_checkpoint`, which says what the other parameters mean.
        """
        address = read_config(config)
        changes = {
            "set": _checked_changes(set, "set"),
            "append": {name: _checked_items(each, name) for name, each in _checked_changes(append, "append").items()},
            "remove": [remove] if isinstance(remove, str) else _checked_list(remove, "remove", "names of fields"),
        }
        new = self._described_checkpoint(
            address,
            parent=None,
            # Without a checkpoint to start from, a conflict is how this call finds out that the head has moved.
            on_conflict=_checked_choice(on_conflict) if address.checkpoint_id else "reject",
            node_name=node_name,
            step=step,
            metadata=metadata,
            new_id=new_id,
        )
        records = message_records(self._codec, messages, None, address.run_id)
        commit_id = None if new_id is None else ids.new_id()
        update = partial(self._update, address, new=new, messages=records, commit_id=commit_id)
        if address.checkpoint_id and new.on_conflict == "reject":
            saved = await update(changes, at=self._clock.now())
        else:
            saved = await self._update_state(address, changes, update)
        return self._checkpoint(address, new, saved, NOT_LOADED)

    async def aput_checkpoint(
        self,
        config: Config | str,
        state: Any,
        *,
        messages: Sequence[Message | Mapping[str, Any]] = (),
        remove_messages: Iterable[str] = (),
        node_name: str | None = None,
        step: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        on_conflict: OnConflict = "branch",
        parent: None | TheHead = HEAD,
        new_id: str | None = None,
    ) -> Checkpoint:
        """Save `state` and `messages` together, atomically, as the thread's new head.

        `remove_messages` are ids of messages that go in the same moment (one that is not there is none).
        With `checkpoint_id` in the config ("I started from this one"), and if the head has moved since,
        `on_conflict` decides: "branch" keeps both, "reject" raises ConflictError. `parent=None` says instead that it
        started from nothing: a beginning, and with "reject" there must be no other checkpoint in its namespace.

        The new checkpoint's id is made here unless `new_id` gives one. One that the namespace has already is replaced in
        its place: it keeps its parent and its sequence, and there is no conflict.
        """
        address = read_config(config)
        new = self._described_checkpoint(
            address,
            parent=None if parent is None else address.checkpoint_id or HEAD,
            on_conflict=_checked_choice(on_conflict),
            node_name=node_name,
            step=step,
            metadata=metadata,
            new_id=new_id,
        )
        records = message_records(self._codec, messages, None, address.run_id)
        gone = _checked_ids(remove_messages, "remove_messages")
        commit_id = None if new_id is None else ids.new_id()
        remove = Removal(messages=gone) if gone else None
        saved = await self._save_state(address, state, new, messages=records, remove=remove, commit_id=commit_id)
        return self._checkpoint(address, new, saved, state)

    async def aget_checkpoint(self, config: Config | str, *, known: Checkpoint | None = None) -> Checkpoint | None:
        """The head, or the checkpoint that the config's `checkpoint_id` names; `None` if it is not there.

        If it is still `known`, which was saved or loaded before (by its id and `version`), the state is `clew.NOT_LOADED`.
        """
        address = read_config(config)
        if known is not None and not isinstance(known, Checkpoint):
            raise ConfigError(f"known must be a Checkpoint that was saved or loaded, not {type(known).__name__}")
        loaded = await self._load(address, known)
        if loaded is None:
            return None
        described = self._described(address, loaded.record)
        return Checkpoint(metadata=described, state=loaded.state, version=loaded.version)

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
        """Checkpoints of the thread, newest first, without their states. `before` is a checkpoint's id.

        `where` leaves only those whose metadata has these values (`None`: or has none); it is compared here and becomes
        part of no query. `namespaces="all"` lists those of every namespace, not only of the config's.
        """
        address = read_config(config)
        wanted = Wanted(limit=limit, before=before, run_id=run_id, where=where, namespaces=namespaces)
        pages = self._matching(address, wanted, detail="info")
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
    ) -> list[Checkpoint]:
        """The newest checkpoints with their states, newest first: in one read, or with `where` in one for each page."""
        address = read_config(config)
        wanted = Wanted(limit=limit, before=before, run_id=run_id, where=where, namespaces=namespaces)
        return [
            Checkpoint(metadata=self._described(address, record), state=self._decode(address, record, page.rows))
            async for page in self._matching(address, wanted, detail="state")
            for _, record in page.found
        ]

    async def adelete_checkpoint(self, config: Config | str) -> bool:
        """Remove the checkpoint that the config's `checkpoint_id` names; says whether it was there."""
        address = read_config(config)
        if address.checkpoint_id is None:
            raise ConfigError(
                "adelete_checkpoint needs a 'checkpoint_id' in the config; aclear_state removes all of a thread"
            )
        applied = await self._remove(address, Removal(checkpoints=((address.namespace, address.checkpoint_id),)))
        # A removal that was repeated because its answer got lost can't say any more how much it removed.
        return applied.removed > 0 or applied.repeated

    async def aexists(self, config: Config | str) -> bool:
        """Whether the thread has a checkpoint, or the one that the config names."""
        address = read_config(config)
        page = await self._page(address, checkpoint_id=address.checkpoint_id)
        return bool(page.checkpoints)

    async def _update(self, address: Address, changes: Mapping[str, Any], *, new: NewCheckpoint, **more: Any) -> Saved:
        """Save the head, or the checkpoint that `address` names, with some fields changed."""
        edited = partial(self._codec.edit, **changes)
        known = self._known_view(address)
        for _ in range(STALE_ATTEMPTS):
            found = known or await self._view_to_edit(address)
            view, log = found if found is not None else (None, None)
            try:
                encode, parent = partial(edited, None, ()), None
                if view is not None:
                    rows = () if view.entries is not None else await self._rows_to_edit(address, view.body)
                    encode, parent = partial(edited, view.body, rows, entries=view.entries), view.checkpoint_id
                new = replace(new, parent=parent)
                return await self._save(address, encode, new, log=log, **more)
            except OldViewError:
                known = None
            except CorruptRecordError as error:
                # What this process knew may have been removed by another; what was just read is damaged.
                if known is None:
                    raise damaged(address, view.checkpoint_id if view else None, error) from error
                known = None
            except ConflictError as error:
                if type(error) is not ConflictError or address.checkpoint_id:
                    raise
                # Mostly it was this process that moved the head: going on from there without a read keeps turns fair.
                newer = self._known_view(address)
                known = newer if newer and view and newer[0].checkpoint_id != view.checkpoint_id else None
        raise too_busy(address.thread_id)

    def _described_checkpoint(
        self, address: Address, *, node_name: str | None, step: int | None, new_id: str | None, **more: Any
    ) -> NewCheckpoint:
        return self._new_checkpoint(
            address,
            # An empty name is one, too.
            node_name=checked_text("node_name", node_name) if node_name else _checked(node_name, str, "node_name"),
            step=_checked_step(step),
            checkpoint_id=None if new_id is None else checked_text("new_id", new_id),
            **more,
        )

    put_state = blocking(aput_state)
    get_state = blocking(aget_state)
    clear_state = blocking(aclear_state)
    update_state = blocking(aupdate_state)
    put_checkpoint = blocking(aput_checkpoint)
    get_checkpoint = blocking(aget_checkpoint)
    list_checkpoints = blocking(alist_checkpoints)
    get_history = blocking(aget_history)
    delete_checkpoint = blocking(adelete_checkpoint)
    exists = blocking(aexists)


def _checked_choice(on_conflict: OnConflict) -> OnConflict:
    if on_conflict not in ("branch", "reject"):
        raise ConfigError(f'on_conflict must be "branch" or "reject", not {shown(on_conflict)}')
    return on_conflict


def _checked_list(values: Iterable[Any], name: str, what: str) -> list[Any]:
    if not isinstance(values, Iterable):
        raise ConfigError(f"{name} must be a list of {what}, not {type(values).__name__}")
    return list(values)


def _checked(value: Any, kind: type, name: str) -> Any:
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise ConfigError(f"{name} must be {kind.__name__} or None, not {type(value).__name__}: {shown(value)}")
    return value


def _checked_step(step: int | None) -> int | None:
    _checked(step, int, "step")
    if step is not None and not -(1 << 63) <= step < 1 << 63:
        raise ConfigError(f"step must fit into 64 bits; got {shown(step)}")
    return step


def _checked_changes(changes: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    if changes is not None and not isinstance(changes, Mapping):
        raise ConfigError(f"{name} must be a mapping of fields, not {type(changes).__name__}")
    return dict(changes or {})


def _checked_ids(ids: Iterable[str], name: str) -> tuple[str, ...]:
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise ConfigError(f"{name} must be a list of ids, not one {type(ids).__name__}")
    return tuple([checked_text(f"{name}[{at}]", each) for at, each in enumerate(ids)])


def _checked_items(items: Iterable[Any], name: str) -> list[Any]:
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise ConfigError(f"append[{name!r}] must be a list of what to append, not one {type(items).__name__}")
    return list(items)

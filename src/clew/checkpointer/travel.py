"""Forks and differences."""

from __future__ import annotations

from typing import Any

from clew.checkpointer.blocking import blocking
from clew.checkpointer.saving import Saving, gone
from clew.codec.diff import diff
from clew.errors import ConfigError
from clew.ids import new_id
from clew.model.commit import Commit, ForkSource
from clew.model.config import Address, Config, read_config
from clew.model.diff import Diff


class TravelMethods(Saving):
    """Methods that branch and compare."""

    async def afork(self, config: Config | str, thread_id: str | None = None) -> dict[str, Any]:
        """Begin a new thread at the head, or at the config's `checkpoint_id`; returns the new thread's config.

        The fork has that one checkpoint under its id, its attachments, and the messages up to it. Nothing passes through the
        client: the storage shares or copies what is needed. Raises ConflictError if `thread_id` is taken.
        """
        address = read_config(config)
        target = read_config({"thread_id": new_id() if thread_id is None else thread_id}).thread_id
        if target == address.thread_id:
            raise ConfigError(f"a fork needs a thread of its own; {target!r} is the source")
        checkpoint_id = address.checkpoint_id
        if checkpoint_id is None:
            head = (await self._page(address)).checkpoints
            checkpoint_id = head[0].checkpoint_id if head else None
        commit = Commit(
            commit_id=new_id(),
            thread_id=target,
            user=address.user,
            at=self._clock.now(),
            fork=ForkSource(
                thread_id=address.thread_id,
                namespace=address.namespace,
                checkpoint_id=checkpoint_id,
                # What frameworks attach to a checkpoint, or derive from it, goes by its id.
                as_checkpoint_id=checkpoint_id or new_id(),
            ),
        )
        await self._apply(commit)
        forked: dict[str, Any] = {"thread_id": target}
        if address.user is not None:
            forked["user_id"] = address.user
        if address.namespace:
            forked["checkpoint_ns"] = address.namespace
        return forked

    async def adiff(self, config_a: Config | str, config_b: Config | str) -> Diff:
        """How the state that `config_b` names differs from the one that `config_a` names."""
        before, after = read_config(config_a), read_config(config_b)
        return diff(await self._state_at(before), await self._state_at(after))

    async def _state_at(self, address: Address) -> Any:
        loaded = await self._load(address)
        if loaded is None:
            if address.checkpoint_id is not None:
                raise gone(address)
            raise ConfigError(f"thread {address.thread_id!r} has no checkpoint to compare")
        return loaded.state

    fork = blocking(afork)
    diff = blocking(adiff)

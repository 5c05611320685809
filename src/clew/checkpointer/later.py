"""What is accepted now and written later, with `durability="background"`: everything is captured when the call is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from clew.checkpointer.saving import Saved, Saving
from clew.model.commit import Applied, Commit, NewCheckpoint
from clew.model.config import Address


class Later(Saving):
    """Saves now or later, as the checkpointer's durability says.

    Of a save that is only accepted, nobody knows yet what the storage will decide: its sequence is 0, and its parent the one
    that the config names, or `None`. One that may be refused for a conflict is never put off.
    """

    async def _save_state(self, address: Address, state: Any, new: NewCheckpoint, **more: Any) -> Saved:
        """Save a whole state; the same as `_save`."""
        if self._background is None or new.on_conflict == "reject":
            encode = partial(self._codec.encode, state, namespace=address.namespace)
            return await self._save(address, encode, new, **more)
        packed = self._codec.packed(state)
        encode = partial(self._codec.encode_packed, packed, namespace=address.namespace)
        at = self._clock.now()
        return await self._put_off(address, packed.size, at, partial(self._save, address, encode, new, at=at, **more))

    async def _update_state(
        self, address: Address, changes: Mapping[str, Any], update: Callable[..., Awaitable[Saved]]
    ) -> Saved:
        """Do `update` with `changes`."""
        at = self._clock.now()
        if self._background is None:
            return await update(changes, at=at)
        captured, size = self._codec.snapshot(changes)
        return await self._put_off(address, size, at, partial(update, captured, at=at))

    async def _apply_small(self, address: Address, commit: Commit, size: int) -> None:
        """Apply a commit that brings `size` bytes and no values."""
        if self._background is None:
            await self._apply_plain(commit)
        else:
            await self._put_off(address, size, commit.at, partial(self._apply_plain, commit))

    async def _put_off(self, address: Address, size: int, at: datetime, work: Callable[[], Awaitable[object]]) -> Saved:
        assert self._background is not None
        await self._background.put(address.thread_id, address.user, size, work)
        return Saved(Applied(basis=None, parent_id=address.checkpoint_id, created_at=at))

"""What LangGraph's configs name in the store."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.langgraph.addresses import Addresses, of_everybody
from clew.adapters.langgraph.ids import inner_id, outer_id
from clew.adapters.langgraph.twins import SyncTwins
from clew.checkpointer.base import BaseCheckpointer
from clew.model.config import ANY_USER
from clew.storage.rules import not_the_owner


class Naming(SyncTwins):
    """Finds the thread, the owner and the checkpoint that a config names."""

    def __init__(
        self, checkpointer: BaseCheckpointer | str | None, *, serde: SerializerProtocol, owner_key: str | None
    ) -> None:
        self._addresses = Addresses(owner_key)
        super().__init__(checkpointer, serde=serde)

    @property
    def owner_key(self) -> str | None:
        """The configurable that names the owner of a thread."""
        return self._addresses.owner_key

    async def _named(self, config: RunnableConfig, **more: Any) -> dict[str, Any]:
        """Clew's config for what LangGraph's names."""
        named = self._addresses.clew_config(config, **more)
        checkpoint_id = named["checkpoint_id"]
        return {**named, "checkpoint_id": await self._stored_id(named, checkpoint_id)} if checkpoint_id else named

    async def _check_owner(self, source: dict[str, Any]) -> None:
        """Raise PermissionDeniedError if the thread is somebody else's: to whoever reads it, it would look empty.

        Only asked if nothing was found.
        """
        user_id, everybody = source["user_id"], of_everybody(source["thread_id"])
        thread = await self.checkpointer.aget_thread(everybody) if user_id is not ANY_USER else None
        if thread is not None and thread.user_id is not None and thread.user_id != user_id:
            with self._addresses.naming_the_owner():
                raise not_the_owner(thread.thread_id, user_id)

    async def _stored_id(self, where: dict[str, Any], outer: str) -> str:
        """The stored id of the checkpoint that LangGraph calls `outer`, in the thread and namespace of `where`."""
        known = inner_id(outer)
        if known is not None:
            return known
        there = await self.checkpointer.alist_checkpoints({**where, "checkpoint_id": None}, limit=None)
        return next((each.checkpoint_id for each in there if outer_id(each.checkpoint_id) == outer), outer)

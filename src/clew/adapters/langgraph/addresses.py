"""Translation between LangGraph's configs and Clew's: threads, owners and checkpoint ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self
from uuid import UUID

from langchain_core.runnables import RunnableConfig

from clew.adapters.langgraph.ids import inner_id, outer_id
from clew.checkpointer.base import BaseCheckpointer
from clew.errors import ConfigError, PermissionDeniedError
from clew.model.config import ANY_USER, AnyUser, User
from clew.storage.refusals import not_the_owner


class OwnedId(str):
    """A thread id that carries its owner into the configs of subgraph states.

    LangGraph builds those configs from a thread id and a namespace and drops everything else.
    Elsewhere it is a plain id: taking it out of a loaded config grants no rights.
    """

    owner: Any

    def __new__(cls, thread_id: str, owner: Any = None) -> Self:
        made = super().__new__(cls, thread_id)
        made.owner = owner
        return made

    def __str__(self) -> str:
        # LangGraph calls str() on ids, which must not lose the owner.
        return self


def check_owner_key(owner_key: str | None) -> None:
    """Raise ConfigError unless `owner_key` is the name of a configurable, or `None`."""
    if owner_key is not None and (not isinstance(owner_key, str) or not owner_key):
        raise ConfigError(f"owner_key must be the name of a configurable, or None; got {owner_key!r:.60}")


class Addresses:
    """Reads LangGraph's configs and builds them.

    `owner_key` is the configurable that names a thread's owner. With `None`, threads have no owner.
    """

    def __init__(self, checkpointer: BaseCheckpointer, owner_key: str | None) -> None:
        self._checkpointer = checkpointer
        self.owner_key = owner_key

    # --- From LangGraph's configs to Clew's

    async def address(self, config: RunnableConfig, **more: Any) -> dict[str, Any]:
        """Return Clew's config for LangGraph's `config`. Numbers and UUIDs become text."""
        given: Mapping[str, Any] = config.get("configurable", {})
        address = {
            "thread_id": str.__str__(str(given["thread_id"])),
            "user_id": _user(self._owner(given)),
            "checkpoint_id": given.get("checkpoint_id") or None,
            "checkpoint_ns": given.get("checkpoint_ns") or "",
            **more,
        }
        if address["checkpoint_id"]:
            address["checkpoint_id"] = await self.stored_id(address, address["checkpoint_id"])
        return address

    async def stored_id(self, address: dict[str, Any], outer: str) -> str:
        """Return the stored id of the checkpoint that LangGraph calls `outer`.

        It is looked up in the thread and namespace of `address`. An unknown id is returned
        unchanged.
        """
        known = inner_id(outer)
        if known is not None:
            return known
        infos = await self._checkpointer.alist_checkpoints({**address, "checkpoint_id": None}, limit=None)
        return next((each.checkpoint_id for each in infos if outer_id(each.checkpoint_id) == outer), outer)

    def owner_of(self, config: RunnableConfig) -> Any:
        """Return the owner that the caller named, unconverted."""
        return self._owner(config.get("configurable", {}))

    def _owner(self, given: Mapping[str, Any]) -> Any:
        if self.owner_key is None:
            return None
        owner, thread_id = given.get(self.owner_key), given.get("thread_id")
        if owner is None and isinstance(thread_id, OwnedId) and given.get("checkpoint_ns"):
            return thread_id.owner
        return owner

    # --- From Clew's configs to LangGraph's

    def checkpoint_config(
        self, thread_id: str, namespace: str, checkpoint_id: str, *, owner: Any = None, **more: Any
    ) -> RunnableConfig:
        """Return LangGraph's config of a checkpoint of `owner`'s thread."""
        configurable = self.thread_config(thread_id, owner)["configurable"]
        named = {"checkpoint_ns": namespace, "checkpoint_id": outer_id(checkpoint_id)}
        return {"configurable": {**configurable, **named, **more}}

    def thread_config(self, thread_id: str, owner: Any) -> RunnableConfig:
        """Return LangGraph's config of a thread."""
        if self.owner_key is None or owner is None:
            return {"configurable": {"thread_id": thread_id}}
        return {"configurable": {"thread_id": OwnedId(thread_id, owner), self.owner_key: owner}}

    # --- Permissions

    async def check_owner(self, address: dict[str, Any]) -> None:
        """Raise PermissionDeniedError if the thread belongs to another user.

        Reads of another user's thread find nothing. Call this when a read came back empty, so that
        the caller does not take the thread for a new one.
        """
        user_id = address["user_id"]
        if user_id is ANY_USER:
            return
        thread = await self._checkpointer.aget_thread(any_user(address["thread_id"]))
        if thread is not None and thread.user_id is not None and str(thread.user_id) != user_id:
            with self.explaining_ownership():
                raise not_the_owner(thread.thread_id, user_id)

    @contextmanager
    def explaining_ownership(self) -> Iterator[None]:
        """Add the configurable that names the owner to a PermissionDeniedError.

        An app may use the same configurable for something else.
        """
        try:
            yield
        except PermissionDeniedError as error:
            where = (
                f"configurable[{self.owner_key!r}] names the owner; to use another configurable, pass "
                "ClewSaver(…, owner_key=…), or owner_key=None for threads without owners"
                if self.owner_key is not None
                else "with owner_key=None, a ClewSaver uses threads without owners only"
            )
            raise PermissionDeniedError(f"{error} ({where})", **error.facts) from error


def _user(owner: Any) -> User:
    if owner is None or isinstance(owner, AnyUser):
        return owner
    if isinstance(owner, bool) or not isinstance(owner, (str, int, UUID)):
        raise ConfigError(
            f"the configurable that names the thread's owner must be text, a number or a UUID, not {type(owner).__name__}; "
            "to use another configurable, pass ClewSaver(…, owner_key=…), or owner_key=None for threads without owners"
        )
    return str(owner)


def any_user(thread_id: str) -> dict[str, Any]:
    """Return Clew's config for a LangGraph call that names no user, and so acts for every user."""
    return {"thread_id": str(thread_id), "user_id": ANY_USER}

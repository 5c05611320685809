"""Between LangGraph's configs and Clew's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from langchain_core.runnables import RunnableConfig

from clew.adapters.langgraph.ids import outer_id
from clew.errors import ConfigError, PermissionDeniedError
from clew.model.config import ANY_USER, AnyUser, User


class OwnedId(str):
    """A thread's id that remembers who asked for it.

    LangGraph makes the configs of subgraphs' states out of a thread's id and a namespace: nothing else of a config gets there.
    """

    owner: Any

    def __new__(cls, thread_id: str, owner: Any = None) -> Self:
        made = super().__new__(cls, thread_id)
        made.owner = owner
        return made

    def __str__(self) -> str:
        # LangGraph makes sure that an id is text with str().
        return self


@dataclass(frozen=True, slots=True)
class Addresses:
    """Reads LangGraph's configs and makes them; `owner_key` is the configurable that names a thread's owner, if any does."""

    owner_key: str | None

    def __post_init__(self) -> None:
        if self.owner_key is not None and (not isinstance(self.owner_key, str) or not self.owner_key):
            raise ConfigError(f"owner_key must be the name of a configurable, or None; got {self.owner_key!r:.60}")

    def clew_config(self, config: RunnableConfig, **more: Any) -> dict[str, Any]:
        """Clew's config for what LangGraph's names, but for the checkpoint's id, which is LangGraph's still; a number or a
        UUID stands for its text."""
        given: Mapping[str, Any] = config.get("configurable", {})
        return {
            "thread_id": str.__str__(str(given["thread_id"])),
            "user_id": _user(self._owner(given)),
            "checkpoint_id": given.get("checkpoint_id") or None,
            "checkpoint_ns": given.get("checkpoint_ns") or "",
            **more,
        }

    def owner_of(self, config: RunnableConfig) -> Any:
        """Whom the caller named as the owner, as he wrote it."""
        return self._owner(config.get("configurable", {}))

    def _owner(self, given: Mapping[str, Any]) -> Any:
        if self.owner_key is None:
            return None
        owner, thread_id = given.get(self.owner_key), given.get("thread_id")
        return thread_id.owner if owner is None and isinstance(thread_id, OwnedId) else owner

    def runnable_config(
        self, thread_id: str, namespace: str, checkpoint_id: str, *, owner: Any = None, **more: Any
    ) -> RunnableConfig:
        """LangGraph's config of a checkpoint, with which the same `owner` finds it again."""
        configurable = self.thread_config(thread_id, owner)["configurable"]
        named = {"checkpoint_ns": namespace, "checkpoint_id": outer_id(checkpoint_id)}
        return {"configurable": {**configurable, **named, **more}}

    def thread_config(self, thread_id: str, owner: Any) -> RunnableConfig:
        """LangGraph's config of a thread."""
        if self.owner_key is None or owner is None:
            return {"configurable": {"thread_id": thread_id}}
        return {"configurable": {"thread_id": OwnedId(thread_id, owner), self.owner_key: owner}}

    @contextmanager
    def naming_the_owner(self) -> Iterator[None]:
        """Says in a PermissionDeniedError where the owner's name comes from: an app may use that configurable otherwise."""
        try:
            yield
        except PermissionDeniedError as error:
            where = (
                f"configurable[{self.owner_key!r}] names the owner; ClewSaver(…, owner_key=…) takes another configurable, "
                "and owner_key=None none, for threads that belong to nobody"
                if self.owner_key is not None
                else "with owner_key=None a ClewSaver works with threads that belong to nobody"
            )
            raise PermissionDeniedError(f"{error} ({where})", **error.facts) from error


def _user(owner: Any) -> User:
    return owner if owner is None or isinstance(owner, AnyUser) else str(owner)


def of_everybody(thread_id: str) -> dict[str, Any]:
    """Clew's config for what LangGraph says without a config: it acts for everybody."""
    return {"thread_id": str(thread_id), "user_id": ANY_USER}

"""Saves of states: the parent of each, and the messages that are new in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from clew.adapters.agentflow.addresses import Thread, address_of, key_of
from clew.adapters.agentflow.bases import Base, Bases, stale
from clew.adapters.agentflow.framework import AgentState, Message
from clew.adapters.agentflow.models import recorded
from clew.adapters.fingerprint import fingerprint
from clew.adapters.texts import save_cleaned
from clew.bounded import BoundedMap
from clew.checkpointer.base import BaseCheckpointer
from clew.errors import ConflictError, LeaseError, ThreadDeletedError
from clew.model.checkpoint import Checkpoint
from clew.model.commit import HEAD, OnConflict
from clew.model.message import Message as Record

_REMEMBERED: Final = 1_000


class Known(NamedTuple):
    """A known checkpoint: the progress of its run, and the digests of its recorded messages."""

    checkpoint_id: str
    progress: Mapping[str, Any]
    messages: Mapping[str | int, bytes]


class Saves:
    """Saves states in `store`, each as a child of its config's base (`bases`)."""

    def __init__(self, store: BaseCheckpointer, *, record_messages: bool, on_conflict: OnConflict) -> None:
        self.bases = Bases()
        self._store = store
        self._record_messages = record_messages
        self._on_conflict: OnConflict = on_conflict
        self._known: BoundedMap[Thread, Known] = BoundedMap(max_entries=_REMEMBERED)
        """The checkpoint that this object saved or loaded last, by thread and user."""

    def loaded(self, config: dict[str, Any], head: Checkpoint) -> None:
        """Set the base to `head`, which was read with the config."""
        key = key_of(config)
        self.bases.read(config, key, head.checkpoint_id)
        self._known.put(key, Known(head.checkpoint_id, head.state["execution_meta"], self._digests(head.state)))

    def forget(self, config: dict[str, Any]) -> None:
        """Forget the thread after its state was removed."""
        self._known.pop(key_of(config))
        self.bases.forget(config, key_of(config))

    async def save(
        self,
        config: dict[str, Any],
        state: AgentState,
        data: dict[str, Any],
        saved: str,
        messages: Iterable[Message] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Save the state with its new and changed messages, and with `messages`."""
        key, address = key_of(config), address_of(config)
        base = self.bases.of(config, key)
        digests = self._digests(data)
        changed: dict[str | int, Message] = {}
        if self._record_messages:
            known = self.known_at(config)
            old = known.messages if known is not None else {}
            now = {each.message_id: each for each in state.context}
            changed = {name: each for name, each in now.items() if name not in old or old[name] != digests[name]}
            # The state's version wins: a node may have edited the message.
            changed |= {each.message_id: now.get(each.message_id, each) for each in messages}
        progress = state.execution_meta

        async def save(parts: tuple[dict[str, Any], list[Record]]) -> Checkpoint:
            fields, records = parts
            return await self._store.aput_checkpoint(
                address if base is None else address | {"checkpoint_id": base.checkpoint_id},
                fields,
                messages=records,
                node_name=progress.current_node,
                step=progress.step,
                metadata={"status": progress.status.value, "saved": saved},
                # Without a base, nothing was read, so there is nothing to compare the head with.
                on_conflict=self._on_conflict if base is not None else "branch",
                parent=None if base == Base(None) else HEAD,
            )

        try:
            done = await save_cleaned(save, (data, [recorded(message, metadata) for message in changed.values()]))
        except (LeaseError, ThreadDeletedError):
            raise
        except ConflictError as error:
            raise stale(config, base, error) from error
        self.bases.saved(config, key, done.checkpoint_id)
        self._known.put(key, Known(done.checkpoint_id, data["execution_meta"], digests))

    async def head_id(self, config: dict[str, Any]) -> str | None:
        """Return the id of the thread's head; `None` if there is none."""
        heads = await self._store.alist_checkpoints(address_of(config), limit=1)
        return heads[0].checkpoint_id if heads else None

    def _digests(self, data: Mapping[str, Any]) -> dict[str | int, bytes]:
        """Return the digests of a stored state's messages by id; none if messages are not recorded."""
        return {each["message_id"]: fingerprint(each) for each in data["context"]} if self._record_messages else {}

    def known_at(self, config: dict[str, Any]) -> Known | None:
        """Return the last checkpoint of the thread if it is the config's base."""
        key = key_of(config)
        known, base = self._known.get(key), self.bases.of(config, key)
        return known if known is None or base is None or base.checkpoint_id == known.checkpoint_id else None

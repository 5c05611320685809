"""What of a graph's state goes into the conversation record, and when."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.base import ChannelVersions
from langgraph.checkpoint.base import Checkpoint as GraphCheckpoint
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from clew.adapters.fingerprint import fingerprint, unsaid
from clew.adapters.langgraph.changes import Changes, Known, new_places
from clew.adapters.langgraph.forking import Forking
from clew.adapters.langgraph.layout import graph_checkpoint
from clew.adapters.langgraph.messages import (
    id_of,
    is_delta,
    is_message,
    moment_of,
    recorded,
    written,
)
from clew.checkpointer.base import BaseCheckpointer
from clew.clock import SYSTEM_CLOCK
from clew.model.message import Message


class Recording(Forking):
    """Finds what is new in the channel of messages."""

    def __init__(
        self,
        checkpointer: BaseCheckpointer | str | None,
        *,
        serde: SerializerProtocol,
        owner_key: str | None,
        messages: str | None,
    ) -> None:
        super().__init__(checkpointer, serde=serde, owner_key=owner_key)
        self._channel = messages

    def _channel_of(self, namespace: str) -> str | None:
        """The channel whose messages are recorded. A subgraph's are its own affair: what it says to others comes up anyway."""
        return None if namespace else self._channel

    async def _said(
        self,
        target: dict[str, Any],
        known: Known | None,
        found: Changes,
        checkpoint: GraphCheckpoint,
        new_versions: ChannelVersions,
    ) -> list[Message]:
        """What is new in the conversation."""
        channel = self._channel_of(target["checkpoint_ns"])
        if channel is None or channel not in checkpoint["channel_versions"]:
            return []
        value = checkpoint["channel_values"].get(channel)
        if is_delta(channel, checkpoint):
            new = await self._said_since(target, channel, value) if channel in new_versions else []
        elif type(value) is list and (channel in found.set or channel in found.append):
            places = new_places(known, found, channel, value)
            if places is None:
                places = await self._places_beside_the_parent(target, channel, value)
            new = [(at, value[at]) for at in places]
        else:
            return []
        return recorded(new, checkpoint["id"], moment_of(checkpoint) or SYSTEM_CLOCK.now())

    async def _said_since(self, target: dict[str, Any], channel: str, value: Any) -> list[tuple[int, Any]]:
        """What was said in a delta channel since the parent, which no checkpoint holds but now and then.

        LangGraph saves a checkpoint after the writes that it takes in.
        """
        if isinstance(value, _DeltaSnapshot):
            # Some of it may not be in any write, such as the first question after going back; most is recorded already.
            there = {each.message_id for each in await self.checkpointer.alist_messages(target, limit=None)}
            return [(at, each) for at, each in enumerate(written(value)) if id_of(each) not in there]
        if target["checkpoint_id"] is None:
            return []
        writes = [each for _, name, wrote in await self._writes(target) if name == channel for each in written(wrote)]
        return list(enumerate(writes))

    async def _places_beside_the_parent(self, target: dict[str, Any], channel: str, value: list[Any]) -> list[int]:
        """The places of what is new in a list of whose parent nothing is known here.

        Messages with ids replace themselves in the record, and nothing has to be read for them.
        """
        if target["checkpoint_id"] is None or all(id_of(each) for each in value if is_message(each)):
            return list(range(len(value)))
        parent = await self.checkpointer.aget_checkpoint(target)
        before = graph_checkpoint(parent, self.serde)["channel_values"].get(channel) if parent is not None else None
        old = before if isinstance(before, list) else []
        return unsaid([*map(fingerprint, old)], [*map(fingerprint, value)])

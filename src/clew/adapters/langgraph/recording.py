"""What of a graph's state goes into the conversation record, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import Checkpoint as GraphCheckpoint
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from clew.adapters.langgraph.changes import Changes, Known, new_places
from clew.adapters.langgraph.deltas import Deltas
from clew.adapters.langgraph.layout import graph_checkpoint
from clew.adapters.langgraph.messages import DeltaRecord, id_of, is_message, moment_of, recorded, unsaid, written
from clew.checkpointer.base import BaseCheckpointer
from clew.clock import SYSTEM_CLOCK
from clew.model.message import Message


class Recording(Deltas):
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
        self._delta_record = DeltaRecord()

    def meet(self, target: Mapping[str, Any], checkpoint: Mapping[str, Any]) -> None:
        """Note of what kind the channel of messages is in the thread that `target` names."""
        self._delta_record.meet(target["thread_id"], self._channel_of(target["checkpoint_ns"]), checkpoint)

    def _channel_of(self, namespace: str) -> str | None:
        """The channel whose messages are recorded. A subgraph's are its own affair: what it says to others comes up anyway."""
        return None if namespace else self._channel

    async def _said(
        self, target: dict[str, Any], known: Known | None, found: Changes, checkpoint: GraphCheckpoint
    ) -> list[Message]:
        """What is new in the conversation."""
        channel = self._channel_of(target["checkpoint_ns"])
        value = checkpoint["channel_values"].get(channel) if channel in checkpoint["channel_versions"] else None
        if channel is None or channel not in {*found.set, *found.append}:
            return []
        if isinstance(value, _DeltaSnapshot):
            new = self._delta_record.new(target["thread_id"], written(value.value))
        elif type(value) is list:
            places = new_places(known, found, channel, value)
            if places is None:
                places = await self._places_beside_the_parent(target, channel, value)
            new = [(at, value[at]) for at in places]
        else:
            return []
        return recorded(new, checkpoint["id"], moment_of(checkpoint) or SYSTEM_CLOCK.now())

    async def _places_beside_the_parent(self, target: dict[str, Any], channel: str, value: list[Any]) -> list[int]:
        """The places of what is new in a list of whose parent nothing is known here.

        Messages with ids replace themselves in the record, and nothing has to be read for them.
        """
        if target["checkpoint_id"] is None or all(id_of(each) for each in value if is_message(each)):
            return list(range(len(value)))
        parent = await self.checkpointer.aget_checkpoint(target)
        before = graph_checkpoint(parent, self.serde)["channel_values"].get(channel) if parent is not None else None
        return unsaid(before if isinstance(before, list) else [], value)

    def _written(self, target: dict[str, Any], writes: Sequence[tuple[int, str, str, str, Any]]) -> list[Message]:
        """What is said in writes to a delta channel: no checkpoint holds it, but now and then."""
        recorded_channel = self._channel_of(target["checkpoint_ns"])
        if recorded_channel is None or not self._delta_record.is_met(target["thread_id"]):
            return []
        now = self.checkpointer._clock.now()
        return [
            message
            for index, task_id, _, channel, value in writes
            if channel == recorded_channel
            for message in recorded(enumerate(written(value)), f"{target['checkpoint_id']}-{task_id}-{index}", now)
        ]

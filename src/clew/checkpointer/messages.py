"""The conversation record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clew.checkpointer.blocking import blocking
from clew.checkpointer.core import checked_limit, checked_search
from clew.checkpointer.later import Later
from clew.checkpointer.records import listed_message, message_of, message_records
from clew.errors import ConfigError, CorruptRecordError
from clew.model.commit import Removal
from clew.model.config import Address, Config, checked_text, read_config
from clew.model.message import Message
from clew.model.queries import MessageQuery
from clew.model.records import MessageRecord


class MessageMethods(Later):
    """Methods of the conversation record."""

    async def aput_messages(
        self,
        config: Config | str,
        messages: Sequence[Message | Mapping[str, Any]],
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Add messages at the end, all or none. One with a known id replaces that message in its place.

        `metadata` is added to that of each message.
        """
        address = read_config(config)
        if metadata is not None and not isinstance(metadata, Mapping):
            raise ConfigError(f"metadata must be a mapping, not {type(metadata).__name__}")
        records = message_records(self._codec, messages, metadata, address.run_id)
        if not records:
            return
        size = sum(len(record.data) for record in records)
        await self._apply_small(address, self._plain_commit(address, messages=records), size)

    async def aget_message(self, config: Config | str, message_id: str) -> Message | None:
        """One message, or `None`."""
        address = read_config(config)
        query = MessageQuery(
            thread_id=address.thread_id, user=address.user, message_id=checked_text("message_id", message_id)
        )
        await self._meet(address)
        records = await self._try(lambda: self._storage.messages(query))
        return self._message(address, records[0]) if records else None

    async def alist_messages(
        self, config: Config | str, search: str | None = None, offset: int = 0, limit: int | None = 50
    ) -> list[Message]:
        """Messages in their order. `search` finds a piece of text, in any language, whatever the case.

        One whose record is damaged is in its place with the role "damaged"; its metadata says what is wrong.
        """
        address = read_config(config)
        checked_limit(offset, "offset")
        query = MessageQuery(
            thread_id=address.thread_id,
            user=address.user,
            search=checked_search(search),
            offset=offset or 0,
            limit=checked_limit(limit),
        )
        await self._meet(address)
        records = await self._try(lambda: self._storage.messages(query))
        return [listed_message(self._codec, record) for record in records]

    async def adelete_message(self, config: Config | str, message_id: str) -> bool:
        """Remove one message; says whether it was there."""
        address = read_config(config)
        removal = Removal(messages=(checked_text("message_id", message_id),))
        applied = await self._remove(address, removal)
        return applied.removed > 0 or applied.repeated

    aget_messages = alist_messages

    put_messages = blocking(aput_messages)
    get_message = blocking(aget_message)
    list_messages = blocking(alist_messages)
    get_messages = blocking(alist_messages)
    delete_message = blocking(adelete_message)

    def _message(self, address: Address, record: MessageRecord) -> Message:
        try:
            return message_of(self._codec, record)
        except CorruptRecordError as error:
            raise CorruptRecordError(
                f"message {record.message_id!r} of thread {address.thread_id!r} is damaged: {error}",
                thread_id=address.thread_id,
                message_id=record.message_id,
            ) from error

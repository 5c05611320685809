"""Attachments: small keyed records that belong to a checkpoint and are written after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.checkpointer.blocking import blocking
from clew.checkpointer.later import Later
from clew.checkpointer.saving import damaged
from clew.errors import ConfigError, CorruptRecordError
from clew.model.config import Config, checked_text, read_config
from clew.model.queries import AttachmentQuery
from clew.model.records import AttachmentRecord


class AttachmentMethods(Later):
    """Methods of what is attached to checkpoints. It goes with its checkpoint in forks, copies and deletions."""

    async def aput_attachments(
        self, config: Config | str, attachments: Mapping[str, Any], *, keep: bool = False
    ) -> None:
        """Attach data to the checkpoint that the config's `checkpoint_id` names, by key, all or none.

        What is there under the same key is replaced, or with `keep` stays as it is. The checkpoint may come later.
        """
        address = read_config(config)
        if address.checkpoint_id is None:
            raise ConfigError("aput_attachments needs a 'checkpoint_id' in the config: the checkpoint to attach to")
        if not isinstance(attachments, Mapping):
            raise ConfigError(f"attachments must be a mapping of keys to data, not {type(attachments).__name__}")
        records = tuple(
            AttachmentRecord(
                namespace=address.namespace,
                checkpoint_id=address.checkpoint_id,
                key=checked_text("an attachment's key", key),
                data=self._codec.pack(data, name=f"attachments[{key!r}]"),
            )
            for key, data in attachments.items()
        )
        if records:
            commit = self._plain_commit(address, attachments=records, keep_attachments=keep)
            await self._apply_small(address, commit, sum(len(record.data) for record in records))

    async def alist_attachments(self, config: Config | str) -> dict[str, Any]:
        """What is attached to the head, or to the checkpoint that the config names, by key and in the order of the keys."""
        address = read_config(config)
        checkpoint_id = address.checkpoint_id
        if checkpoint_id is None:
            heads = (await self._page(address)).checkpoints
            if not heads:
                return {}
            checkpoint_id = heads[0].checkpoint_id
        query = AttachmentQuery(
            thread_id=address.thread_id, user=address.user, namespace=address.namespace, checkpoint_id=checkpoint_id
        )
        records = await self._try(lambda: self._storage.attachments(query))
        try:
            return {record.key: self._codec.unpack(record.data) for record in records}
        except CorruptRecordError as error:
            raise damaged(address, checkpoint_id, error) from error

    put_attachments = blocking(aput_attachments)
    list_attachments = blocking(alist_attachments)

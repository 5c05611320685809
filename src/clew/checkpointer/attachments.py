"""Attachments: small keyed records that belong to a checkpoint and are written after it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from clew.checkpointer.blocking import blocking
from clew.checkpointer.engine import Engine
from clew.checkpointer.loader import Loader
from clew.checkpointer.records import BAD_RECORD, attached
from clew.checkpointer.runner import Runner
from clew.checkpointer.saver import Saver
from clew.errors import ConfigError, shown
from clew.model.config import Config, checked_text
from clew.model.queries import AttachmentQuery, ThreadQuery
from clew.model.records import AttachmentRecord

_log = logging.getLogger("clew")


class AttachmentMethods:
    """Methods of attachments. Forks, copies and deletions of a checkpoint include its attachments."""

    _runner: Runner
    _engine: Engine
    _loader: Loader
    _saver: Saver

    async def aput_attachments(
        self, config: Config | str, attachments: Mapping[str, Any], *, keep: bool = False, touch: bool = True
    ) -> None:
        """Attach data by key to the checkpoint that the config's `checkpoint_id` names, all or none.

        Data under an existing key is replaced, or kept with `keep=True`. The checkpoint may be saved
        later. `touch=False` leaves the thread's `updated_at` unchanged, for maintenance that users should
        not see as activity.
        """
        engine = self._engine
        address = engine.address(config)
        if address.checkpoint_id is None:
            raise ConfigError("put_attachments needs a 'checkpoint_id' in the config: the checkpoint to attach to")
        if not isinstance(attachments, Mapping):
            raise ConfigError(f"attachments must be a mapping of keys to data, not {type(attachments).__name__}")
        for name, flag in (("keep", keep), ("touch", touch)):
            if not isinstance(flag, bool):
                raise ConfigError(f"{name} must be True or False, not {shown(flag)}")
        records = tuple(
            AttachmentRecord(
                namespace=address.namespace,
                checkpoint_id=address.checkpoint_id,
                key=checked_text("an attachment's key", key),
                data=engine.codec.pack(data, name=f"attachments[{key!r}]"),
            )
            for key, data in attachments.items()
        )
        if records:
            commit = engine.new_commit(address, attachments=records, keep_attachments=keep)
            if not touch:
                for thread in await engine.threads(ThreadQuery(user=address.user, thread_id=address.thread_id)):
                    commit = replace(commit, at=thread.updated_at)
            await self._saver.apply(address, commit, sum(len(record.data) for record in records))

    async def alist_attachments(self, config: Config | str) -> dict[str, Any]:
        """Return what is attached to the head, or to the checkpoint that the config names, by key
        in key order.

        A damaged attachment is left out and logged; `averify` lists it.
        """
        engine = self._engine
        address = engine.address(config)
        checkpoint_id = address.checkpoint_id
        if checkpoint_id is None:
            heads = (await self._loader.page(address)).checkpoints
            if not heads:
                return {}
            checkpoint_id = heads[0].checkpoint_id
        query = AttachmentQuery(
            thread_id=address.thread_id, user=address.user, namespace=address.namespace, checkpoint_id=checkpoint_id
        )
        records = await engine.retry(lambda: engine.storage.attachments(query))
        found: dict[str, Any] = {}
        for record in records:
            try:
                found[record.key] = attached(engine.codec, record)
            except BAD_RECORD as error:
                _log.warning(
                    "damaged attachment left out: %r of checkpoint %r of thread %r: %s",
                    *(record.key, checkpoint_id, address.thread_id, error),
                )
        return found

    put_attachments = blocking(aput_attachments)
    list_attachments = blocking(alist_attachments)

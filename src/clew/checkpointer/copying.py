"""Copying a whole thread: every checkpoint with its id, its parent and its attachments, and the messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clew.checkpointer.blocking import blocking
from clew.checkpointer.sweeping import Sweeping
from clew.codec.rows import unbroken
from clew.errors import ConfigError, ConflictError
from clew.ids import new_id
from clew.model.commit import Commit, Removal
from clew.model.config import ANY_USER, Address, Config, read_config
from clew.model.queries import ThreadQuery
from clew.model.records import Basis
from clew.storage.copying import Content, parts, read_content
from clew.storage.finishing import finished


class CopyMethods(Sweeping):
    """Methods that copy threads."""

    async def acopy_thread(self, config: Config | str, thread_id: str) -> dict[str, Any]:
        """Copy the thread with all its history under another id; returns the copy's config. (`afork` begins a thread at one
        checkpoint, and copies nothing.)

        Checkpoints keep their ids, parents, times and attachments, in all namespaces; messages and the description come
        too. The copy belongs to the source's owner, and refers to nothing of the source. Raises ConflictError if there is
        no such thread, or if `thread_id` is taken; what a failure or a cancellation cuts short is removed again.
        """
        return await self._copy(config, thread_id)

    async def _copy(
        self, config: Config | str, thread_id: str, choose: Callable[[Content], Content] | None = None
    ) -> dict[str, Any]:
        """The same for what `choose`, if it is given, takes of the thread."""
        address = read_config(config)
        target = read_config({"thread_id": thread_id}).thread_id
        if target == address.thread_id:
            raise ConfigError(f"a copy needs a thread of its own; {target!r} is the source")
        found = await self._thread_page(ThreadQuery(user=address.user, thread_id=address.thread_id))
        if not found:
            raise ConflictError(f"thread {address.thread_id!r}, to copy, does not exist", thread_id=address.thread_id)
        if await self._thread_page(ThreadQuery(user=ANY_USER, thread_id=target)):
            raise ConflictError(f"thread {target!r} exists: copy into a new one", thread_id=target)
        content = await self._try(lambda: read_content(self._storage, address.thread_id))
        if content is None:
            raise ConflictError(f"thread {address.thread_id!r}, to copy, was deleted", thread_id=address.thread_id)
        if choose is not None:
            content = choose(content)
        source = content.thread
        owner = {} if source.user_id is None else {"user_id": source.user_id}
        copy = read_config({"thread_id": target, **owner})
        basis: Basis | None = None

        async def write(commit: Commit) -> None:
            nonlocal basis
            basis = (await self._apply(commit)).basis

        try:
            for at, part in parts(content, unbroken(content.rows, content.basis.next_value)):
                # With the basis of the one before, so that nobody else's thread of this id is written to. To its end, so that
                # none is on its way any more when the copy is removed.
                await finished(
                    write(Commit(commit_id=new_id(), thread_id=target, user=copy.user, at=at, basis=basis, **part))
                )
        except BaseException:
            # A part of a thread would look whole, whatever cut it short.
            await finished(self._take_back(copy, basis))
            raise
        return {"thread_id": target, **owner}

    copy_thread = blocking(acopy_thread)

    async def _take_back(self, copy: Address, basis: Basis | None) -> None:
        """Remove what there is of a copy."""
        if basis is not None:
            await self._apply(self._plain_commit(copy, basis=basis, remove=Removal(thread=True)))
        self._forget(copy)

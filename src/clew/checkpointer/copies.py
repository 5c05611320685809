"""Forks and copies: new threads made from existing ones."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from clew.checkpointer.blocking import blocking
from clew.checkpointer.drafts import Draft
from clew.checkpointer.engine import Engine, too_busy
from clew.checkpointer.loader import Loader
from clew.checkpointer.records import checkpoint_info
from clew.checkpointer.runner import Runner
from clew.checkpointer.sweeper import ATTEMPTS
from clew.codec.rows import unbroken
from clew.errors import ConfigError, ConflictError, ThreadDeletedError, shown
from clew.ids import new_id
from clew.model.checkpoint import CheckpointInfo
from clew.model.commit import Commit, ForkSource
from clew.model.config import ANY_USER, Address, Config, read_config
from clew.model.queries import Content, ThreadQuery, ValueQuery
from clew.model.records import Basis
from clew.model.thread import ThreadPart
from clew.model.thread_config import Config as TypedConfig
from clew.storage.content import fields_of, parts, read_content
from clew.storage.protocol import StaleBasisError

Choose = Callable[[list[CheckpointInfo]], ThreadPart | None]


class CopyMethods:
    """Methods that fork and copy threads."""

    _runner: Runner
    _engine: Engine
    _loader: Loader

    async def afork(self, config: Config | str, thread_id: str | None = None) -> TypedConfig:
        """Begin a new thread at the head, or at the config's `checkpoint_id`; returns the new
        thread's config.

        The fork has one checkpoint, with the id of the original, its attachments, and the messages of
        its branch up to it. The storage shares or copies the data; nothing passes through the client.
        Raises ConflictError if `thread_id` exists.
        """
        engine = self._engine
        address = engine.address(config)
        target = read_config({"thread_id": new_id() if thread_id is None else thread_id}).thread_id
        if target == address.thread_id:
            raise ConfigError(f"a fork needs another thread id; {target!r} is the source")
        checkpoint_id = address.checkpoint_id
        if checkpoint_id is None:
            head = (await self._loader.page(address)).checkpoints
            checkpoint_id = head[0].checkpoint_id if head else None
        commit = Commit(
            commit_id=new_id(),
            thread_id=target,
            user=address.user,
            at=engine.clock.now(),
            fork=ForkSource(
                thread_id=address.thread_id,
                namespace=address.namespace,
                checkpoint_id=checkpoint_id,
                # Frameworks attach data to a checkpoint, or derive ids from it, by its id.
                as_checkpoint_id=checkpoint_id or new_id(),
            ),
        )
        try:
            await engine.apply(commit)
        except ConflictError:
            await engine.check_owner(address)
            raise
        forked: TypedConfig = {"thread_id": target}
        if address.user is not None:
            forked["user_id"] = engine.users.shown(address.user)
        if address.namespace:
            forked["checkpoint_ns"] = address.namespace
        return forked

    async def acopy_thread(self, config: Config | str, thread_id: str, *, choose: Choose | None = None) -> TypedConfig:
        """Copy the thread with all its history under another id; returns the copy's config.

        Checkpoints of all namespaces keep their ids, parents, times and attachments; messages and the
        description are copied too. The copy belongs to the source's owner and shares nothing with the
        source. It is a snapshot, and visible only when it is complete: an error, a cancellation or the
        end of the process leaves no copy. Raises ConflictError if the source does not exist, or if
        `thread_id` does, and CorruptRecordError if a record is damaged. (To begin a thread at one checkpoint, use `afork`.)

        `choose` limits the copy to a part of the thread. It is called with the thread's checkpoints at
        that moment, oldest first, and returns a `clew.ThreadPart`, or `None` for everything. A retry
        calls it again.
        """
        if choose is not None and not callable(choose):
            raise ConfigError(f"choose must be a function that returns a clew.ThreadPart, not {shown(choose)}")
        engine = self._engine
        address = engine.address(config)
        target = read_config({"thread_id": thread_id}).thread_id
        if target == address.thread_id:
            raise ConfigError(f"a copy needs another thread id; {target!r} is the source")
        for _ in range(ATTEMPTS):
            found = await engine.threads(ThreadQuery(user=address.user, thread_id=address.thread_id))
            content = await engine.retry(lambda: read_content(engine.storage, address.thread_id)) if found else None
            if content is None:
                await engine.check_owner(address)
                raise _no_source(address)
            try:
                basis = await _make_copy(engine, address, _chosen(engine, content, choose), target)
            except (StaleBasisError, ThreadDeletedError):
                # The draft, or a part of it, was removed meanwhile, for example by adelete_runs.
                continue
            copy: TypedConfig = {"thread_id": target}
            if content.thread.user_id is not None:
                copy["user_id"] = engine.users.shown(content.thread.user_id)
            engine.note_basis(read_config(copy), basis)
            return copy
        raise too_busy(target)

    fork = blocking(afork)
    copy_thread = blocking(acopy_thread)


def _chosen(engine: Engine, content: Content, choose: Choose | None) -> Content:
    """Return the part of the thread to copy."""
    if choose is None:
        return content
    thread_id, owner = content.thread.thread_id, content.thread.user_id
    part = choose([checkpoint_info(engine.codec, engine.users, thread_id, owner, each) for each in content.checkpoints])
    if part is None:
        return content
    checkpoints, attachments = frozenset(part.checkpoints), frozenset(part.attachments)
    messages = frozenset(part.messages)
    chosen = tuple(each for each in content.checkpoints if (each.namespace, each.checkpoint_id) in checkpoints)
    last = max((each.sequence for each in chosen if not each.namespace), default=0)
    return replace(
        content,
        checkpoints=chosen,
        attachments=tuple(each for each in content.attachments if (each.namespace, each.checkpoint_id) in attachments),
        messages=tuple(each for each in content.messages if each.message_id in messages),
        # The copy's head is older than later branch points.
        points=tuple((parent, start) for parent, start in content.points if start <= last),
    )


async def _make_copy(engine: Engine, address: Address, content: Content, target: str) -> Basis:
    """Write the copy as a draft, and publish it if its source still exists."""
    source, rows = content.thread, unbroken(content)
    async with Draft(engine, target) as draft:
        await draft.create(source.created_at, fields_of(source))
        for at, part in parts(content, rows):
            await draft.write(at, **part)
        now = (await engine.values(ValueQuery(thread_id=address.thread_id, user=ANY_USER, ranges=()))).basis
        if now is None or now.incarnation != content.basis.incarnation:
            # The source was deleted, so no copy of it is wanted.
            raise _no_source(address)
        return await draft.publish(source.updated_at, fields_of(source))


def _no_source(address: Address) -> ConflictError:
    return ConflictError(f"thread {address.thread_id!r}, to copy, does not exist", thread_id=address.thread_id)

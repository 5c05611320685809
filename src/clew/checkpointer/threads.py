"""Threads: descriptions, lists, deletion, and the cache of states."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

from msgspec.structs import replace

from clew.checkpointer.arguments import checked_limit, checked_search
from clew.checkpointer.blocking import blocking
from clew.checkpointer.cache import Key, Version
from clew.checkpointer.descriptions import Change, ExistingMetadata, ThreadChanges, change_of
from clew.checkpointer.engine import STALE_ATTEMPTS, Engine, too_busy
from clew.checkpointer.labels import wanted_labels
from clew.checkpointer.loader import Loader
from clew.checkpointer.records import BAD_RECORD, listed_thread, thread_info
from clew.checkpointer.runner import Runner
from clew.checkpointer.sweeper import address_of
from clew.checkpointer.thread_pages import all_threads, checked_place
from clew.errors import ConfigError
from clew.model.commit import Removal
from clew.model.config import Address, Config, User
from clew.model.generic import StateT, Untyped
from clew.model.queries import CheckpointPage, CheckpointQuery, ThreadQuery, ValueQuery
from clew.model.retention import RetentionPolicy
from clew.model.thread import ThreadInfo
from clew.storage.protocol import StaleBasisError

_log = logging.getLogger("clew")


class ThreadMethods(Generic[StateT]):
    """Methods of whole threads."""

    _runner: Runner
    _engine: Engine
    _loader: Loader

    async def aput_thread(
        self,
        config: Config | str,
        info: ThreadInfo | Mapping[str, Any] | None = None,
        *,
        existing_metadata: ExistingMetadata = "merge",
        **fields: Unpack[ThreadChanges],
    ) -> None:
        """Change the fields of the thread's description that are given: `aput_thread(config, tags=["a"])`.

        Fields are keywords or a mapping: `thread_name`, `tags`, `metadata`, `run_id`, `ttl`,
        `retention`. Others stay as they are, also if somebody changes them at the same time. `None`
        empties a field, and so does an empty list of tags. The metadata is merged: keys that are given
        change, and a key with the value `None` is removed; `metadata=None` empties it. With
        `existing_metadata="replace"`, the metadata that is given replaces the whole, atomically. In a
        ThreadInfo, fields with their default value change nothing. The thread is created if it is missing.

        After `ttl` seconds without a write, the thread has expired: it can be read until a cleanup
        removes it, and a write before that keeps it. The owner is the config's user. Only
        `clew.ANY_USER` may give a thread to another (`user_id`).
        """
        address = self._engine.address(config)
        change = change_of(address, info, fields, existing_metadata)
        # Packed first, so that text that can't be stored is refused with its path.
        change.applied(self._engine.codec, address, None)
        await self._describe(address, change)

    async def aput_retention(self, config: Config | str, policy: RetentionPolicy | None) -> None:
        """Give the thread its own retention policy, which cleanups use instead of theirs; `None` removes it.

        `RetentionPolicy(max_history=1, keep_every=1)` keeps everything. Forks and copies start with
        the policy of their source.
        """
        address = self._engine.address(config)
        await self._describe(address, change_of(replace(address, run_id=None), None, {"retention": policy}))

    async def aget_thread(self, config: Config | str) -> ThreadInfo | None:
        """Return the thread's description, head and counts, or `None`.

        Raises CorruptRecordError if it is damaged.
        """
        engine = self._engine
        address = engine.address(config)
        await engine.ensure_basis(address)
        records = await engine.threads(ThreadQuery(user=address.user, thread_id=address.thread_id))
        return thread_info(engine.codec, records[0], engine.users) if records else None

    async def alist_threads(
        self,
        config: Config,
        search: str | None = None,
        offset: int = 0,
        limit: int | None = None,
        *,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        before: ThreadInfo | str | None = None,
    ) -> list[ThreadInfo]:
        """List the threads of the config's `user_id`, the most recently active first.

        `search` matches ids, names and tags. A thread must have all of `tags`, and for each key of
        `metadata` the same value. `before` is a thread of an earlier page, or its `position`: the list
        continues after it, and is not disturbed by other writes. A thread that is written to moves to the
        front. Without `user_id`, lists the threads without an owner; with `clew.ANY_USER`, all. A damaged
        thread is listed too; its metadata says what is wrong.
        """
        if isinstance(config, str):
            raise ConfigError("list_threads takes a config with a 'user_id', such as {'user_id': 'alice'}")
        checked_limit(offset, "offset")
        query = ThreadQuery(
            user=self._engine.users.in_config(config),
            search=checked_search(search),
            offset=offset or 0,
            limit=checked_limit(limit),
            labels=wanted_labels(tags, metadata),
            before=checked_place(before),
        )
        engine = self._engine
        return [listed_thread(engine.codec, record, engine.users) for record in await all_threads(engine, query)]

    async def adelete_thread(self, config: Config | str) -> None:
        """Remove the thread with everything: checkpoints, messages, attachments, description, cache.

        A writer that began before the deletion gets ThreadDeletedError.
        """
        engine = self._engine
        address = engine.address(config)
        # Without a basis: a repeated deletion finds nothing, which is what it wants.
        await engine.apply(engine.new_commit(address, remove=Removal(thread=True)))
        engine.forget(address)

    aget_threads = alist_threads

    put_thread = blocking(aput_thread)
    put_retention = blocking(aput_retention)
    get_thread = blocking(aget_thread)
    list_threads = blocking(alist_threads)
    get_threads = blocking(alist_threads, "get_threads")
    delete_thread = blocking(adelete_thread)

    async def aput_state_cache(self, config: Config | str, state: StateT) -> None:
        """Cache `state` until the next save: in the checkpointer's cache, or else in this process.

        It is not durable.
        """
        address = self._engine.address(config)
        self._loader.typed(state)
        packed = self._engine.codec.pack(state, name="state")
        await self._engine.cache.put(_cache_key(address), packed, await self._version(address))

    @overload
    async def aget_state_cache(self: ThreadMethods[Untyped], config: Config | str) -> Any: ...
    @overload
    async def aget_state_cache(self, config: Config | str) -> StateT | None: ...
    async def aget_state_cache(self, config: Config | str) -> Any:
        """Return the cached state, or else the head, if it is cached; `None` otherwise.

        With `cache=`, the head that any process saved is cached, otherwise the one that this process saved
        or loaded last. What is returned is never older than the last save of any process.
        """
        engine = self._engine
        address = replace(engine.address(config), checkpoint_id=None)
        packed = await engine.cache.get(_cache_key(address), await self._version(address))
        if packed is not None:
            return self._loader.typed(engine.codec.unpack(packed))
        load = self._loader.load if engine.cache.shared else self._loader.load_held
        loaded = await load(address)
        return None if loaded is None else loaded.state

    async def awarm(self, user_id: str | int | None, limit: int = 3) -> int:
        """Load the user's most recently active threads into the cache; returns how many there were.

        Damaged threads are skipped and logged.
        """
        engine = self._engine
        user: User = engine.users.given(user_id)
        warmed = 0
        for record in await engine.threads(ThreadQuery(user=user, limit=checked_limit(limit))):
            try:
                warmed += await self._warm(address_of(record, record.user_id))
            except BAD_RECORD as error:
                _log.warning("damaged thread skipped: %r: %s", record.thread_id, error)
        return warmed

    async def _warm(self, address: Address) -> bool:
        """Load the thread's head into the cache. Returns whether there is one."""
        engine = self._engine
        # Read with the values even if this process knows them: a shared cache may not have them.
        page = await self._loader.page(address, detail="state")
        if not page.checkpoints:
            return False
        packed = engine.codec.pack(self._loader.decode_page(address, page).state, name="state")
        await engine.cache.put(_cache_key(address), packed, _version_of(page))
        return True

    put_state_cache = blocking(aput_state_cache)
    if TYPE_CHECKING:

        @overload
        def get_state_cache(self: ThreadMethods[Untyped], config: Config | str) -> Any: ...
        @overload
        def get_state_cache(self, config: Config | str) -> StateT | None: ...
        def get_state_cache(self, config: Config | str) -> Any:
            """Return the cached state, or the head, if this process saved or loaded it last; `None` otherwise."""
    else:
        get_state_cache = blocking(aget_state_cache)
    warm = blocking(awarm)

    async def _version(self, address: Address) -> Version:
        """The version of the thread's durable head."""
        engine = self._engine
        query = CheckpointQuery(thread_id=address.thread_id, user=address.user, namespace=address.namespace)
        return _version_of(await engine.retry(lambda: engine.storage.checkpoints(query)))

    async def _describe(self, address: Address, change: Change) -> None:
        """Change the thread's description, atomically."""
        engine = self._engine
        position = ValueQuery(thread_id=address.thread_id, user=address.user, ranges=())
        commit = engine.new_commit(address)
        for _ in range(STALE_ATTEMPTS):
            sequence = (await engine.values(position)).sequence
            records = await engine.threads(ThreadQuery(user=address.user, thread_id=address.thread_id))
            record = records[0] if records else None
            basis = await engine.known_basis(address.thread_id, address.user)
            try:
                await engine.apply(
                    replace(
                        commit,
                        basis=basis,
                        # Removes nothing, but is refused if the thread was written to since it was read.
                        remove=Removal(as_of=sequence),
                        thread=change.applied(engine.codec, address, record),
                    )
                )
                return
            except StaleBasisError:
                if basis is not None:
                    await engine.refresh_index(address.thread_id, address.user)
        raise too_busy(address.thread_id)


def _version_of(page: CheckpointPage) -> Version:
    """The version of the durable head, which is the first checkpoint of `page`."""
    if page.basis is None:
        return None, None
    return page.basis.incarnation, page.checkpoints[0].checkpoint_id if page.checkpoints else page.basis.epoch


def _cache_key(address: Address) -> Key:
    return address.thread_id, address.namespace, address.user

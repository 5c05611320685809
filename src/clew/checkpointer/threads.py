"""Threads: descriptions, lists, deletion, and the cache of states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, overload

from msgspec.structs import replace

from clew.checkpointer.arguments import checked_limit, checked_policy, checked_search
from clew.checkpointer.blocking import blocking
from clew.checkpointer.cache import Key, Version
from clew.checkpointer.engine import STALE_ATTEMPTS, Engine, too_busy
from clew.checkpointer.loader import Loader
from clew.checkpointer.records import (
    listed_thread,
    policy_data,
    stored_policy,
    thread_data,
    thread_info,
    thread_text,
)
from clew.checkpointer.runner import Runner
from clew.checkpointer.sweeper import address_of
from clew.errors import ConfigError, PermissionDeniedError
from clew.model.commit import Removal, ThreadFields
from clew.model.config import ANY_USER, Address, Config, User, checked_text, user_of
from clew.model.generic import StateT, Untyped
from clew.model.queries import CheckpointPage, CheckpointQuery, ThreadQuery, ValueQuery
from clew.model.records import ThreadRecord
from clew.model.retention import RetentionPolicy
from clew.model.thread import ThreadInfo
from clew.storage.protocol import StaleBasisError


class ThreadMethods(Generic[StateT]):
    """Methods of whole threads."""

    _runner: Runner
    _engine: Engine
    _loader: Loader

    async def aput_thread(self, config: Config | str, info: ThreadInfo | Mapping[str, Any]) -> None:
        """Describe the thread: name, tags, metadata, run. Replaces the earlier description as a whole.

        The owner is the config's user. Only `clew.ANY_USER` may give a thread to another
        (`info.user_id`).
        """
        codec = self._engine.codec
        address = self._engine.address(config)
        if isinstance(info, Mapping):
            info = ThreadInfo.from_dict({"thread_id": address.thread_id, **info})
        elif not isinstance(info, ThreadInfo):
            raise ConfigError(f"aput_thread takes a clew.ThreadInfo or a mapping, not {type(info).__name__}")
        if info.thread_id != address.thread_id:
            raise ConfigError(f"the config names thread {address.thread_id!r}, the ThreadInfo {info.thread_id!r}")
        owner = user_of(info.user_id)
        if owner is not None and address.user is not ANY_USER and owner != address.user:
            raise PermissionDeniedError(
                f"only clew.ANY_USER may give thread {address.thread_id!r} to another user",
                thread_id=address.thread_id,
            )
        retention = policy_data(checked_policy(info.retention, "retention"))
        # Packed first, so that text that can't be stored is refused with its path.
        thread_data(codec, info, retention)
        run_id = address.run_id if info.run_id is None else checked_text("run_id", info.run_id)

        def described(record: ThreadRecord | None) -> ThreadFields:
            return ThreadFields(
                text=thread_text(info),
                data=thread_data(codec, info, retention or stored_policy(codec, record)),
                run_id=run_id,
                user_id=owner if isinstance(owner, str) else _owner(address, record),
            )

        await self._describe(address, described)

    async def aput_retention(self, config: Config | str, policy: RetentionPolicy | None) -> None:
        """Give the thread its own retention policy, which cleanups use instead of theirs; `None` removes it.

        `RetentionPolicy(max_history=1, keep_every=1)` keeps everything. Forks and copies start with
        the policy of their source.
        """
        codec = self._engine.codec
        address = self._engine.address(config)
        retention = policy_data(checked_policy(policy, "policy"))

        def described(record: ThreadRecord | None) -> ThreadFields:
            info = thread_info(codec, record, self._engine.users) if record else ThreadInfo(thread_id=address.thread_id)
            return ThreadFields(
                text=thread_text(info),
                data=thread_data(codec, info, retention),
                run_id=info.run_id,
                user_id=_owner(address, record),
            )

        await self._describe(address, described)

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
        self, config: Config, search: str | None = None, offset: int = 0, limit: int | None = None
    ) -> list[ThreadInfo]:
        """List the threads of the config's `user_id`, the most recently active first.

        `search` matches ids, names and tags. Without `user_id`, lists the threads without an owner;
        with `clew.ANY_USER`, all. A damaged thread is listed too; its metadata says what is wrong.
        """
        if isinstance(config, str):
            raise ConfigError("alist_threads takes a config with a 'user_id', such as {'user_id': 'alice'}")
        checked_limit(offset, "offset")
        query = ThreadQuery(
            user=self._engine.users.in_config(config),
            search=checked_search(search),
            offset=offset or 0,
            limit=checked_limit(limit),
        )
        engine = self._engine
        return [listed_thread(engine.codec, record, engine.users) for record in await engine.threads(query)]

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
        packed = self._engine.codec.pack(state, name="state")
        await self._engine.cache.put(_cache_key(address), packed, await self._version(address))

    @overload
    async def aget_state_cache(self: ThreadMethods[Untyped], config: Config | str) -> Any: ...
    @overload
    async def aget_state_cache(self, config: Config | str) -> StateT | None: ...
    async def aget_state_cache(self, config: Config | str) -> Any:
        """Return the cached state, or the head, if this process saved or loaded it last; `None` otherwise.

        What is returned is never older than the last save of any process.
        """
        engine = self._engine
        address = replace(engine.address(config), checkpoint_id=None)
        packed = await engine.cache.get(_cache_key(address), await self._version(address))
        if packed is not None:
            return self._loader.typed(engine.codec.unpack(packed))
        loaded = await self._loader.load_held(address)
        return None if loaded is None else loaded.state

    async def awarm(self, user_id: str | int | None, limit: int = 3) -> int:
        """Load the user's most recently active threads into the cache; returns how many there were."""
        engine = self._engine
        user: User = engine.users.given(user_id)
        warmed = 0
        for record in await engine.threads(ThreadQuery(user=user, limit=checked_limit(limit))):
            address = address_of(record, record.user_id)
            # Read with the values even if this process knows them: a shared cache may not have them.
            page = await self._loader.page(address, detail="state")
            if page.checkpoints:
                packed = engine.codec.pack(self._loader.decode_page(address, page).state, name="state")
                await engine.cache.put(_cache_key(address), packed, _version_of(page))
                warmed += 1
        return warmed

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

    async def _describe(self, address: Address, described: Callable[[ThreadRecord | None], ThreadFields]) -> None:
        """Replace the thread's description by one made from the present one, atomically."""
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
                        remove=Removal(as_of=sequence) if record else None,
                        thread=described(record),
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


def _owner(address: Address, record: ThreadRecord | None) -> str | None:
    """The thread's owner; that of a new thread is the user who describes it."""
    if record is not None:
        return record.user_id
    return address.user if isinstance(address.user, str) else None

"""Threads: their description, their lists, their end; and the cache of states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from clew.checkpointer.blocking import blocking
from clew.checkpointer.cache import Key
from clew.checkpointer.core import STALE_ATTEMPTS, checked_limit, checked_search, too_busy, version_at
from clew.checkpointer.records import policy_data, thread_data, thread_info, thread_text
from clew.checkpointer.saving import Saving
from clew.errors import ConfigError, CorruptRecordError, PermissionDeniedError
from clew.model.commit import Removal, ThreadFields
from clew.model.config import ANY_USER, Address, Config, User, checked_text, read_config, read_user, user_of
from clew.model.queries import ThreadQuery, ValueQuery
from clew.model.records import ThreadRecord
from clew.model.retention import RetentionPolicy
from clew.model.thread import ThreadInfo
from clew.storage.protocol import StaleBasisError


class ThreadMethods(Saving):
    """Methods of threads as a whole."""

    async def aput_thread(self, config: Config | str, info: ThreadInfo | Mapping[str, Any]) -> None:
        """Describe the thread: name, tags, metadata, run. It replaces the earlier description as a whole.

        The owner is the config's user. Only `clew.ANY_USER` may give a thread another one (`info.user_id`).
        """
        address = read_config(config)
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
        # Packing first, so that text that can't be stored is refused with its path.
        retention = policy_data(_checked_policy(info.retention))
        thread_data(self._codec, info, retention)
        run_id = address.run_id if info.run_id is None else checked_text("run_id", info.run_id)

        def described(record: ThreadRecord | None) -> ThreadFields:
            return ThreadFields(
                text=thread_text(info),
                data=thread_data(self._codec, info, retention or self._kept_policy(record)),
                run_id=run_id,
                user_id=owner if isinstance(owner, str) else _owner(address, record),
            )

        await self._describe(address, described)

    async def aput_retention(self, config: Config | str, policy: RetentionPolicy | None) -> None:
        """Give the thread a retention policy of its own, which cleanups go by in the place of theirs; `None` takes it away.

        `RetentionPolicy(max_history=1, keep_every=1)` keeps everything. Forks and copies begin with their source's.
        """
        address = read_config(config)
        retention = policy_data(_checked_policy(policy))

        def described(record: ThreadRecord | None) -> ThreadFields:
            info = thread_info(self._codec, record) if record else ThreadInfo(thread_id=address.thread_id)
            return ThreadFields(
                text=thread_text(info),
                data=thread_data(self._codec, info, retention),
                run_id=info.run_id,
                user_id=_owner(address, record),
            )

        await self._describe(address, described)

    async def aget_thread(self, config: Config | str) -> ThreadInfo | None:
        """The thread's description, head and counts, or `None`."""
        address = read_config(config)
        await self._meet(address)
        records = await self._threads(ThreadQuery(user=address.user, thread_id=address.thread_id))
        return thread_info(self._codec, records[0]) if records else None

    async def alist_threads(
        self, config: Config, search: str | None = None, offset: int = 0, limit: int | None = 50
    ) -> list[ThreadInfo]:
        """The threads of the config's `user_id`, the last active first. `search` looks at ids, names and tags.

        Without `user_id`, the threads that nobody owns; with `clew.ANY_USER`, all.
        """
        if isinstance(config, str):
            raise ConfigError("alist_threads takes a config with a 'user_id', such as {'user_id': 'alice'}")
        checked_limit(offset, "offset")
        query = ThreadQuery(
            user=read_user(config),
            search=checked_search(search),
            offset=offset or 0,
            limit=checked_limit(limit),
        )
        return [thread_info(self._codec, record) for record in await self._threads(query)]

    async def adelete_thread(self, config: Config | str) -> None:
        """Remove the thread with everything: checkpoints, messages, attachments, description, cache.

        A writer that began before and comes late gets ThreadDeletedError.
        """
        address = read_config(config)
        # Without a basis: a deletion that comes again finds nothing, and that is what it wants.
        await self._apply(self._plain_commit(address, remove=Removal(thread=True)))
        self._forget(address)

    aget_threads = alist_threads

    put_thread = blocking(aput_thread)
    put_retention = blocking(aput_retention)
    get_thread = blocking(aget_thread)
    list_threads = blocking(alist_threads)
    get_threads = blocking(alist_threads)
    delete_thread = blocking(adelete_thread)

    async def aput_state_cache(self, config: Config | str, state: Any) -> None:
        """Keep `state` for the running execution: in the cache that the checkpointer has, else in this process. It is not
        durable, and the next save outdates it."""
        address = read_config(config)
        packed = self._codec.pack(state, name="state")
        await self._cache.put(_cache_key(address), packed, await self._version(address))

    async def aget_state_cache(self, config: Config | str) -> Any:
        """The cached state, or `None` if there is none, it is too old, or the thread was saved since by any process."""
        address = read_config(config)
        packed = await self._cache.get(_cache_key(address), await self._version(address))
        return None if packed is None else self._codec.unpack(packed)

    async def awarm(self, user_id: str | int | None, limit: int = 3) -> int:
        """Load the user's last active threads into the cache; how many there were."""
        user: User = user_of(user_id)
        records = await self._threads(ThreadQuery(user=user, limit=checked_limit(limit)))
        warmed = 0
        for record in records:
            config = {"thread_id": record.thread_id, "user_id": record.user_id}
            address = read_config(config)
            # With its values, also if this process knows them: the cache of all may not.
            page = await self._page(address, detail="state")
            if page.checkpoints:
                packed = self._codec.pack(self._loaded(address, page).state, name="state")
                await self._cache.put(_cache_key(address), packed, version_at(page))
                warmed += 1
        return warmed

    put_state_cache = blocking(aput_state_cache)
    get_state_cache = blocking(aget_state_cache)
    warm = blocking(awarm)

    async def _describe(self, address: Address, described: Callable[[ThreadRecord | None], ThreadFields]) -> None:
        """Replace the thread's description by one that is made from the present one, which nobody changes in between."""
        position = ValueQuery(thread_id=address.thread_id, user=address.user, ranges=())
        commit = self._plain_commit(address)
        for _ in range(STALE_ATTEMPTS):
            sequence = (await self._try(lambda: self._storage.values(position))).sequence
            records = await self._threads(ThreadQuery(user=address.user, thread_id=address.thread_id))
            record = records[0] if records else None
            try:
                await self._apply(
                    replace(
                        commit,
                        basis=self._seen.get((address.thread_id, address.user)),
                        # Takes nothing away: what it says is as of when this was found out.
                        remove=Removal(as_of=sequence) if record else None,
                        thread=described(record),
                    )
                )
                return
            except StaleBasisError:
                if self._seen.get((address.thread_id, address.user)) is not None:
                    await self._refresh(address.thread_id, address.user)
        raise too_busy(address.thread_id)

    def _kept_policy(self, record: ThreadRecord | None) -> Mapping[str, Any] | None:
        """The policy that the thread has, as it is stored."""
        try:
            kept: Mapping[str, Any] | None = (
                self._codec.unpack(record.data).get("retention") if record and record.data else None
            )
        except CorruptRecordError:
            return None
        return kept

    async def _threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        return await self._try(lambda: self._storage.threads(query))


def _cache_key(address: Address) -> Key:
    return address.thread_id, address.namespace, address.user


def _owner(address: Address, record: ThreadRecord | None) -> str | None:
    """Whose the thread is, or will be: describing it takes nobody's thread away."""
    if record is not None:
        return record.user_id
    return address.user if isinstance(address.user, str) else None


def _checked_policy(policy: RetentionPolicy | None) -> RetentionPolicy | None:
    if policy is not None and not isinstance(policy, RetentionPolicy):
        raise ConfigError(f"a retention policy is a clew.RetentionPolicy, not {type(policy).__name__}")
    return policy

"""What all groups of methods share: the storage, the codec, what is known of threads, and how a commit gets through."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeVar

from msgspec.structs import replace

from clew.chance import chance
from clew.checkpointer.autocleanup import AutoCleanup
from clew.checkpointer.background import Background, SettledStorage
from clew.checkpointer.blocking import InlineRunner, LoopRunner, Runner
from clew.checkpointer.cache import SharedStateCache, StateCache, Version, Volatile
from clew.clock import SYSTEM_CLOCK, Clock
from clew.codec.index import IndexCache, ThreadIndex
from clew.codec.registry import DEFAULT_REGISTRY, Registry
from clew.codec.state import StateCodec
from clew.errors import ClewError, ConfigError, ThreadDeletedError, TransientStorageError, shown
from clew.model.commit import Applied, Commit
from clew.model.config import ANY_USER, Address, User
from clew.model.message import folded
from clew.model.queries import CheckpointPage, CheckpointQuery, ValuePage, ValueQuery
from clew.model.records import Basis
from clew.model.retention import RetentionPolicy
from clew.storage.offload import pause
from clew.storage.protocol import StaleBasisError, Storage
from clew.storage.wrapper import shared_states

R = TypeVar("R")
Durability = Literal["sync", "background"]

FIRST_PAUSE, LONGEST_PAUSE = 0.04, 1.0
"""Seconds between tries, doubled each time, when the storage says that trying again may help."""
MAX_CACHED_THREADS, CACHE_TTL = 1000, 86400
"""How many threads a cache keeps, and for how many seconds, if nobody says otherwise."""
MAX_LIMIT = (1 << 31) - 1
"""More than any store is asked for at once, and less than any storage's integers."""
STALE_ATTEMPTS = 1000
"""How often a save is encoded anew because another writer came first; each time, some writer got through. So the last of many
writers at once tries as often as there are others, times what they write."""


class Core:
    """The parts of a checkpointer. The groups of methods (`StateMethods`, `MessageMethods`, …) build on it."""

    def __init__(
        self,
        storage: Storage,
        *,
        state_type: type | None = None,
        max_state_bytes: int = 256 << 20,
        max_index_bytes: int = 64 << 20,
        max_cached_threads: int = MAX_CACHED_THREADS,
        cache_ttl: float = CACHE_TTL,
        retry_for: float = 15.0,
        retention: RetentionPolicy | None = None,
        cleanup_interval: float | None = None,
        durability: Durability = "sync",
        max_background: int = 1000,
        max_background_bytes: int = 64 << 20,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        registry = Registry(parent=DEFAULT_REGISTRY)
        if state_type is not None:
            if not callable(state_type):
                raise ConfigError(
                    f"state_type must be the class of your states, not {shown(state_type)}; leave it out for dicts"
                )
            registry.register(state_type)
        for name, bound in (
            ("max_state_bytes", max_state_bytes),
            ("max_index_bytes", max_index_bytes),
            ("max_cached_threads", max_cached_threads),
            ("cache_ttl", cache_ttl),
            ("retry_for", retry_for),
            ("max_background", max_background),
            ("max_background_bytes", max_background_bytes),
        ):
            if isinstance(bound, bool) or not isinstance(bound, (int, float)) or bound < 0:
                raise ConfigError(f"{name} must be a number, 0 or more; got {shown(bound)}")
        if retention is not None and not isinstance(retention, RetentionPolicy):
            raise ConfigError(f"retention must be a clew.RetentionPolicy, not {type(retention).__name__}")
        self._auto_cleanup: AutoCleanup | None = None
        self._cleanup_interval = cleanup_interval
        self._storage: Storage = storage
        self._retention = retention
        self._codec = StateCodec(registry, max_state_bytes=max_state_bytes)
        self._indexes = IndexCache(max_index_bytes)
        own = StateCache(max_threads=max_cached_threads, ttl=cache_ttl, clock=clock)
        shared = shared_states(storage)
        self._cache: Volatile = own if shared is None else SharedStateCache(shared, own, ttl=cache_ttl)
        self._seen = _Seen()
        self._retry_for = retry_for
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._runner: Runner = LoopRunner() if storage.capabilities.suspends else InlineRunner()
        self._background = self._made_background(durability, max_background, max_background_bytes)
        if self._background is not None:
            self._storage = SettledStorage(storage, self._background)
        self._begin()

    def _made_background(self, durability: Durability, max_saves: int, max_bytes: int) -> Background | None:
        if durability not in ("sync", "background"):
            raise ConfigError(f'durability must be "sync" or "background", not {shown(durability)}')
        if durability == "sync":
            return None
        runner = self._runner if isinstance(self._runner, LoopRunner) else LoopRunner()
        return Background(runner, max_saves=max_saves, max_bytes=max_bytes, tasks=self._tasks)

    def _begin(self) -> None:
        """Start what goes on by itself."""

    async def _try(self, call: Callable[[], Awaitable[R]]) -> R:
        """The result of `call`, tried again with growing pauses while the storage fails in a way that may pass."""
        try:
            return await call()
        except TransientStorageError as error:
            return await self._again(call, error)

    async def _again(self, call: Callable[[], Awaitable[R]], error: TransientStorageError) -> R:
        """The same after the first try ended with `error`."""
        if not self._retry_for:
            raise error
        begun, waited, longest = self._clock.monotonic(), 0.0, FIRST_PAUSE
        while True:
            # What the tries took counts too, as far as the clock shows it.
            left = self._retry_for - max(waited, self._clock.monotonic() - begun)
            wait = chance().uniform(longest / 2, longest)
            await pause(max(0.0, min(wait, left)))
            waited, longest = waited + wait, min(2 * longest, LONGEST_PAUSE)
            try:
                return await call()
            except TransientStorageError:
                if left <= wait:
                    raise

    async def _apply(self, commit: Commit) -> Applied:
        """Apply one commit, or raise what kept it from being applied; its user has seen the thread now."""
        applied = await self._apply_unseen(commit)
        if applied.basis is not None:
            self._seen.put((commit.thread_id, commit.user), applied.basis)
        return applied

    async def _apply_unseen(self, commit: Commit) -> Applied:
        """The same for upkeep, which acts in nobody's name and goes by what it has just read."""
        try:
            return _applied(commit, await self._storage.apply((commit,)))
        except TransientStorageError as error:
            return await self._again(partial(self._apply_once, commit), error)

    async def _apply_once(self, commit: Commit) -> Applied:
        return _applied(commit, await self._storage.apply((commit,)))

    async def _apply_plain(self, commit: Commit) -> Applied:
        """Apply a commit that brings no values, such as one of messages."""
        for _ in range(STALE_ATTEMPTS):
            try:
                return await self._apply(replace(commit, basis=self._seen.get((commit.thread_id, commit.user))))
            except StaleBasisError:
                await self._refresh(commit.thread_id, commit.user)
        raise too_busy(commit.thread_id)

    def _hot_index(self, address: Address) -> ThreadIndex | None:
        """What is known of the thread's values, if that is as this user last found the thread."""
        index = self._indexes.get(address.thread_id)
        seen = self._seen.get((address.thread_id, address.user))
        return index if index is not None and seen is not None and same_log(index.basis, seen) else None

    async def _index_for_writing(self, address: Address) -> ThreadIndex | None:
        """What is known of the thread's values: `None` if this process has not met the thread or found that there is none."""
        seen = self._seen.get((address.thread_id, address.user))
        if seen is None:
            return None
        index = self._indexes.get(address.thread_id)
        if index is None or not same_log(index.basis, seen):
            index = await self._refresh(address.thread_id, address.user)
        return index

    async def _refresh(self, thread_id: str, user: User) -> ThreadIndex:
        """Bring what is known of a thread's values up to date: one query, for the digests that are new since.

        Raises ThreadDeletedError if it is not the thread any more that `user` saw in this process.
        """
        seen = self._seen.get((thread_id, user))
        index = self._indexes.get(thread_id)
        page = await self._digests(thread_id, index.basis.next_value if index is not None else 0)
        if page.basis is None or (seen is not None and page.basis.incarnation != seen.incarnation):
            raise deleted(thread_id)
        if index is not None and not same_log(index.basis, page.basis):
            index, page = None, await self._digests(thread_id, 0)
        if page.basis is None:
            raise deleted(thread_id)
        if index is None:
            index = ThreadIndex(page.basis)
        index.learn(page.rows)
        index.basis = page.basis
        self._indexes.put(thread_id, index)
        self._seen.put((thread_id, user), page.basis)
        return index

    async def _digests(self, thread_id: str, since: int) -> ValuePage:
        query = ValueQuery(thread_id=thread_id, user=ANY_USER, since=since)
        return await self._try(lambda: self._storage.values(query))

    def _met(self, address: Address, basis: Basis | None) -> None:
        """Note how a reader found the thread: a writer that goes on from there is told if it was deleted meanwhile."""
        if basis is None:
            self._seen.drop((address.thread_id, address.user))
        else:
            self._seen.put((address.thread_id, address.user), basis)

    async def _meet(self, address: Address) -> None:
        """The same before something is read that does not tell how the thread is found."""
        if self._seen.get((address.thread_id, address.user)) is None:
            position = ValueQuery(thread_id=address.thread_id, user=address.user, ranges=())
            self._met(address, (await self._try(lambda: self._storage.values(position))).basis)

    def _index_for_reading(self, thread_id: str, basis: Basis) -> ThreadIndex:
        """The thread's index, begun anew if it was of another log."""
        index = self._indexes.get(thread_id)
        if index is None or not same_log(index.basis, basis):
            return ThreadIndex(basis)
        if basis.next_value > index.basis.next_value:
            index.basis = basis
        return index

    def _forget(self, address: Address) -> None:
        """Forget a thread that this caller has deleted."""
        self._indexes.drop(address.thread_id)
        self._seen.drop((address.thread_id, address.user))
        self._cache.drop(address.thread_id)

    async def _version(self, address: Address) -> Version:
        """What the thread's durable head is now."""
        query = CheckpointQuery(thread_id=address.thread_id, user=address.user, namespace=address.namespace)
        return version_at(await self._try(lambda: self._storage.checkpoints(query)))

    def _metadata(self, metadata: Mapping[str, Any] | None, name: str = "metadata") -> bytes:
        if metadata is not None and not isinstance(metadata, Mapping):
            raise ConfigError(f"{name} must be a mapping, not {type(metadata).__name__}")
        return self._codec.pack(dict(metadata), name=name) if metadata else b""


def version_at(page: CheckpointPage) -> Version:
    """What the durable head of the thread is, of which `page` is the newest one."""
    if page.basis is None:
        return None, None
    return page.basis.incarnation, page.checkpoints[0].checkpoint_id if page.checkpoints else page.basis.epoch


class _Seen:
    """How each user's threads were last found, for many more than there are indexes: that is how a late writer is told."""

    _MAX = 100_000

    def __init__(self) -> None:
        self._bases: dict[tuple[str, User], Basis] = {}
        self._lock = threading.Lock()

    def get(self, key: tuple[str, User]) -> Basis | None:
        return self._bases.get(key)

    def put(self, key: tuple[str, User], basis: Basis) -> None:
        self._bases[key] = basis
        if len(self._bases) > self._MAX:
            with self._lock:
                # The first half, by when they were first met: a thread that lives on is met again.
                for old in list(self._bases)[: self._MAX // 2]:
                    self._bases.pop(old, None)

    def drop(self, key: tuple[str, User]) -> None:
        self._bases.pop(key, None)

    def clear(self) -> None:
        self._bases.clear()


def _applied(commit: Commit, outcomes: list[Applied | ClewError]) -> Applied:
    """What came of the one commit, or raises what kept it from being applied."""
    (outcome,) = outcomes
    if isinstance(outcome, Applied):
        return outcome
    if isinstance(outcome, ThreadDeletedError):
        raise deleted(commit.thread_id) from outcome
    raise outcome


def deleted(thread_id: str) -> ThreadDeletedError:
    return ThreadDeletedError(
        f"thread {thread_id!r} was deleted after this process last read it; to begin it anew, read it first (aget_state)",
        thread_id=thread_id,
    )


def too_busy(thread_id: str) -> TransientStorageError:
    return TransientStorageError(
        f"thread {thread_id!r} is written by so many at once that this commit did not get through; take turns with alease",
        thread_id=thread_id,
    )


def same_log(known: Basis, now: Basis) -> bool:
    return known.incarnation == now.incarnation and known.epoch == now.epoch


def checked_limit(limit: int | None, name: str = "limit") -> int | None:
    """`limit` if it can be one: a count, or `None` for no limit."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or not 0 <= limit <= MAX_LIMIT):
        raise ConfigError(f"{name} must be from 0 to {MAX_LIMIT:,}, or None for all; got {shown(limit)}")
    return limit


def checked_search(search: str | None) -> str | None:
    """What to look for, folded; `None` for everything."""
    if search is not None and not isinstance(search, str):
        raise ConfigError(f"search must be text, not {type(search).__name__}")
    return folded(search) if search else None

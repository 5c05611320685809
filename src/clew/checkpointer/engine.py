"""The engine of a checkpointer: the storage and the codec, retries, commits, and what is known of threads.

The *basis* of a thread is the state of its log that a commit builds on. The engine remembers the
last basis that each user saw (`known`), and the values of each thread (`indexes`). A commit names
its basis, so the storage can refuse one that is out of date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from clew.checkpointer.background import Background
from clew.checkpointer.basis import KnownBases
from clew.checkpointer.cache import VolatileCache
from clew.checkpointer.observer import Observer
from clew.checkpointer.retries import Retries
from clew.checkpointer.runner import Runner
from clew.checkpointer.users import Users
from clew.checkpointer.write_queue import WriteQueues
from clew.clock import Clock
from clew.codec.index import IndexCache, ThreadIndex
from clew.codec.state import StateCodec
from clew.errors import ClewError, ThreadDeletedError, TransientStorageError
from clew.ids import new_id
from clew.model.commit import Applied, Commit, Removal
from clew.model.config import ANY_USER, Address, User
from clew.model.queries import ThreadQuery, ValuePage, ValueQuery
from clew.model.records import Basis, ThreadRecord
from clew.storage.protocol import StaleBasisError, Storage
from clew.storage.rules import check_owner

R = TypeVar("R")

STALE_ATTEMPTS: Final = 1000
"""How often a commit is tried again because a concurrent writer came first.

Each time, some writer got through, so the last of many writers needs as many attempts as the others
make commits.
"""


class Fence:
    """The fencing token of a lease, for as long as its block runs.

    Tasks that were started in the block have it, too, and may outlive the block.
    """

    __slots__ = ("ended", "token")

    def __init__(self, token: int) -> None:
        self.token = token
        self.ended = False


_fences: ContextVar[dict[tuple[int, str], Fence]] = ContextVar("clew_fences")
"""The fencing tokens of the leases that the current task holds, by engine and thread."""


class Engine:
    """Reads and commits for all parts of one checkpointer."""

    def __init__(
        self,
        storage: Storage,
        codec: StateCodec,
        *,
        runner: Runner,
        cache: VolatileCache,
        users: Users,
        max_index_bytes: int,
        retry_for: float,
        clock: Clock,
    ) -> None:
        self.storage = storage
        self.codec = codec
        self.runner = runner
        self.clock = clock
        self.cache = cache
        self.users = users
        self.address = users.address
        self.indexes = IndexCache(max_index_bytes)
        self.known = KnownBases()
        self.writers = WriteQueues()
        self.background: Background | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        """Merges of value rows under way."""
        self.retries = Retries(retry_for, clock)
        self.observer: Observer | None = None

    # Retries

    async def retry(self, call: Callable[[], Awaitable[R]], doing: str = "read") -> R:
        """Return the result of `call`, repeated with growing pauses while it raises TransientStorageError.

        `doing` names the call in the log.
        """
        try:
            return await call()
        except TransientStorageError as error:
            return await self.retries.after(error, call, doing)

    # Commits

    def new_commit(self, address: Address, **content: Any) -> Commit:
        """A commit by the address's user, with the fencing token of the lease that the current task holds."""
        return Commit(
            commit_id=new_id(),
            thread_id=address.thread_id,
            user=address.user,
            at=self.clock.now(),
            fence=self.fence(address.thread_id),
            **content,
        )

    async def apply(self, commit: Commit) -> Applied:
        """Apply `commit` and remember the new basis for its user. Raises the error that refused it."""
        applied = await self.apply_unrecorded(commit)
        if applied.basis is not None:
            self.known.put((commit.thread_id, commit.user), applied.basis)
        return applied

    async def apply_unrecorded(self, commit: Commit) -> Applied:
        """Apply `commit` for maintenance, which acts for no user and relies on what it has just read."""
        try:
            return _outcome(commit, await self.storage.apply((commit,)))
        except TransientStorageError as error:
            return await self.retries.after(error, partial(self._apply_once, commit), "save")

    async def _apply_once(self, commit: Commit) -> Applied:
        return _outcome(commit, await self.storage.apply((commit,)))

    async def apply_on_known_basis(self, commit: Commit) -> Applied:
        """Apply a commit without values on the known basis; refresh that and try again while it is
        out of date."""
        for _ in range(STALE_ATTEMPTS):
            try:
                basis = await self.known_basis(commit.thread_id, commit.user)
                return await self.apply(replace(commit, basis=basis))
            except StaleBasisError:
                await self.refresh_index(commit.thread_id, commit.user)
        raise too_busy(commit.thread_id)

    async def remove(self, address: Address, removal: Removal) -> Applied:
        """Apply a commit that only removes."""
        return await self.apply_on_known_basis(self.new_commit(address, remove=removal))

    # Fencing tokens

    def fence(self, thread_id: str) -> int | None:
        """The fencing token under which the current task writes to the thread, if it holds its lease."""
        held = _fences.get(None)
        fence = held.get((id(self), thread_id)) if held else None
        return None if fence is None or fence.ended else fence.token

    def set_fence(self, thread_id: str, token: int) -> Fence:
        """Make the current task, and those that it starts, write to the thread with this token until it is cleared."""
        fence, held = Fence(token), _fences.get(None) or {}
        _fences.set({**held, (id(self), thread_id): fence})
        return fence

    def clear_fence(self, fence: Fence) -> None:
        """Make all tasks write without this token."""
        fence.ended = True
        _fences.set({key: each for key, each in (_fences.get(None) or {}).items() if each is not fence})

    # Known bases

    async def known_basis(self, thread_id: str, user: User) -> Basis | None:
        """The basis that `user` last saw; `None` if the thread is unknown or did not exist.

        If only a digest of it is left, it is read. Raises ThreadDeletedError if the thread is
        another one now.
        """
        key = thread_id, user
        if not self.known.is_digested(key):
            return self.known.get(key)
        basis = await self._read_basis(thread_id, ANY_USER)
        if basis is None or not self.known.is_same(key, basis):
            raise deleted(thread_id)
        self.known.put(key, basis)
        return basis

    def note_basis(self, address: Address, basis: Basis | None) -> None:
        """Remember how a reader found the thread, so that its next write fails if the thread is
        deleted meanwhile."""
        if basis is None:
            self.known.drop((address.thread_id, address.user))
        else:
            self.known.put((address.thread_id, address.user), basis)

    async def ensure_basis(self, address: Address) -> None:
        """Note the basis before a read that does not return it, unless it is known."""
        if self.known.get((address.thread_id, address.user)) is None:
            self.note_basis(address, await self._read_basis(address.thread_id, address.user))

    async def _read_basis(self, thread_id: str, user: User) -> Basis | None:
        return (await self.values(ValueQuery(thread_id=thread_id, user=user, ranges=()))).basis

    # Indexes of values

    def hot_index(self, address: Address) -> ThreadIndex | None:
        """The index of the thread's values, if it matches the basis that the user last saw."""
        index = self.indexes.get(address.thread_id)
        known = self.known.get((address.thread_id, address.user))
        if index is None or known is None:
            return None
        return index if index.basis is known or same_log(index.basis, known) else None

    async def index_for_writing(self, address: Address) -> ThreadIndex | None:
        """The index of the thread's values, read if necessary; `None` if the thread is unknown or
        did not exist."""
        known = await self.known_basis(address.thread_id, address.user)
        if known is None:
            return None
        index = self.indexes.get(address.thread_id)
        if index is None or not same_log(index.basis, known):
            index = await self.refresh_index(address.thread_id, address.user)
        return index

    def index_for_reading(self, thread_id: str, basis: Basis) -> ThreadIndex:
        """The thread's index, or an empty one if that belongs to another log."""
        index = self.indexes.get(thread_id)
        if index is None or not same_log(index.basis, basis):
            return ThreadIndex(basis)
        if basis.next_value > index.basis.next_value:
            index.basis = basis
        return index

    async def refresh_index(self, thread_id: str, user: User) -> ThreadIndex:
        """Read the digests that are new since the index was made, or as many of the newest as an index keeps.

        Raises ThreadDeletedError if the thread that `user` saw is gone.
        """
        index = self.indexes.get(thread_id)
        if index is not None:
            since = index.basis.next_value
        else:
            known = self.known.get((thread_id, user))
            since = self._first_kept(known) if known is not None else 0
        page = await self._digests(thread_id, since)
        if page.basis is None or not self.known.is_same((thread_id, user), page.basis):
            raise deleted(thread_id)
        if index is not None and not same_log(index.basis, page.basis):
            index, page = None, await self._digests(thread_id, self._first_kept(page.basis))
        if page.basis is None:
            raise deleted(thread_id)
        if index is None:
            index = ThreadIndex(page.basis)
        index.learn(page.rows)
        index.basis = page.basis
        self.indexes.put(thread_id, index)
        self.known.put((thread_id, user), page.basis)
        return index

    def _first_kept(self, basis: Basis) -> int:
        return max(0, basis.next_value - self.indexes.most_values)

    async def _digests(self, thread_id: str, since: int) -> ValuePage:
        return await self.values(ValueQuery(thread_id=thread_id, user=ANY_USER, since=since))

    def forget(self, address: Address) -> None:
        """Forget a thread that this caller has deleted."""
        self.indexes.drop(address.thread_id)
        self.known.drop((address.thread_id, address.user))
        self.cache.drop(address.thread_id)

    # Reads that several parts need

    async def values(self, query: ValueQuery) -> ValuePage:
        return await self.retry(lambda: self.storage.values(query))

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        return await self.retry(lambda: self.storage.threads(query))

    async def check_owner(self, address: Address) -> None:
        """Raise PermissionDeniedError, as a write does, if the thread belongs to another user.

        Reads find nothing of such a thread. So this comes before an error that says that something is missing.
        """
        if address.user is not ANY_USER:
            for found in await self.threads(ThreadQuery(user=ANY_USER, thread_id=address.thread_id)):
                check_owner(address.thread_id, found.user_id, address.user)


def _outcome(commit: Commit, outcomes: list[Applied | ClewError]) -> Applied:
    """The result of the only commit. Raises the error that refused it."""
    (outcome,) = outcomes
    if isinstance(outcome, Applied):
        return outcome
    if isinstance(outcome, ThreadDeletedError):
        raise deleted(commit.thread_id) from outcome
    raise outcome


def deleted(thread_id: str) -> ThreadDeletedError:
    return ThreadDeletedError(
        f"thread {thread_id!r} was deleted after this process last read it; to create it again, read it first (get_state)",
        thread_id=thread_id,
    )


def too_busy(thread_id: str) -> TransientStorageError:
    return TransientStorageError(
        f"thread {thread_id!r} has too many concurrent writers: this commit did not get through; take turns: turn() or lease()",
        thread_id=thread_id,
    )


def same_log(known: Basis, now: Basis) -> bool:
    return known.incarnation == now.incarnation and known.epoch == now.epoch

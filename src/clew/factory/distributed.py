"""The checkpointer over two stores."""

from __future__ import annotations

from typing import Unpack

from clew.checkpointer.base import BaseCheckpointer, Checkpointer
from clew.checkpointer.blocking import blocking
from clew.clock import SYSTEM_CLOCK, Clock
from clew.codec.rebase import rebase
from clew.codec.rows import unbroken
from clew.errors import ConfigError
from clew.factory.encryption import with_encryption
from clew.factory.option_types import SharedOptions
from clew.factory.options import CHECKPOINTER_OPTIONS, check_options, split_query
from clew.factory.urls import connect
from clew.model.encryption import Encryption
from clew.model.generic import StateT
from clew.model.reports import Progress, ResyncReport
from clew.storage.cached import CachedStorage
from clew.storage.protocol import Storage
from clew.storage.replicated import ReplicatedStorage, ReplicationMode, UnreplicatedStorage, check_settings
from clew.storage.wrapper import StorageWrapper
from clew.validation import checked_clock, checked_flag


class DistributedCheckpointer(Checkpointer[StateT]):
    """Keeps everything in two stores, which may be of different kinds: failover to the secondary if
    the primary is down.

    `primary` and `secondary` are URLs or checkpointers, which are closed with this one.
    Without a secondary, or with `enable_replication=False`, the primary works alone; `aresync` brings the
    secondary up to date when replication is on again.
    `replication_mode="sync"` acknowledges a write when both stores have it, `"async"` when the
    primary has it; in both modes, a write that only one store has reaches the other one later. With
    `encryption`, both stores and their journals are encrypted; a checkpointer with its own
    encryption keeps that. For the other settings, see docs/replication.md. Takes the options of
    `Checkpointer` too.
    """

    def __init__(
        self,
        primary: BaseCheckpointer | str,
        secondary: BaseCheckpointer | str | None = None,
        *,
        enable_replication: bool = True,
        replication_mode: ReplicationMode = "async",
        health_check_interval: float = 5.0,
        auto_failover: bool = True,
        max_failover_attempts: int = 3,
        failback_delay: float = 30.0,
        max_outbox: int = 100_000,
        timeout: float = 5.0,
        encryption: Encryption | None = None,
        state_type: type[StateT] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        **options: Unpack[SharedOptions],
    ) -> None:
        check_options(options, DistributedCheckpointer)
        checked_clock(clock)
        checked_flag("enable_replication", enable_replication)
        checked_flag("auto_failover", auto_failover)
        # Encrypted below replication, which must read what it merges from one store into the other.
        one = _opened("primary", primary)
        first = with_encryption(one.storage, encryption)
        second = None if secondary is None else with_encryption(_opened("secondary", secondary).storage, encryption)
        self._replicated: ReplicatedStorage | None = None
        if second is None or not enable_replication:
            check_settings(
                replication_mode, health_check_interval, max_failover_attempts, failback_delay, max_outbox, timeout
            )
            alone = UnreplicatedStorage(first, second, timeout=timeout)
            super().__init__(alone, state_type=state_type, clock=clock, **options)
            self._engine.users.numeric = one._engine.users.numeric
            return
        self._replicated = ReplicatedStorage(
            first,
            second,
            rebase=rebase,
            unbroken=unbroken,
            mode=replication_mode,
            health_check_interval=health_check_interval,
            auto_failover=auto_failover,
            max_failover_attempts=max_failover_attempts,
            failback_delay=failback_delay,
            max_outbox=max_outbox,
            timeout=timeout,
            clock=clock,
        )
        super().__init__(self._replicated, state_type=state_type, clock=clock, **options)
        self._engine.users.numeric = one._engine.users.numeric

    async def aresync(self, *, delete_extra: bool = False, progress: Progress | None = None) -> ResyncReport:
        """Compare both stores thread by thread, and make the standby equal to the one that serves.

        Use it to add a secondary to a primary that has threads, and after the secondary was lost or
        restored from a backup. Threads that only the standby has are reported, and deleted with
        `delete_extra`. The stores stay in use meanwhile.
        """
        replicated = self._replicated
        if replicated is None:
            raise ConfigError("there is nothing to resync: give a secondary, and leave enable_replication=True")
        return await self._engine.retry(lambda: replicated.resync(delete_extra=delete_extra, progress=progress))

    resync = blocking(aresync)


def _opened(name: str, given: BaseCheckpointer | str) -> BaseCheckpointer:
    """The checkpointer of one store. Raises ConfigError for settings that don't work in a pair."""
    if isinstance(given, str):
        if wrong := [option for option in split_query(given)[1] if option in CHECKPOINTER_OPTIONS]:
            raise ConfigError(f"{wrong[0]!r} is an option of the pair: remove it from the URL of the {name}")
        given = connect(given, encryption=None)
    elif not isinstance(given, BaseCheckpointer):
        raise ConfigError(f"{name} must be a URL or a checkpointer, not {type(given).__name__}")
    if given._engine.background is not None or given._auto_cleanup is not None:
        raise ConfigError(f"the {name} saves or cleans up in the background: set that option on the pair instead")
    if _is_cached(given.storage):
        # A store that was behind is rewritten, with other values under the same numbers. Caches of
        # other processes would not notice.
        raise ConfigError(f"the {name} has a cache, but stores of a pair can't have one: remove it")
    return given


def _is_cached(storage: Storage) -> bool:
    if isinstance(storage, CachedStorage):
        return True
    return isinstance(storage, StorageWrapper) and any(map(_is_cached, storage.around))

"""Validation of the settings of two stores, and of the stores themselves: each raises ConfigError."""

from __future__ import annotations

from clew.errors import ConfigError, shown
from clew.storage.protocol import Storage


def check_stores(primary: Storage, secondary: Storage) -> None:
    for name, store in (("primary", primary), ("secondary", secondary)):
        if not store.capabilities.journals:
            raise ConfigError(f"the {name} ({store.capabilities.name}) keeps no journal, which replication needs")
    if primary is secondary:
        raise ConfigError("primary and secondary are the same storage")


def check_settings(mode: str, interval: float, attempts: int, delay: float, max_outbox: int, timeout: float) -> None:
    if mode not in ("sync", "async"):
        raise ConfigError(f"replication_mode must be 'sync' or 'async'; got {shown(mode)}")
    for name, seconds in (("health_check_interval", interval), ("timeout", timeout)):
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
            raise ConfigError(f"{name} must be more than 0 seconds; got {shown(seconds)}")
    if isinstance(delay, bool) or not isinstance(delay, int | float) or not delay >= 0:
        raise ConfigError(f"failback_delay must be a number of seconds, 0 or more; got {shown(delay)}")
    for name, count in (("max_failover_attempts", attempts), ("max_outbox", max_outbox)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ConfigError(f"{name} must be a whole number, 1 or more; got {shown(count)}")

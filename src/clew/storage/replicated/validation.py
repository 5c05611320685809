"""Validation of replication settings and of the two stores. Raises ConfigError."""

from __future__ import annotations

from clew.errors import ConfigError, shown
from clew.storage.protocol import Storage
from clew.storage.wrapper import StorageWrapper
from clew.validation import MOST_SECONDS, checked_number


def check_stores(primary: Storage, secondary: Storage) -> None:
    for name, store in (("primary", primary), ("secondary", secondary)):
        if not store.capabilities.journals:
            raise ConfigError(
                f"the {name} ({store.capabilities.name}) has no journal, which replication needs; use a single store"
            )
    if _innermost(primary) is _innermost(secondary):
        raise ConfigError("primary and secondary are the same storage; give two different ones")


def _innermost(store: Storage) -> Storage:
    while isinstance(store, StorageWrapper):
        store = store.around[0]
    return store


def check_settings(mode: str, interval: float, attempts: int, delay: float, max_outbox: int, timeout: float) -> None:
    if mode not in ("sync", "async"):
        raise ConfigError(f"replication_mode must be 'sync' or 'async'; got {shown(mode)}")
    checked_number("health_check_interval", interval, "number of seconds", at_least=0.001, at_most=MOST_SECONDS)
    checked_number("timeout", timeout, "number of seconds", more_than=0, at_most=MOST_SECONDS)
    checked_number("failback_delay", delay, "number of seconds", at_least=0, at_most=MOST_SECONDS)
    checked_number("max_failover_attempts", attempts, "whole number", at_least=1)
    checked_number("max_outbox", max_outbox, "whole number", at_least=1)

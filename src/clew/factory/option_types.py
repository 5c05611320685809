"""Options of checkpointers for type checkers. A test compares them with the classes' parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from clew.checkpointer.base import BaseCheckpointer, Durability
    from clew.clock import Clock
    from clew.model.encryption import Encryption
    from clew.model.retention import RetentionPolicy
    from clew.model.telemetry import Telemetry
    from clew.storage.replicated import ReplicationMode
    from clew.storage.sqlite.connections import Synchronous


class SharedOptions(TypedDict, total=False):
    """Options of all checkpointers but `state_type` and `clock`."""

    max_state_bytes: int
    max_index_bytes: int
    max_cached_threads: int
    cache_ttl: float
    retry_for: float
    require_user: bool
    retention: RetentionPolicy | None
    cleanup_interval: float | None
    durability: Durability
    max_background: int
    max_background_bytes: int
    telemetry: Telemetry | bool | None


class CheckpointerOptions(SharedOptions, total=False):
    """Options of all checkpointers but `state_type`."""

    clock: Clock


class ConnectOptions(CheckpointerOptions, total=False):
    """Options of `connect` but `state_type`: those of every storage. The URL decides which are accepted."""

    cache: str | None
    cache_timeout: float
    encryption: Encryption | None
    # SQLite
    synchronous: Synchronous
    busy_timeout: float
    # PostgreSQL
    pg_pool: Any
    pool_config: Mapping[str, Any] | None
    schema: str
    user_id_type: Literal["string", "int", "bigint"]
    statement_cache_size: int | None
    release_resources: bool
    redis_url: str | None
    redis: Any
    redis_pool: Any
    redis_pool_config: Mapping[str, Any] | None
    state_history_limit: int | None
    enforce_user_isolation: bool
    id_type: Literal["string"]
    # Redis
    username: str | None
    password: str | None
    db: int | None
    prefix: str
    ttl: float | None
    pool_size: int
    min_idle: int
    health_check_interval: float
    retries: int
    dial_timeout: float
    read_timeout: float
    write_timeout: float
    lock: bool
    lock_timeout: float
    lock_expiry: float
    # Two stores
    secondary: BaseCheckpointer | str | None
    enable_replication: bool
    replication_mode: ReplicationMode
    auto_failover: bool
    max_failover_attempts: int
    failback_delay: float
    max_outbox: int
    timeout: float

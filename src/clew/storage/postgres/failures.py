"""Which driver exceptions may pass if tried again, and what to say about the others."""

from __future__ import annotations

import asyncpg

from clew.errors import ClewError, ConfigError, StorageError, TransientStorageError

DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""What a call of the driver may raise."""
SETTING_ERRORS = (TypeError, ValueError, OverflowError)
"""What opening a connection may raise for settings that can't be."""

_REFUSED = (asyncpg.UndefinedObjectError, asyncpg.InvalidParameterValueError, asyncpg.CantChangeRuntimeParamError)
_PASSING = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.TooManyConnectionsError,
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.OutOfMemoryError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
_ADVICE: tuple[tuple[type[BaseException], str], ...] = (
    (
        asyncpg.ReadOnlySQLTransactionError,
        "the server is read-only; connect to the primary (target_session_attrs=read-write)",
    ),
    (asyncpg.DiskFullError, "the server's disk is full; nothing of the commit was written; make room and try again"),
    (asyncpg.InsufficientPrivilegeError, "the database user lacks a right; grant it on Clew's schema"),
    (asyncpg.UndefinedTableError, "Clew's tables are not there; call setup, or check the schema's name"),
    (asyncpg.UndefinedFunctionError, "Clew's functions are not there; call setup, or check the schema's name"),
    (asyncpg.InvalidSchemaNameError, "Clew's schema is not there; call setup, or check its name"),
    (asyncpg.InvalidAuthorizationSpecificationError, "the server refused the login; check user and password"),
    (asyncpg.InvalidCatalogNameError, "there is no such database"),
    (
        asyncpg.ProgramLimitExceededError,
        "something is larger than PostgreSQL takes (an id of more than about 2,000 bytes?)",
    ),
)
COMMITS_FAULT = (asyncpg.ProgramLimitExceededError, asyncpg.DataError)
"""What is wrong with one commit and not with the storage."""


def storage_error(error: BaseException) -> StorageError:
    """The error of Clew's that `error` becomes."""
    if isinstance(error, asyncpg.QueryCanceledError):
        message = f"PostgreSQL gave up after statement_timeout ({error}); raise it, or try again when it has less to do"
        return TransientStorageError(message)
    if isinstance(error, TimeoutError):
        message = "PostgreSQL did not answer within command_timeout; if it needs longer, raise that in pool_config"
        return TransientStorageError(message)
    if isinstance(error, asyncpg.InternalServerError) and "cache lookup failed" in str(error):
        return TransientStorageError(f"Clew's functions are being replaced by those of another version: {error}")
    if isinstance(error, _PASSING):
        return TransientStorageError(f"PostgreSQL can't be reached just now: {error or type(error).__name__}")
    for kind, advice in _ADVICE:
        if isinstance(error, kind):
            return StorageError(f"PostgreSQL: {advice}: {error}")
    return StorageError(f"PostgreSQL failed: {error or type(error).__name__}")


def connection_error(error: BaseException) -> ClewError:
    """The error of Clew's that `error` becomes, if it came while a connection was opened."""
    # First: asyncpg's ClientConfigurationError is one of the driver's errors, too.
    if isinstance(error, SETTING_ERRORS):
        where = "the DSN, pool_config or the PG… variables"
        return ConfigError(f"PostgreSQL can't be connected to with these settings ({where}): {error}")
    if isinstance(error, asyncpg.InterfaceError) and "not initialized" in str(error):
        return ConfigError("the pool was never opened; give one that was awaited: await asyncpg.create_pool(…)")
    if isinstance(error, _REFUSED):
        return ConfigError(f"PostgreSQL refuses a setting of the DSN or of pool_config['server_settings']: {error}")
    if isinstance(error, TimeoutError):
        message = "PostgreSQL can't be reached just now: no connection within `timeout` (of pool_config)"
        return TransientStorageError(message)
    return storage_error(error)

"""Error translation: the driver's exceptions to Clew's, transient or with advice."""

from __future__ import annotations

from errno import ECONNREFUSED

import asyncpg

from clew.errors import ClewError, ConfigError, StorageError, StoreUnreachableError, TransientStorageError

DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""Exceptions that a driver's call may raise."""
SETTING_ERRORS = (TypeError, ValueError, OverflowError)
"""Exceptions that opening a connection may raise for invalid settings."""

_REFUSED = (asyncpg.UndefinedObjectError, asyncpg.InvalidParameterValueError, asyncpg.CantChangeRuntimeParamError)
_UNREACHABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
_TRANSIENT = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.TooManyConnectionsError,
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.OutOfMemoryError,
)
_ADVICE: tuple[tuple[type[BaseException], str], ...] = (
    (
        asyncpg.ReadOnlySQLTransactionError,
        "the server is read-only; connect to the primary (target_session_attrs=read-write)",
    ),
    (asyncpg.DiskFullError, "the server's disk is full and the commit was not applied; free some space and try again"),
    (asyncpg.InsufficientPrivilegeError, "the database user lacks a privilege; grant it on Clew's schema"),
    (asyncpg.UndefinedTableError, "Clew's tables don't exist; call setup, or check the schema's name"),
    (asyncpg.UndefinedFunctionError, "Clew's functions don't exist; call setup, or check the schema's name"),
    (asyncpg.InvalidSchemaNameError, "Clew's schema does not exist; call setup, or check its name"),
    (asyncpg.InvalidAuthorizationSpecificationError, "the server refused the login; check user and password"),
    (asyncpg.InvalidCatalogNameError, "the database does not exist; create it, or check its name"),
    (
        asyncpg.ProgramLimitExceededError,
        "a value exceeds a limit of PostgreSQL (ids have at most about 2,000 bytes)",
    ),
)
DAMAGED_NUMBERS = (asyncpg.NumericValueOutOfRangeError, asyncpg.UniqueViolationError)
"""Errors of a commit that the rules let through: the numbers of its thread are damaged."""
COMMITS_FAULT = (asyncpg.ProgramLimitExceededError, asyncpg.DataError)
"""Errors of one commit, which say nothing about the storage."""


def storage_error(error: BaseException, where: str) -> StorageError:
    """Return Clew's error for an error of the driver, which speaks to the server at `where`."""
    server = f"PostgreSQL at {where}"
    if isinstance(error, asyncpg.QueryCanceledError):
        message = f"{server} cancelled the statement after statement_timeout ({error}); raise it, or try again later"
        return TransientStorageError(message, where=where)
    if isinstance(error, TimeoutError):
        message = f"{server} did not answer within command_timeout; raise it in pool_config if statements need longer"
        return StoreUnreachableError(message, where=where)
    if isinstance(error, asyncpg.InternalServerError) and "cache lookup failed" in str(error):
        return TransientStorageError(f"Clew's functions are being replaced ({error}); try again", where=where)
    if isinstance(error, _UNREACHABLE):
        return StoreUnreachableError(f"{server} can't be reached ({_reason(error)}); try again", where=where)
    if isinstance(error, _TRANSIENT):
        return TransientStorageError(f"{server} failed temporarily ({_reason(error)}); try again", where=where)
    for kind, advice in _ADVICE:
        if isinstance(error, kind):
            return StorageError(f"{server}: {advice}: {error}", where=where)
    return StorageError(f"{server} failed: {error or type(error).__name__}", where=where)


def connection_error(error: BaseException, where: str) -> ClewError:
    """Return Clew's error for a driver's error while a connection was being opened."""
    # This check comes first, because asyncpg's ClientConfigurationError is also a driver's error.
    if isinstance(error, SETTING_ERRORS):
        settings = "the DSN, pool_config or the PG… variables"
        return ConfigError(f"can't connect to PostgreSQL with these settings ({settings}): {error}")
    if isinstance(error, asyncpg.InterfaceError) and "not initialized" in str(error):
        return ConfigError("the pool was never opened; pass one that was awaited: await asyncpg.create_pool(…)")
    if isinstance(error, _REFUSED):
        return ConfigError(f"PostgreSQL refused a setting from the DSN or pool_config['server_settings']: {error}")
    if isinstance(error, TimeoutError):
        message = f"PostgreSQL at {where} can't be reached: no connection within `timeout` (in pool_config); try again"
        return StoreUnreachableError(message, where=where)
    return storage_error(error, where)


def _reason(error: BaseException) -> str:
    # With several addresses, asyncio joins the errors of all into the text of a plain OSError.
    refused = isinstance(error, ConnectionRefusedError) or (
        isinstance(error, OSError) and error.errno is None and f"[Errno {ECONNREFUSED}]" in str(error)
    )
    return "connection refused" if refused else str(error) or type(error).__name__

"""Errors that are both Clew's and Agentflow's, so that handlers for either catch them.

    Clew                       Agentflow                  its REST server answers
    ConflictError              StaleStateError            409
    ├── ThreadDeletedError     StaleStateError            409
    └── LeaseError             StaleStateError            409
    StorageError               StorageError               500
    └── TransientStorageError  TransientStorageError      503 (also a ConnectionError)
        └── StoreUnreachableError  TransientStorageError  503
    PermissionDeniedError      StorageError               500
    StateTooLargeError         StorageError               500
    CorruptRecordError         SerializationError         500
    EncryptionError            SerializationError         500
    UnsupportedTypeError       SerializationError         500
    SchemaVersionError         SchemaVersionError         422
    ConfigError                a ValueError, unchanged    422

Agentflow's constructors write to the log. These don't: the code that catches the error decides.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from clew import errors
from clew.adapters.agentflow.framework import exceptions

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


class _Both(errors.ClewError):
    """Adds the attributes of Agentflow's errors: `message`, `error_code`, `context`."""

    error_code = "STORAGE_000"

    def __init__(self, message: str, **facts: Any) -> None:
        Exception.__init__(self, message)
        self.facts = facts
        self.message = message
        self.context = facts

    def __str__(self) -> str:
        return self.message


class ConflictError(_Both, errors.ConflictError, exceptions.StaleStateError):
    """Another run saved the thread after this one read it."""

    error_code = "STORAGE_CONFLICT_000"


class ThreadDeletedError(_Both, errors.ThreadDeletedError, exceptions.StaleStateError):
    """The thread was deleted after this run read it."""

    error_code = "STORAGE_CONFLICT_000"


class LeaseError(_Both, errors.LeaseError, exceptions.StaleStateError):
    """Another holder has the thread's lease, or took it over."""

    error_code = "STORAGE_CONFLICT_000"


class PermissionDeniedError(_Both, errors.PermissionDeniedError, exceptions.StorageError):
    """The thread belongs to another user."""

    error_code = "STORAGE_FORBIDDEN_001"


class StateTooLargeError(_Both, errors.StateTooLargeError, exceptions.StorageError):
    """The state is larger than `max_state_bytes`."""


class CorruptRecordError(_Both, errors.CorruptRecordError, exceptions.SerializationError):
    """A stored record is damaged."""

    error_code = "STORAGE_SERIALIZATION_000"


class EncryptionError(_Both, errors.EncryptionError, exceptions.SerializationError):
    """A stored record needs a key that was not given, or is not encrypted although it should be."""

    error_code = "STORAGE_SERIALIZATION_000"


class UnsupportedTypeError(_Both, errors.UnsupportedTypeError, exceptions.SerializationError):
    """The state contains a value that can't be saved."""

    error_code = "STORAGE_SERIALIZATION_000"


class SchemaVersionError(_Both, errors.SchemaVersionError, exceptions.SchemaVersionError):
    """The store was written by a newer version, or not by Clew."""

    error_code = "STORAGE_SCHEMA_000"


class StorageError(_Both, errors.StorageError, exceptions.StorageError):
    """The storage failed."""


class TransientStorageError(_Both, errors.TransientStorageError, exceptions.TransientStorageError, ConnectionError):
    """The storage failed temporarily."""

    error_code = "STORAGE_TRANSIENT_000"


class StoreUnreachableError(_Both, errors.StoreUnreachableError, exceptions.TransientStorageError):
    """The store does not answer."""

    error_code = "STORAGE_TRANSIENT_000"


class MessageNotFoundError(IndexError, ValueError):
    """The thread has no such message.

    Agentflow's in-memory and SQLite stores raise IndexError, its PostgreSQL store raises
    ValueError, and its REST server answers a ValueError with 422.
    """


_BOTH: Final = {
    getattr(errors, each.__name__): each
    for each in (
        ConflictError,
        ThreadDeletedError,
        LeaseError,
        PermissionDeniedError,
        StateTooLargeError,
        CorruptRecordError,
        EncryptionError,
        UnsupportedTypeError,
        SchemaVersionError,
        StorageError,
        TransientStorageError,
        StoreUnreachableError,
    )
}


def both(error: errors.ClewError) -> errors.ClewError:
    """Return `error` as an error of both, or unchanged if Agentflow has no counterpart."""
    if isinstance(error, _Both):
        return error
    for cls in type(error).__mro__:
        if cls in _BOTH:
            return _BOTH[cls](*error.args, **error.facts)
    return error


def translated(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Return `method` with Clew's errors converted to errors of both."""

    @functools.wraps(method)
    async def call(self: S, /, *args: P.args, **options: P.kwargs) -> R:
        try:
            return await method(self, *args, **options)
        except errors.ClewError as error:
            known = both(error)
            if known is error:
                raise
            raise known from error

    return call

"""Every error that Clew raises, as one tree.

    ClewError
    ├── ConfigError            the config, an argument or a registered class is not usable (also a ValueError)
    ├── UnsupportedTypeError   the state holds something that can't be saved, at `path` (also a TypeError)
    ├── StateTooLargeError     the state is over `max_state_bytes`
    ├── PermissionDeniedError  the thread belongs to another user
    ├── ConflictError          another writer came first
    │   ├── ThreadDeletedError the thread was deleted after this writer read it
    │   └── LeaseError         the thread's turn is held by, or was lost to, somebody else
    ├── CorruptRecordError     a stored record is damaged
    ├── EncryptionError        a stored record needs a key that was not given, or is not encrypted where it should be
    ├── SchemaVersionError     the store was written by a newer Clew, or is not Clew's
    ├── MissingExtraError      an optional dependency is not installed (also an ImportError)
    ├── BlockingCallError      a sync method would block the event loop it was called from
    └── StorageError           the storage failed
        └── TransientStorageError  it may work if tried again

Errors carry their facts as attributes (`error.thread_id`) and say in their message what to do. Driver exceptions
never leave a storage: they are the `__cause__` of one of these.
"""

from __future__ import annotations

from typing import Any, Final

_SHOWN: Final = 60
"""How many characters of a value a message shows."""


class ClewError(Exception):
    """The root of all errors that Clew raises."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        # Only called for what is not found: the facts read as attributes.
        try:
            return self.__dict__["facts"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}") from None

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.args, self.facts)


def _rebuild(cls: type[ClewError], args: tuple[Any, ...], facts: dict[str, Any]) -> ClewError:
    return cls(*args, **facts)


def shown(value: object) -> str:
    """`value` as messages show it: its `repr`, cut to 60 characters. Works for any object."""
    try:
        text = repr(value)
    except ValueError:
        # Python refuses to spell out integers of thousands of digits.
        text = f"an {type(value).__name__} of {value.bit_length()} bits" if isinstance(value, int) else ""
    except Exception:  # A repr of somebody else's class may raise anything, and is not what the message is about.
        text = ""
    text = text or f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


class ConfigError(ClewError, ValueError):
    """The config or an argument is not usable."""


class UnsupportedTypeError(ClewError, TypeError):
    """The state holds something that can't be saved; `path` says where."""


class StateTooLargeError(ClewError):
    """The state is larger than `max_state_bytes`."""


class PermissionDeniedError(ClewError):
    """The thread belongs to another user."""


class ConflictError(ClewError):
    """Another writer came first; load the head and decide again."""


class ThreadDeletedError(ConflictError):
    """The thread was deleted after this writer read or wrote it."""


class LeaseError(ConflictError):
    """The thread's turn is held by somebody else, or was lost to them."""


class CorruptRecordError(ClewError):
    """A stored record is damaged; the others are not affected."""


class EncryptionError(ClewError):
    """A stored record needs a key that was not given, or is not encrypted where it should be."""


class SchemaVersionError(ClewError):
    """The store was written by a newer Clew, or is not Clew's at all."""


class MissingExtraError(ClewError, ImportError):
    """An optional dependency is not installed."""


class BlockingCallError(ClewError, RuntimeError):
    """A sync method would block the event loop that it was called from."""


class StorageError(ClewError):
    """The storage failed; nothing of the commit was written."""


class TransientStorageError(StorageError):
    """The storage failed in a way that may pass; commits are idempotent, so trying again is safe."""

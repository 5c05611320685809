"""Errors: every exception that Clew raises, as one tree.

    ClewError
    ├── ConfigError            an invalid config, argument or registered class (also a ValueError)
    ├── UnsupportedTypeError   the state contains an object that can't be saved (also a TypeError)
    ├── StateTooLargeError     the state exceeds `max_state_bytes`
    ├── PermissionDeniedError  the thread belongs to another user
    ├── ConflictError          a concurrent writer was first
    │   ├── ThreadDeletedError the thread was deleted after this writer read it
    │   └── LeaseError         another holder has the thread's lease, or took it over
    ├── CorruptRecordError     a stored record is damaged
    ├── EncryptionError        a key is missing or wrong, or a record is not encrypted
    ├── SchemaVersionError     a newer Clew wrote the store, or it is not a Clew store
    ├── MissingExtraError      an optional dependency is not installed (also an ImportError)
    ├── BlockingCallError      a sync method was called on the checkpointer's own event loop
    └── StorageError           the storage failed
        └── TransientStorageError  the storage failed, and retrying may succeed
            └── StoreUnreachableError  no server answers (also a ConnectionError)

Errors have their facts as attributes (`error.thread_id`), and their messages say what to do. Driver
exceptions never leave a storage: they are the `__cause__` of one of these.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

_SHOWN: Final = 60
"""Maximum length of a value in a message."""
_ITEMS: Final = 20
"""Maximum number of a container's items in a message."""


class ClewError(Exception):
    """Base class of all errors that Clew raises."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        # Called only if the normal lookup fails.
        try:
            return self.__dict__["facts"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}") from None

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.args, self.facts)


def _rebuild(cls: type[ClewError], args: tuple[Any, ...], facts: dict[str, Any]) -> ClewError:
    return cls(*args, **facts)


class _Short(reprlib.Repr):
    """The beginning of a `repr`."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = self.maxarray = _ITEMS

    def repr_str(self, x: str, level: int) -> str:
        return repr(x[:_SHOWN])

    def repr_int(self, x: int, level: int) -> str:
        return repr(x)

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        if not x or level <= 0:
            return "{...}" if x else "{}"
        items = [f"{self.repr1(k, level - 1)}: {self.repr1(v, level - 1)}" for k, v in islice(x.items(), _ITEMS)]
        return "{" + ", ".join(items) + (", ...}" if len(x) > _ITEMS else "}")

    def repr_instance(self, x: object, level: int) -> str:
        if isinstance(x, dict):
            return f"{type(x).__name__}({self.repr_dict(x, level)})"
        # Not `reprlib`'s, which shortens it in the middle.
        return repr(x)


_short = _Short()


def shown(value: object) -> str:
    """Return the `repr` of `value` for a message, cut to 60 characters. Works for any object.

    Of a container, only the first items are formatted: one that contains itself many times over may
    have a `repr` of gigabytes.
    """
    try:
        text = _short.repr(value)
    except ValueError:
        # Python refuses to format integers with thousands of digits.
        text = f"an {type(value).__name__} of {value.bit_length()} bits" if isinstance(value, int) else ""
    except Exception:  # A user's __repr__ may raise anything.
        text = ""
    text = text or f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def nearest(name: object, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to `name`, for a "did you mean"; `None` if none is similar.

    `cutoff` is the least similarity, from 0 to 1.
    """
    from difflib import get_close_matches  # Slow to import, and only needed here.

    near = get_close_matches(name, list(known), n=1, cutoff=cutoff) if isinstance(name, str) else []
    return near[0] if near else None


class ConfigError(ClewError, ValueError):
    """The config or an argument is invalid."""


class UnsupportedTypeError(ClewError, TypeError):
    """The state contains an object that can't be saved, at `path`."""


class StateTooLargeError(ClewError):
    """The state exceeds `max_state_bytes`."""


class PermissionDeniedError(ClewError):
    """The thread belongs to another user."""


class ConflictError(ClewError):
    """A concurrent writer was first. Load the head and decide again."""


class ThreadDeletedError(ConflictError):
    """The thread was deleted after this writer read or wrote it."""


class LeaseError(ConflictError):
    """Another holder has the thread's lease, or took it over."""


class CorruptRecordError(ClewError):
    """A stored record is damaged. Other records are not affected."""


class EncryptionError(ClewError):
    """A key is missing or wrong, or a record is not encrypted although it should be."""


UNREADABLE: Final = (CorruptRecordError, EncryptionError)
"""Errors that affect a single record. Operations on many records report it
and continue with the others."""


class SchemaVersionError(ClewError):
    """A newer Clew wrote the store, or it is not a Clew store."""


class MissingExtraError(ClewError, ImportError):
    """An optional dependency is not installed."""


class BlockingCallError(ClewError, RuntimeError):
    """A sync method was called on the checkpointer's own event loop, which would wait for itself."""


class StorageError(ClewError):
    """The storage failed. Nothing of the commit was written."""


class TransientStorageError(StorageError):
    """The storage failed temporarily. Commits are idempotent, so retrying is safe."""


class StoreUnreachableError(TransientStorageError, ConnectionError):
    """The store does not answer, or the connection to it was lost."""

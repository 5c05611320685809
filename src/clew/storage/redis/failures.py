"""Translates error answers of Redis into Clew's errors, each with advice."""

from __future__ import annotations

import re

from hiredis import ReplyError
from redis.exceptions import AuthenticationError, AuthorizationError, RedisError, ResponseError

from clew.errors import (
    ClewError,
    ConfigError,
    CorruptRecordError,
    StorageError,
    StoreUnreachableError,
    TransientStorageError,
)

_TRANSIENT = {
    "LOADING": "is loading its data",
    "BUSY": "is busy with a script",
    "TRYAGAIN": "is moving the thread to another server",
    "CLUSTERDOWN": "is in a cluster that is partly down",
    "MASTERDOWN": "has lost its master",
    "READONLY": "is a replica now and refuses writes",
    "NOREPLICAS": "has fewer replicas than it requires for writes",
    "MISCONF": "can't save to its disk and refuses writes until it can",
    "UNKILLABLE": "is busy with a script",
}
_UNPACKED = re.compile(
    r"data string too short|bad argument #\d+ to '(?:unpack|sub|byte)|perform arithmetic on|nil value"
)
"""What Lua says when a script takes a damaged member apart."""
_CODE = re.compile(r"\b([A-Z]{4,})\b")


def failure(answer: ReplyError, where: str) -> ClewError:
    """Return the error for an error answer of the server at `where`."""
    text = str(answer)
    code = text.partition(" ")[0]
    if code == "ERR" and "script" in text:
        # The code of a command that failed inside a script stands further on in the text.
        code = next((found for found in _CODE.findall(text) if found in _TRANSIENT), code)
    if code in _TRANSIENT:
        return TransientStorageError(f"Redis at {where} {_TRANSIENT[code]}; try again ({text})", where=where, code=code)
    if "OOM command not allowed" in text:
        message = f"Redis at {where} has reached its maxmemory; delete threads or raise maxmemory ({text})"
        return StorageError(message, where=where)
    if "max number of clients" in text:
        return TransientStorageError(f"Redis at {where} has no free connections; raise its maxclients", where=where)
    if code in ("NOAUTH", "WRONGPASS") or "invalid password" in text or "invalid username" in text:
        return _wrong_password(text, where)
    if code == "NOPERM":
        message = f"Redis at {where} denied a command; allow Clew's user core commands and Lua scripts ({text})"
        return StorageError(message, where=where)
    if "WRONGTYPE" in text:
        message = (
            f"Redis at {where}: another program uses a key with Clew's prefix; give Clew a prefix of its own ({text})"
        )
        return StorageError(message, where=where)
    if "CLEWFORMAT" in text:
        return CorruptRecordError(f"Redis at {where}: {text.partition('CLEWFORMAT ')[2]}", where=where)
    if _UNPACKED.search(text):
        return CorruptRecordError(f"Redis at {where}: a record of a thread is damaged ({text})", where=where)
    if "non local key" in text:
        return TransientStorageError(f"Redis at {where} is moving the thread to another server; try again", where=where)
    return StorageError(f"Redis at {where} returned an error: {text}", where=where)


def _wrong_password(error: object, where: str) -> StorageError:
    return StorageError(f"Redis at {where} rejected the user name or password; correct them ({error})", where=where)


def unreachable(error: BaseException, where: str) -> ClewError:
    """Return the error for a connection that could not be opened."""
    if isinstance(error, AuthenticationError | AuthorizationError):
        return _wrong_password(error, where)
    if isinstance(error, ResponseError):
        if "DB index" in str(error) or "SELECT is not allowed" in str(error):
            return ConfigError(f"Redis at {where} has no such database ({error}); a cluster has only db 0")
        return failure(ReplyError(str(error)), where)
    if isinstance(error, RedisError | OSError | TimeoutError):
        # redis-py ends its messages with a full stop.
        reason = str(error).removesuffix(".") or type(error).__name__
        return StoreUnreachableError(f"Redis at {where} can't be reached ({reason}); try again", where=where)
    raise error

"""What a server's error answers mean to a caller: each becomes one of Clew's errors, and says what to do."""

from __future__ import annotations

import re

from hiredis import ReplyError
from redis.exceptions import AuthenticationError, AuthorizationError, RedisError, ResponseError

from clew.errors import ClewError, ConfigError, CorruptRecordError, StorageError, TransientStorageError

_TRANSIENT = {
    "LOADING": "is loading its data",
    "BUSY": "is busy with a script",
    "TRYAGAIN": "is moving the thread to another server",
    "CLUSTERDOWN": "is in a cluster of which a part is down",
    "MASTERDOWN": "is cut off from its master",
    "READONLY": "is a replica now, and takes no writes",
    "NOREPLICAS": "has fewer replicas than it needs to take writes",
    "MISCONF": "can't save to its disk, and takes no writes until it can",
    "UNKILLABLE": "is busy with a script",
}
_CODE = re.compile(r"\b([A-Z]{4,})\b")


def failure(answer: ReplyError, where: str) -> ClewError:
    """The error for an answer of the server at `where` that is an error."""
    text = str(answer)
    code = text.partition(" ")[0]
    if code == "ERR" and "script" in text:
        # What a command inside a script was refused with stands further on.
        code = next((found for found in _CODE.findall(text) if found in _TRANSIENT), code)
    if code in _TRANSIENT:
        return TransientStorageError(f"Redis at {where} {_TRANSIENT[code]}; try again ({text})", where=where, code=code)
    if "OOM command not allowed" in text:
        message = f"Redis at {where} is at its maxmemory and takes no more; delete threads, or give it more ({text})"
        return StorageError(message, where=where)
    if "max number of clients" in text:
        return TransientStorageError(f"Redis at {where} has no connection left; raise its maxclients", where=where)
    if code in ("NOAUTH", "WRONGPASS") or "invalid password" in text or "invalid username" in text:
        return StorageError(
            f"Redis at {where} wants another user name or password than it was given ({text})", where=where
        )
    if code == "NOPERM":
        message = f"Redis at {where} does not permit the user what Clew needs: core commands and Lua scripts ({text})"
        return StorageError(message, where=where)
    if "WRONGTYPE" in text:
        message = (
            f"Redis at {where}: a key with Clew's prefix is something else's; give Clew a prefix of its own ({text})"
        )
        return StorageError(message, where=where)
    if "CLEWFORMAT" in text:
        return CorruptRecordError(f"Redis at {where}: {text.partition('CLEWFORMAT ')[2]}", where=where)
    if "non local key" in text:
        return TransientStorageError(f"Redis at {where} is moving the thread to another server; try again", where=where)
    return StorageError(f"Redis at {where} answers with an error: {text}", where=where)


def unreachable(error: BaseException, where: str) -> ClewError:
    """The error for a server that could not be connected to."""
    if isinstance(error, AuthenticationError | AuthorizationError):
        return StorageError(
            f"Redis at {where} wants another user name or password than it was given ({error})", where=where
        )
    if isinstance(error, ResponseError):
        if "DB index" in str(error) or "SELECT is not allowed" in str(error):
            return ConfigError(f"Redis at {where} has no such database ({error}); in a cluster there is only db 0")
        return failure(ReplyError(str(error)), where)
    if isinstance(error, RedisError | OSError | TimeoutError):
        return TransientStorageError(f"Redis at {where} can't be reached: {error or type(error).__name__}", where=where)
    raise error

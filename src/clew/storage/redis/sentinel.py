"""Connections to the master that Sentinels name."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, Connection, ConnectionPool, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from clew.errors import StorageError

_ONCE = Retry(NoBackoff(), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A redis-py connection class and its arguments."""

    kind: type[AbstractConnection]
    arguments: dict[str, Any]

    def connection(self, **more: Any) -> AbstractConnection:
        return self.kind(**{**self.arguments, **more})

    @property
    def where(self) -> str:
        return f"{self.arguments.get('host', 'localhost')}:{self.arguments.get('port', 6379)}"


class SentinelMaster:
    """The master that `sentinels` know as `name`. Every new connection asks them again.

    Connections to Sentinels are not kept, so none has to be closed with its event loop.
    """

    def __init__(self, name: str, sentinels: Sequence[Endpoint], server: Endpoint) -> None:
        self.where = f"sentinel {','.join(each.where for each in sentinels)}/{name}"
        self._name = name
        self._sentinels = sentinels
        self._server = server

    @classmethod
    def of_pool(cls, pool: SentinelConnectionPool) -> SentinelMaster:
        """Return the master of an existing client's pool."""
        clients = [client.connection_pool for client in pool.sentinel_manager.sentinels]
        arguments = {key: value for key, value in pool.connection_kwargs.items() if key != "connection_pool"}
        kind = SSLConnection if issubclass(pool.connection_class, SSLConnection) else Connection
        sentinels = [Endpoint(kind=each.connection_class, arguments=each.connection_kwargs) for each in clients]
        return cls(pool.service_name, sentinels, Endpoint(kind=kind, arguments=arguments))

    async def connect(self) -> AbstractConnection:
        """Connect to the current master. Every attempt asks again: a failover may be under way."""
        retry: Retry = deepcopy(self._server.arguments.get("retry") or _ONCE)
        return await retry.call_with_retry(self._connect, lambda _: asyncio.sleep(0))

    async def _connect(self) -> AbstractConnection:
        host, port = await self._master()
        connection = self._server.connection(host=host, port=port, retry=_ONCE)
        await connection.connect()  # type: ignore[no-untyped-call]
        return connection

    async def _master(self) -> tuple[str, int]:
        refused: StorageError | None = None
        unanswered = []
        for sentinel in self._sentinels:
            pool = ConnectionPool(connection_class=sentinel.kind, **{**sentinel.arguments, "retry": _ONCE})
            try:
                state: Any = await Redis(connection_pool=pool).sentinel_master(self._name)
            except (AuthenticationError, ResponseError) as error:
                refused = refused or _refusal(error, sentinel.where, self._name)
                continue
            except (RedisError, OSError) as error:
                unanswered.append(f"{sentinel.where}: {error or type(error).__name__}")
                continue
            finally:
                await pool.disconnect()
            if state["is_master"] and not state["is_sdown"] and not state["is_odown"]:
                return str(state["ip"]), int(state["port"])
            unanswered.append(f"{sentinel.where}: {self._name!r} is down")
        if refused is not None and not unanswered:
            raise refused
        raise RedisConnectionError(f"no Sentinel knows a master {self._name!r} that is up ({'; '.join(unanswered)})")


def _refusal(error: RedisError, where: str, name: str) -> StorageError:
    if "No such master" in str(error):
        return StorageError(
            f"the Sentinel at {where} knows no master {name!r}; SENTINEL MASTERS lists their names", where=where
        )
    if isinstance(error, AuthenticationError) or "NOAUTH" in str(error) or "WRONGPASS" in str(error):
        message = (
            f"the Sentinel at {where} rejected the user name or password; set sentinel_password= (and "
            f"sentinel_username=) in the URL ({error})"
        )
        return StorageError(message, where=where)
    return StorageError(f"the Sentinel at {where} returned an error: {error}", where=where)

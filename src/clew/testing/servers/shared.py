"""Shared servers: one of each kind per process, started on first use and stopped with the process."""

from __future__ import annotations

import atexit
import os
from functools import cache

from clew.testing.servers.postgres import PostgresServer
from clew.testing.servers.redis import RedisCluster, RedisServer


@cache
def shared_postgres() -> str:
    """Return the URL of a PostgreSQL server: `$CLEW_TEST_POSTGRES_URL`, or a new one."""
    if url := os.environ.get("CLEW_TEST_POSTGRES_URL"):
        return url
    server = PostgresServer()
    atexit.register(server.close)
    return server.url


@cache
def shared_redis() -> str:
    """Return the URL of a Redis server: `$CLEW_TEST_REDIS_URL`, or one that is started here."""
    if url := os.environ.get("CLEW_TEST_REDIS_URL"):
        return url
    server = RedisServer()
    atexit.register(server.close)
    return server.url


@cache
def shared_cluster() -> str:
    """Return the URL of a node of a three-node Redis Cluster that is started here."""
    cluster = RedisCluster()
    atexit.register(cluster.close)
    return cluster.url

"""A store in PostgreSQL with a cache in Redis, for tests."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import redis

import clew
from clew.storage.cached.tier import HotTier
from clew.storage.wrapper import shared_states
from clew.testing.servers import shared_redis
from tests.checkpointer.support import PostgresStore, RedisStore, text


class Both:
    """A PostgreSQL schema with a cache under a prefix in Redis. Checkpointers are closed with it."""

    def __init__(self, directory: Any) -> None:
        self.postgres = PostgresStore(directory)
        self.redis = RedisStore(directory)
        self.url = self.postgres.url

    def cache(self, url: str | None = None) -> str:
        return f"{url or shared_redis()}?prefix={quote(self.redis.prefix)}"

    def open(self, redis_url: str | None = None, **options: Any) -> clew.BaseCheckpointer:
        """A checkpointer as another process would have it, with long timeouts for a busy machine."""
        return self.opened(clew.connect(self.url, cache=self.cache(redis_url), **{"cache_timeout": 5.0, **options}))

    def plain(self) -> clew.BaseCheckpointer:
        """A checkpointer without the cache."""
        return self.opened(clew.connect(self.url))

    def opened(self, checkpointer: clew.BaseCheckpointer) -> clew.BaseCheckpointer:
        self.postgres.opened.append(checkpointer)
        return checkpointer

    def threads(self) -> list[str]:
        """The threads whose keys are in Redis."""
        with redis.Redis.from_url(shared_redis()) as client:
            keys = [key.decode() for key in client.scan_iter(f"{self.redis.prefix}:*", count=10_000)]
        return sorted(key.partition("{")[2].partition("}")[0] for key in keys if key.endswith("}:t"))

    def close(self) -> None:
        self.postgres.close()
        self.redis.close()


def settled(checkpointer: clew.BaseCheckpointer) -> clew.BaseCheckpointer:
    """Return `checkpointer` after its pending writes have reached the cache."""
    tier = shared_states(checkpointer.storage)
    assert isinstance(tier, HotTier)
    checkpointer.run(tier.settle(), "settle")
    return checkpointer


def status(checkpointer: clew.BaseCheckpointer) -> clew.CacheStatus:
    found = checkpointer.status().cache
    assert found is not None
    return found


def begun(checkpointer: clew.BaseCheckpointer) -> dict[str, Any]:
    state = {"n": 1, "text": text(1, 20_000), "list": [text(number) for number in range(50)]}
    checkpointer.put_state("t", state)
    return state

"""Fixtures: a test that takes `store` or `checkpointer` runs on every storage."""

from __future__ import annotations

from contextlib import closing

import pytest

from clew.storage.cached import breaker
from clew.testing import FakeClock
from clew.testing.servers import RedisServer
from tests.checkpointer.cached_support import Both
from tests.checkpointer.support import MemoryStore, PostgresStore, RedisStore, SQLiteStore

LOCAL = [pytest.param(MemoryStore, id="memory"), pytest.param(SQLiteStore, id="sqlite")]
REMOTE = [pytest.param(PostgresStore, id="postgres"), pytest.param(RedisStore, id="redis")]
STORES = LOCAL + REMOTE
SHARED = [*LOCAL[1:], *REMOTE]
"""Stores that several processes can share."""


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    with closing(request.param(tmp_path)) as opened:
        yield opened


@pytest.fixture(params=LOCAL)
def local(request, tmp_path):
    """A store that never suspends."""
    with closing(request.param(tmp_path)) as opened:
        yield opened


@pytest.fixture(params=REMOTE)
def remote(request, tmp_path):
    """A store that waits on an event loop."""
    with closing(request.param(tmp_path)) as opened:
        yield opened


@pytest.fixture
def sqlite(tmp_path):
    """A file, for tests of damage, other processes and full disks."""
    with closing(SQLiteStore(tmp_path)) as opened:
        yield opened


@pytest.fixture
def checkpointer(store):
    return store.open()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def both(tmp_path):
    """PostgreSQL with a cache in Redis."""
    with closing(Both(tmp_path)) as opened:
        yield opened


@pytest.fixture
def server():
    """A Redis server of the test's own."""
    with RedisServer() as own:
        yield own


@pytest.fixture
def tried_again_soon(monkeypatch):
    """Caches that were down are retried after a moment."""
    monkeypatch.setattr(breaker, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(breaker, "LONGEST_PAUSE", 0.1)

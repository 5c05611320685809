"""Each test that takes `store` or `checkpointer` runs on every storage."""

from __future__ import annotations

import pytest

from clew.testing import FakeClock
from tests.checkpointer.support import MemoryStore, SQLiteStore

STORES = [
    pytest.param(MemoryStore, id="memory"),
    pytest.param(SQLiteStore, id="sqlite"),
]


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    opened = request.param(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def sqlite(tmp_path):
    """For what only a file has: damage, other processes, full disks."""
    opened = SQLiteStore(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def checkpointer(store):
    return store.open()


@pytest.fixture
def clock():
    return FakeClock()

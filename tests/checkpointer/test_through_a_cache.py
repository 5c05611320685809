"""Tests of other modules that a cache could break, run on stores with a cache."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.checkpointer.support import CachedPostgresStore, CachedSQLiteStore
from tests.checkpointer.test_late_writers import *  # noqa: F403
from tests.checkpointer.test_random import *  # noqa: F403

STORES = [pytest.param(CachedSQLiteStore, id="sqlite+memory"), pytest.param(CachedPostgresStore, id="postgres+redis")]


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    with closing(request.param(tmp_path)) as opened:
        yield opened

"""Each test that takes `store` runs on every storage."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.checkpointer.conftest import STORES
from tests.checkpointer.support import SQLiteStore


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    with closing(request.param(tmp_path)) as opened:
        yield opened


@pytest.fixture
def sqlite(tmp_path):
    with closing(SQLiteStore(tmp_path)) as opened:
        yield opened

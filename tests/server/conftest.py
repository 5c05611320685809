"""A test that takes `store` runs on every storage."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.checkpointer.conftest import STORES


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    with closing(request.param(tmp_path)) as opened:
        yield opened

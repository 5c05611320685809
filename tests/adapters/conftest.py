"""Each adapter's test that takes `store` or `checkpointer` runs on every storage: add one here."""

from __future__ import annotations

import pytest

from tests.checkpointer.conftest import STORES


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    opened = request.param(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def checkpointer(store):
    return store.open()

"""Each adapter's test that takes `store` or `checkpointer` runs on every storage: add one here."""

from __future__ import annotations

import pytest

from clew.storage.protocol import Storage
from tests.checkpointer import conftest
from tests.checkpointer.support import MemoryStore, SuspendingStorage


class SuspendingStore(MemoryStore):
    """One that waits on its event loop, as those over a network do."""

    def storage(self) -> Storage:
        return SuspendingStorage(super().storage())


STORES = [*conftest.STORES, pytest.param(SuspendingStore, id="suspending")]


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    opened = request.param(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def checkpointer(store):
    return store.open()

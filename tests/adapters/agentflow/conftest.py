"""Each test that takes `store` runs on every storage. Without Agentflow, there are no tests here."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from clew.testing import FakeClock
from tests.checkpointer.conftest import STORES as PLAIN_STORES
from tests.checkpointer.support import MemoryStore, Store, SuspendingStorage

if find_spec("tenxgraph") is None and find_spec("agentflow") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from injectq import InjectQ
    from injectq.core.context import ContainerContext

    @pytest.fixture(autouse=True)
    def _fresh_container():
        """What a test puts into the container of the process is not there for the next one."""
        InjectQ.reset_instance()
        ContainerContext.clear_current()
        yield
        InjectQ.reset_instance()
        ContainerContext.clear_current()


class SuspendingStore(MemoryStore):
    """For whatever would only work with storages that never wait."""

    def open(self, wrap=None, **options):
        return super().open(wrap or SuspendingStorage, **options)


STORES = [*PLAIN_STORES, pytest.param(SuspendingStore, id="suspending")]


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    opened: Store = request.param(tmp_path)
    yield opened
    for checkpointer in opened.opened:
        checkpointer.__exit__(None, None, None)


@pytest.fixture
def clock():
    return FakeClock()

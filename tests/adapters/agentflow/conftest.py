"""Without Agentflow, no tests are collected here."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from clew.testing import FakeClock

if find_spec("tenxgraph") is None and find_spec("agentflow") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from injectq import InjectQ
    from injectq.core.context import ContainerContext

    @pytest.fixture(autouse=True)
    def _fresh_container():
        """Restore the process's container after each test."""
        InjectQ.reset_instance()
        ContainerContext.clear_current()
        yield
        InjectQ.reset_instance()
        ContainerContext.clear_current()


@pytest.fixture
def clock():
    return FakeClock()

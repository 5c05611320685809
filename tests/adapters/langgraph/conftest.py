"""A saver on every storage."""

from __future__ import annotations

import pytest

from clew.adapters.langgraph import ClewSaver


@pytest.fixture
def saver(checkpointer):
    return ClewSaver(checkpointer)

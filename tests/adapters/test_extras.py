"""Errors of adapters whose framework is not installed."""

from __future__ import annotations

import pytest

from tests.checkpointer.support import python

MISSING = """
import sys
sys.modules[sys.argv[2]] = None
import clew
try:
    __import__(sys.argv[1])
except clew.MissingExtraError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("adapter", "module", "extra"),
    [("clew.adapters.openai_agents", "agents", "openai"), ("clew.adapters.llmfy", "llmfy", "llmfy")],
)
def test_a_missing_framework_is_named_with_its_extra(adapter, module, extra):
    assert f"pip install 'clew[{extra}]'" in python(MISSING, adapter, module)

"""LangGraph's whole conformance suite on every storage, through the async and the sync methods."""

from __future__ import annotations

import asyncio

import pytest
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.conformance.initializer import RegisteredCheckpointer
from langgraph.checkpoint.conformance.validate import validate

from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.support import SyncSaver

TESTS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


@pytest.mark.parametrize("saver_type", [ClewSaver, SyncSaver], ids=["async", "sync"])
def test_every_capability_is_there_and_every_test_of_the_suite_passes(store, saver_type):
    async def saver():
        yield saver_type(store.open())

    report = asyncio.run(validate(RegisteredCheckpointer(name=saver_type.__name__, factory=saver)))
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    assert {each.value for each in Capability} == {name for name, result in report.results.items() if result.detected}
    passed = {name: result.tests_passed for name, result in report.results.items()}
    # A newer suite may have more tests.
    assert all(passed[name] >= count for name, count in TESTS.items()), passed

"""The rings name tests and parts of the contract that exist, and leave the storages' own contracts whole."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clew.testing import DurableStorageContract
from mutants.targets import TARGETS
from tests import rings
from tests.checkpointer.support import PostgresStore, RedisStore, SQLiteStore

TESTS = Path(__file__).parent


def test_every_path_that_the_rings_name_exists():
    assert [
        name for name in (*rings.QUICK, *rings.SLOW, *rings.FULL, *rings.ALIKE) if not (TESTS / name).exists()
    ] == []


def test_every_machine_that_is_shortened_exists_and_is_not_the_one_of_a_storage():
    sources = [path.read_text("utf-8") for path in TESTS.rglob("test_*.py")]
    assert [name for name in rings.SHORTER if not any(f"{name} = " in source for source in sources)] == []
    assert not set(rings.SHORTER) & {str(target.machine).rpartition("::")[2] for target in TARGETS.values()}


def test_wrappers_break_parts_of_the_contract_that_exist():
    parts = {base.__name__.removesuffix("Contract") for base in DurableStorageContract.__mro__}
    assert {name for names in rings.CAN_BREAK.values() for name in names} <= parts


@pytest.mark.parametrize(
    ("store", "is_run"), [(None, True), (SQLiteStore, True), (PostgresStore, False), (RedisStore, False)]
)
def test_a_test_that_is_alike_on_every_store_is_left_out_for_its_store_and_not_for_its_name(store, is_run):
    item: Any = SimpleNamespace(
        nodeid="tests/checkpointer/test_bad_input.py::test_no_password_is_in_the_error_of_a_bad_url[redis://u:p@h]",
        get_closest_marker=lambda name: None,
        fixturenames=["store"],
        callspec=SimpleNamespace(params={"store": store} if store else {"url": "redis://u:p@h"}),
    )
    assert rings.in_ring(item, "test") is is_run


def test_the_contracts_that_kill_mutants_run_whole():
    for target in TARGETS.values():
        path, _, name = target.contract.partition("::")
        module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
        contract = getattr(module, name)
        assert not hasattr(contract, "kind")
        assert contract.paths == DurableStorageContract.paths

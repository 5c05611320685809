"""Settings for all tests: the ring, hypothesis profiles, and where temporary files go."""

from __future__ import annotations

import gc
import os
import secrets
import shutil
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import settings

from tests import crashes, rings

# An OpenAI key in the environment must not make the tests send traces.
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

# No deadline: a busy machine is not a failure. CI runs the same examples each time, so that only a change fails it.
settings.register_profile("test", deadline=None, derandomize="CI" in os.environ, print_blob=True, max_examples=40)
settings.register_profile("all", settings.get_profile("test"), max_examples=100)

if "CLEW_FRESH" in os.environ:
    # One seed for all processes of pytest-xdist.
    os.environ.setdefault("CLEW_SEED", str(secrets.randbits(32)))

TESTS = Path(__file__).parent
SHARED_MEMORY = Path("/dev/shm")
if SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK) and shutil.disk_usage(SHARED_MEMORY).free > 2**32:
    # fsync costs nothing there. Killed processes leave the same files behind as on a disk.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(SHARED_MEMORY))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ring", choices=get_args(rings.Ring), default="test", help="which tests to run: tests/rings.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    # Tests wait for servers and other processes a third of their time.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (usable or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(crashes)
    ring = os.environ[rings.RING] = config.getoption("--ring")
    settings.load_profile("all" if ring == "all" else "test")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    named = any(collection_path == Path(each).resolve() for each in config.args)
    if not named and not _by_id(config) and rings.outside(collection_path, TESTS, config.getoption("--ring")):
        return True
    return None


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[pytest.Item] | None:
    if not isinstance(collector, pytest.Class) or not name.startswith("test_") or _by_id(collector.config):
        return None
    every = collector.config.getoption("--ring") == "all"
    return None if every or rings.can_break(collector.obj, obj) else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _by_id(config):
        return
    ring = config.getoption("--ring")
    kept = [item for item in items if rings.in_ring(item, ring)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=list(set(items) - set(kept)))
        items[:] = kept
    for machine in {item.parent for item in items if isinstance(item.parent, pytest.Class)}:
        usual = getattr(machine.obj, "settings", None)
        if isinstance(usual, settings) and (fewer := rings.examples(machine.name, ring)) is not None:
            machine.obj.settings = settings(usual, max_examples=min(fewer, usual.max_examples))


def pytest_collection_finish() -> None:
    # Thousands of collected tests would be looked at by each garbage collection.
    gc.collect()
    gc.freeze()


def _by_id(config: pytest.Config) -> bool:
    return any("::" in argument for argument in config.args)


def pytest_report_header() -> str | None:
    seed = os.environ.get("CLEW_SEED")
    return f"state machines: fresh steps; CLEW_SEED={seed} repeats them" if seed else None

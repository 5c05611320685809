"""Sync calls never hang after an interrupt, or when their loop fails or ends. Each scenario has a time limit."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.checkpointer.conftest import REMOTE
from tests.checkpointer.interrupting import ALONE, LOCAL, SCENARIOS

ROOT = Path(__file__).parents[2]
LIMIT = 500.0
"""Seconds: many times the duration of a scenario."""


def rehearse(scenario: str, url: str) -> None:
    command = [sys.executable, "-m", "tests.checkpointer.interrupting", scenario, url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "done\n"


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and timers")


@pytest.mark.parametrize("kind", REMOTE)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_on_servers(scenario, kind, tmp_path):
    with closing(kind(tmp_path)) as store:
        rehearse(scenario, store.url)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_on_a_storage_in_memory_that_suspends(scenario):
    rehearse(scenario, "slow:")


@pytest.mark.parametrize("scenario", LOCAL)
@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/clew.db"], ids=["memory", "sqlite"])
def test_on_a_storage_that_runs_in_the_callers_thread(scenario, url, tmp_path):
    rehearse(scenario, url.format(tmp_path))


@pytest.mark.parametrize("scenario", ALONE)
def test_without_a_storage(scenario):
    rehearse(scenario, "")

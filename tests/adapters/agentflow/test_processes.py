"""Real processes, killed without warning: finished steps stay, and the next process continues from
there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.adapters.agentflow import ClewCheckpointer
from tests.adapters.agentflow.support import line, talking, texts
from tests.adapters.agentflow.worker import CONFIG
from tests.checkpointer.conftest import SHARED
from tests.checkpointer.support import run

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")


@pytest.fixture(params=SHARED)
def url(request, tmp_path):
    with closing(request.param(tmp_path)) as store:
        yield store.url


@contextmanager
def worker(url: str, how: str, *come_in: str) -> Any:
    command = [sys.executable, "-m", "tests.adapters.agentflow.worker", url, how, json.dumps(come_in)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def lines(process: Any, last: str) -> list[str]:
    """The lines that the process prints, up to `last`."""
    told: list[str] = []
    for line_ in process.stdout:
        told.append(line_.strip())
        if told[-1] == last:
            return told
    raise AssertionError(f"it ended without {last!r}: {told}")


@pytest.mark.parametrize("how", ["invoke", "stream"])
def test_a_killed_run_goes_on_with_the_node_that_it_was_killed_in(url, how):
    with worker(url, f"{how} hang", "hello") as process:
        assert lines(process, "two") == ["one", "two"]
        process.kill()
    with worker(url, how) as process:
        assert lines(process, "status completed") == ["two", "three", "status completed"]
    with clew.connect(url) as store:
        assert texts(store.list_messages(CONFIG)) == ["hello", "one", "two", "three"]
        assert store.verify().damage == ()


def test_a_tool_that_was_done_is_not_run_again_after_its_process_was_killed(url):
    with worker(url, "tools hang", "hello") as process:
        assert lines(process, "ship") == ["charge", "ship"]
        process.kill()
    with worker(url, "tools") as process:
        assert lines(process, "status completed") == ["ship", "status completed"]
    with clew.connect(url) as store:
        assert texts(store.list_messages(CONFIG))[-1] == "charge done and ship done"


def test_a_run_is_stopped_from_another_process(url):
    with worker(url, "hang", "hello") as process:
        lines(process, "two")
        with clew.connect(url) as store:
            app = line(*talking("one", "two", "three")).compile(checkpointer=ClewCheckpointer(store))
            assert run(app.astop(CONFIG)) == {"ok": True, "running": True}
            assert lines(process, "status interrupted_after") == ["status interrupted_after"]

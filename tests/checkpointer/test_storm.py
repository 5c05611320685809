"""Ctrl-C at random moments: nothing hangs, no save is lost, nothing stays locked. `make interrupts` runs more."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from base64 import b64encode
from contextlib import closing
from pathlib import Path

import pytest

from tests.checkpointer.conftest import SHARED

ROOT = Path(__file__).parents[2]
MODES = ["sync", "background", "async", "async-background"]
INTERRUPTS = int(os.environ.get("CLEW_INTERRUPTS", "20"))

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs timers"),
    # A process that hangs ends itself.
    pytest.mark.timeout(0),
]


def storm(url: str, mode: str, capsys: pytest.CaptureFixture[str], **environment: str) -> None:
    seed = os.environ.get("CLEW_SEED") or str(secrets.randbits(32))
    command = [sys.executable, "-m", "tests.checkpointer.storm", url, mode, str(INTERRUPTS), seed]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"CLEW_SEED={seed}\n{done.stdout}{done.stderr}"
    counts = json.loads(done.stdout)
    assert counts["interrupts"] >= INTERRUPTS
    with capsys.disabled():
        if "CLEW_INTERRUPTS" in os.environ:
            print(f"\n{url.partition(':')[0]:10} {mode:10} seed {seed}: {done.stdout}", end="")


@pytest.mark.parametrize("mode", MODES)
def test_in_memory(mode, capsys):
    storm("memory:", mode, capsys)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", SHARED)
def test_on_a_store(kind, mode, tmp_path, capsys):
    with closing(kind(tmp_path)) as store:
        storm(store.url, mode, capsys)


@pytest.mark.parametrize("mode", MODES)
def test_on_a_file_that_is_encrypted_and_cached(mode, tmp_path, capsys):
    key = b64encode(bytes(range(32))).decode()
    storm(f"sqlite:///{tmp_path}/clew.db?cache=memory://", mode, capsys, CLEW_ENCRYPTION_KEYS=f"key:{key}")

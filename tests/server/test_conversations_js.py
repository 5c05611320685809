"""OpenAI's client for JavaScript keeps conversations in a Clew store, over real HTTP."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import clew
from tests.server.support import KNOWN, PATIENCE, listening

VERSION = "openai@6"
SCRIPT = Path(__file__).with_name("conversations.mjs")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with OpenAI's client, from npm."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("OpenAI's JavaScript client is NOT tested: install Node.js 20 or newer, with npm")
    made = tmp_path_factory.mktemp("js")
    (made / "package.json").write_text('{"private": true, "type": "module"}')
    command = [npm, "install", VERSION, "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
    done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        pytest.skip(f"OpenAI's JavaScript client is NOT tested: npm can't install it: {done.stderr[-500:]}")
    shutil.copy(SCRIPT, made)
    return made


@pytest.mark.full
def test_the_javascript_client_keeps_conversations(folder, tmp_path):
    with (
        clew.connect(f"sqlite:///{tmp_path}/agent.db") as memory,
        listening(memory, authenticators=[KNOWN]) as url,
    ):
        command = ["node", SCRIPT.name, f"{url}/v1", "ana", "bob"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    said = ["To Lyon!", *map(str, range(1, 31))]
    assert told.pop("id").startswith("conv_")
    assert told == {
        "topics": ["trip", "trip", "rail"],
        "newest": said[::-1],
        "oldest": said,
        "one": "To Lyon!",
        "left": 30,
        "more": False,
        "refused": [404, 404, 404, 404],
        "deleted": True,
        "gone": True,
    }

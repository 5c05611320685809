"""Every command can print JSON, and a new one can't be forgotten."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import httpx
import pytest
import typer.main
from langgraph.checkpoint.sqlite import SqliteSaver

import clew
from clew.cli.app import app
from clew.cli.demo.show import Show

COMMANDS: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
TOKENS = {f"token {name}": each for name, each in COMMANDS["token"].commands.items()}
ALL = {name: each for name, each in COMMANDS.items() if name not in ("token", "mcp")} | TOKENS
"""All but `mcp`, whose output is JSON-RPC already."""
ELSEWHERE = {"serve", "studio", "demo", "import", "reseal", "watch"}
"""Commands that have tests of their own, below and in test_watch.py."""
LINES = {
    "threads": "threads --tag holiday",
    "history": "history trip",
    "show": "show trip",
    "messages": "messages trip --last 2",
    "search": "search number",
    "diff": "diff trip 1 2",
    "fork": "fork trip --into copy",
    "rewind": "rewind trip --turns 1",
    "delete": "delete notes --yes",
    "stats": "stats",
    "verify": "verify",
    "compact": "compact",
    "cleanup": "cleanup --max-history 3 --dry-run",
    "key": "key --id k1",
    "token create": "token create ci --tokens {folder}/tokens.json",
    "token list": "token list --tokens {folder}/tokens.json",
    "token revoke": "token revoke made --tokens {folder}/tokens.json",
}


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_command_has_the_option(name):
    assert "--json" in [option for each in ALL[name].params for option in each.opts]
    assert name in LINES or name in ELSEWHERE, "a new command: add a line that prints JSON"


@pytest.mark.parametrize("name", sorted(LINES))
def test_it_prints_json_and_nothing_else(name, store, run, tmp_path):
    if name == "token revoke":
        run("token", "create", "made", "--tokens", f"{tmp_path}/tokens.json")
    done = run(*LINES[name].format(folder=tmp_path).split(), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) is not None


def test_what_changed_is_told(store, run):
    forked = json.loads(run("fork", "trip", "--into", "copy", "--json").stdout)
    assert (forked["thread_id"], forked["forked_from"]) == ("copy", "trip")
    assert json.loads(run("verify", "--json").stdout)["ok"] is True
    assert json.loads(run("rewind", "trip", "--json").stdout)["thread_id"] == "trip"
    assert json.loads(run("delete", "copy", "--yes", "--json").stdout)["deleted"]["thread_id"] == "copy"
    with clew.connect(f"sqlite:///{store}") as memory:
        assert memory.get_thread({"thread_id": "copy", "user_id": clew.ANY_USER}) is None


def test_a_reseal_tells_what_it_sealed(path, run, monkeypatch):
    monkeypatch.setenv("CLEW_ENCRYPTION_KEYS", f"k1:{clew.Encryption.new_key()}")
    with clew.connect(f"sqlite:///{path}") as memory:
        memory.put_state("t", 1)
    told = json.loads(run("reseal", "--json").stdout)
    assert (told["threads"], list(told["left"])) == (1, [])


def test_an_import_tells_what_it_brought(path, run, tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "source.db")) as saver:
        saver.setup()
    told = json.loads(run("import", "langgraph", "--from", f"sqlite:///{tmp_path}/source.db", "--json").stdout)
    assert (told["threads"], told["checkpoints"]) == (0, 0)


def test_the_demo_tells_its_checks(run, monkeypatch):
    def acted(show: Show, *, keep: bool) -> bool:
        show._check(True, f"nothing is lost, keep={keep}")
        return True

    monkeypatch.setattr(Show, "run", acted)
    told = json.loads(run("demo", "--json").stdout)
    assert told == {"passed": True, "checks": [{"claim": "nothing is lost, keep=False", "passed": True}], "kept": None}


@pytest.mark.parametrize("command", [["serve"], ["studio", "--no-browser"]], ids=["serve", "studio"])
def test_a_server_tells_its_address(command, store, tmp_path):
    line = [sys.executable, "-m", "clew", str(store), *command, "--port", "0", "--json"]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            assert told["url"].startswith("http://127.0.0.1:")
            assert httpx.get(f"{told['url'].partition('/#')[0]}/healthz", timeout=120).status_code == 200
        finally:
            process.terminate()
            process.wait(120)

"""The store may be named before and after the command, as a file or a URL."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

from clew.cli.app import app
from clew.cli.arguments import arranged

COMMANDS = {"threads", "history", "search"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["agent.db"], ["--url", "sqlite:///agent.db", "threads"]),
        (["/a b/agent.db", "history", "t"], ["--url", "sqlite:////a%20b/agent.db", "history", "t"]),
        (["postgresql://host/db", "threads"], ["--url", "postgresql://host/db", "threads"]),
        (["--url", "redis://host"], ["--url", "redis://host", "threads"]),
        (["history", "t", "--url", "redis://host", "--json"], ["--url", "redis://host", "history", "t", "--json"]),
        (["history", "--url=redis://host", "t"], ["--url=redis://host", "history", "t"]),
        (["search", "--", "--url", "x"], ["search", "--", "--url", "x"]),
        (["threads"], ["threads"]),
        (["walk"], ["walk"]),
        (["--version"], ["--version"]),
        (["threads", "--url"], ["--url", "threads"]),
        ([], []),
    ],
    ids=str,
)
def test_the_store_is_moved_in_front_of_the_command(given, wanted):
    assert arranged(given, COMMANDS) == wanted


@pytest.mark.parametrize("order", ["{url} {command}", "{command} {url}", "{file} {command}"])
def test_every_order_reads_the_same_store(order, store):
    line = order.format(url=f"--url sqlite:///{store}", file=store, command="show trip --json")
    done = CliRunner().invoke(app, line.split())
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["thread"]["thread_id"] == "trip"


def test_a_file_alone_shows_its_threads(store):
    shown = CliRunner().invoke(app, [str(store)]).stdout
    assert "trip" in shown
    assert "notes" in shown


def test_a_command_is_never_taken_for_a_file(store, monkeypatch):
    monkeypatch.chdir(store.parent)
    (store.parent / "threads").write_text("a file with the name of a command")
    monkeypatch.setenv("CLEW_URL", f"sqlite:///{store}")
    assert "trip" in CliRunner().invoke(app, ["threads"]).stdout


@pytest.mark.parametrize("name", sorted(typer.main.get_command(app).commands))  # type: ignore[attr-defined]
def test_the_help_of_a_command_says_how_to_name_the_store(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    shown = CliRunner().invoke(app, [name, "--help"]).stdout
    assert ("--url URL" in shown) == (name not in ("demo", "key", "token"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell):
    words = {"COMP_WORDS": "clew thr", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "clew thr"}
    asked = {"_CLEW_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args", **words}
    done = subprocess.run(
        [sys.executable, "-m", "clew"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "threads" in done.stdout, done.stderr
    assert "history" not in done.stdout

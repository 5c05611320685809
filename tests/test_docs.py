"""The reference pages document every command, option and error, and nothing else."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

import clew
from clew.cli.app import app
from clew.factory import URL_OPTIONS

DOCS = Path(__file__).parent.parent / "docs"
ROWS = re.compile(r"^\| `([^`]+)` \| (.*?) \|", re.MULTILINE)
COMMANDS: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def sections(page: str) -> dict[str, str]:
    """Return the texts under a page's headings, by the heading without its placeholders."""
    parts = re.split(r"^## `([^`]+)`\n", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {
        " ".join(re.findall(r"\b[a-z]+\b", title)): text for title, text in zip(parts[::2], parts[1::2], strict=True)
    }


def options_of(command: Any) -> set[str]:
    return {name for each in command.params for name in each.opts if name.startswith("--") and name != "--help"}


def documented(text: str) -> set[str]:
    return {name.split()[0] for name, _ in ROWS.findall(text) if name.startswith("--")}


def test_every_command_is_documented():
    assert set(sections("cli.md")) == {"clew", *(f"clew {name}" for name in COMMANDS)}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_documented(name):
    assert documented(sections("cli.md")[f"clew {name}"]) == options_of(COMMANDS[name])


def test_every_global_option_is_documented():
    assert documented(sections("cli.md")["clew"]) == options_of(typer.main.get_command(app))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_a_help_text(name):
    assert COMMANDS[name].help
    assert all(each.help for each in COMMANDS[name].params if each.name != "help")


def test_every_option_of_connect_is_documented_with_its_default():
    options = {
        name: each.default
        for cls in (
            clew.BaseCheckpointer,
            clew.SQLiteCheckpointer,
            clew.PgCheckpointer,
            clew.RedisCheckpointer,
            clew.DistributedCheckpointer,
        )
        for name, each in inspect.signature(cls).parameters.items()
        if each.kind is each.KEYWORD_ONLY
    }
    rows = {
        name: default
        for name, default in ROWS.findall((DOCS / "configuration.md").read_text("utf-8"))
        if name.isidentifier() and name.islower()
    }
    assert set(rows) == set(options)
    for name, default in options.items():
        shown = rows[name]
        assert f"`{default!r}`" in shown or name == "clock", f"{name}: {default!r} and not {shown}"
    assert set(URL_OPTIONS) <= set(options)


def test_every_error_is_documented():
    text = (DOCS / "errors.md").read_text("utf-8")
    errors = {
        name
        for name in clew.__all__
        if isinstance(getattr(clew, name), type) and issubclass(getattr(clew, name), clew.ClewError)
    }
    assert {name for name in errors if f"`{name}`" not in text and f"`clew.{name}`" not in text} == set()


def test_every_test_that_the_table_of_frameworks_names_is_there():
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "frameworks.md").read_text("utf-8")))
    tests = "".join(path.read_text("utf-8") for path in (Path(__file__).parent / "adapters").rglob("test_*.py"))
    assert len(named) > 30
    assert {name for name in named if f"def {name}(" not in tests} == set()


def test_the_tests_that_the_page_on_security_names_are_there():
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", (DOCS / "security.md").read_text("utf-8"))
    assert len(named) > 20
    missing = [name for path, name in named if f"def {name}(" not in (DOCS.parent / path).read_text("utf-8")]
    assert missing == []

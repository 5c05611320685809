"""Errors name options of the command line, not arguments of Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

import clew
from clew.cli.advice import _WORDS, translated
from clew.cli.app import app
from tests.cli.test_bad_input import complaint

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("command", "said", "wanted"),
    [
        ("rewind", "thread 't' can't go back; pass to=", "thread 't' can't go back; pass --to ID"),
        ("rewind", "takes a checkpoint (to=) or turns (turns=)", "takes a checkpoint (--to ID) or turns (--turns N)"),
        ("messages", "use last= instead of limit=", "use --last N instead of --limit N"),
        ("delete", "pass yes= to go on", "pass --yes to go on"),
        ("rewind", "thread 'go to= x' is gone", "thread 'go to= x' is gone"),
        ("rewind", 'thread "it\'s to= x" is gone', 'thread "it\'s to= x" is gone'),
        ("rewind", "to=3 was given, into= too", "to=3 was given, into= too"),
        ("rewind", "key 'k1' was not given; add it to the keys in encryption=", "add it to CLEW_ENCRYPTION_KEYS"),
        ("threads", "pass to=", "pass to="),
    ],
)
def test_arguments_become_options_of_the_command(command, said, wanted):
    assert translated(said, COMMANDS[command].params).endswith(wanted)


def test_a_rewind_without_a_turn_names_its_option(store, run):
    assert "to go back to a checkpoint, pass --to ID. " in complaint(run("rewind", "notes"))
    both = complaint(run("rewind", "trip", "--to", "1", "--turns", "1"))
    assert both == "clew: `clew rewind` takes a checkpoint (--to ID) or a number of turns (--turns N), not both"


@pytest.mark.parametrize("options", [[], ["--keep-every", "2"], ["trip", "--dry-run"]], ids=str)
def test_a_cleanup_that_may_remove_nothing_names_its_options(options, store, run):
    said = complaint(run("cleanup", *options))
    assert said.startswith(
        "clew: say what may be removed: --max-age AGE, --max-history N or --max-bytes SIZE; or --own-rules"
    )


def test_own_rules_go_with_no_other_rule(store, run):
    for rule in (["--max-history", "2"], ["--keep-every", "2"]):
        assert "--own-rules stands alone" in complaint(run("cleanup", "--own-rules", *rule))


def test_a_window_of_messages_names_its_options(store, run):
    assert "use --last N instead of --limit N" in complaint(run("messages", "trip", "--last", "2", "--offset", "1"))


def test_a_search_for_nothing_names_commands(store, run):
    assert complaint(run("search", "")).endswith("`clew threads` and `clew messages` list everything")


def test_keys_are_asked_for_where_the_command_line_reads_them(store, path, run, monkeypatch):
    assert complaint(run("reseal")).endswith("put one into CLEW_ENCRYPTION_KEYS; `clew key` makes one")
    sealed = path.with_name("sealed.db")
    keys = {name: clew.Encryption.new_key() for name in ("k1", "k2")}
    with clew.connect(f"sqlite:///{sealed}", encryption=clew.Encryption(keys={"k1": keys["k1"]})) as memory:
        memory.put_state("t", {"n": 1})
    for given in ("", f"k2:{keys['k2']}", f"k1:{keys['k2']}"):
        monkeypatch.setenv("CLEW_ENCRYPTION_KEYS", given)
        said = complaint(run("show", "t", url=f"sqlite:///{sealed}"))
        assert "CLEW_ENCRYPTION_KEYS" in said
        assert "encryption=" not in said


def literals(tree: ast.AST) -> Iterator[str]:
    """The texts in a module, those with placeholders too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "\0" for each in node.values)


def test_no_translation_is_out_of_date():
    """The phrases are those of the API, so a change there must be followed here."""
    folder = Path(clew.__file__).parent
    modules = [path for path in folder.rglob("*.py") if path.relative_to(folder).parts[0] != "cli"]
    texts = [text for path in modules for text in literals(ast.parse(path.read_text(encoding="utf-8")))]
    for phrase in _WORDS:
        assert any(phrase in text for text in texts), phrase

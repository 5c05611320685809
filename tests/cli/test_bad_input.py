"""Invalid input prints one clear line and changes nothing."""

from __future__ import annotations

import sqlite3

import pytest

LATER = [
    ["search", "x"],
    ["rewind", "trip"],
    ["delete", "trip", "--yes"],
    ["watch", "--timeout", "0"],
    ["cleanup", "--max-history", "1"],
    ["reseal"],
    ["mcp", "--all-users"],
    ["studio", "--no-browser"],
]
COMMANDS = [
    ["threads"],
    ["history", "trip"],
    ["show", "trip"],
    ["messages", "trip"],
    ["diff", "trip", "1", "2"],
    ["fork", "trip"],
    ["stats"],
    ["verify"],
    ["compact"],
]


def complaint(result):
    """Return the one line of the error."""
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("clew: ")
    return line


@pytest.mark.parametrize("command", [*COMMANDS, *LATER], ids=lambda command: command[0])
def test_a_file_that_is_not_there_is_not_made(command, run, path):
    assert f"{path} does not exist" in complaint(run(*command))
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_file_that_is_no_database_is_left_as_it_is(command, run, path):
    path.write_text("my diary\n" * 1000)
    assert "is not a database" in complaint(run(*command))
    assert path.read_text() == "my diary\n" * 1000


def test_an_empty_file_stays_empty(run, path):
    path.touch()
    assert "is empty" in complaint(run("threads"))
    assert path.read_bytes() == b""


def test_a_database_of_somebody_else_is_left_alone(run, path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE invoices (total)")
    connection.close()
    before = path.read_bytes()
    assert "not one of Clew's" in complaint(run("threads"))
    assert path.read_bytes() == before


def test_a_store_of_a_newer_clew_is_refused(store, run):
    connection = sqlite3.connect(store)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    assert "upgrade" in complaint(run("threads"))


def test_a_directory_is_no_store(run, tmp_path):
    assert "is a directory" in complaint(run("threads", url=f"sqlite:///{tmp_path}"))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("agent.db", "is not a URL"),
        ("mongodb://host", "unknown URL scheme 'mongodb'"),
        ("memory://", "name a durable store"),
        ("sqlite:///a.db?colour=red", "'colour'"),
    ],
)
def test_a_url_that_names_no_store_is_explained(run, url, words):
    assert words in complaint(run("threads", url=url))


@pytest.mark.parametrize(
    "command",
    [*[[*command[:1], "nope", *command[2:]] for command in COMMANDS[1:6]], ["verify", "nope"], ["compact", "nope"]],
    ids=lambda command: command[0],
)
def test_an_unknown_thread_is_named(command, store, run):
    assert "thread 'nope' does not exist" in complaint(run(*command))


@pytest.mark.parametrize("command", [["show", "--checkpoint"], ["fork", "--checkpoint"], ["diff"]], ids=lambda c: c[0])
def test_an_unknown_checkpoint_is_named(command, store, run):
    name, *rest = command
    assert "has no checkpoint 'nope'" in complaint(run(name, "trip", *rest, "nope"))


def test_the_beginning_of_several_ids_is_not_enough(store, run):
    assert "5 checkpoints of thread 'trip' begin with '0'" in complaint(run("show", "trip", "--checkpoint", "0"))


def test_a_fork_does_not_take_the_place_of_a_thread(store, run):
    assert "notes" in complaint(run("fork", "trip", "--into", "notes"))


@pytest.mark.parametrize(
    "args", [["threads", "--limit", "0"], ["messages", "trip", "--offset", "-1"], ["walk"], ["show"]]
)
def test_wrong_usage_shows_the_usage(args, store, run):
    result = run(*args)
    assert result.exit_code == 2
    assert "Usage" in result.stderr


@pytest.mark.parametrize(
    "content", [None, b"", b"my diary\n" * 1000, "a database"], ids=["none", "empty", "text", "other"]
)
def test_an_import_without_a_source_makes_no_store(content, run, path, tmp_path):
    source = tmp_path / "source.db"
    if content == "a database":
        connection = sqlite3.connect(source)
        connection.execute("CREATE TABLE invoices (total)")
        connection.close()
    elif content is not None:
        source.write_bytes(content)
    before = sorted(tmp_path.iterdir())
    assert "source.db" in complaint(run("import", "langgraph", "--from", f"sqlite:///{source}"))
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("source", ["redis://host", "postgresql://127.0.0.1:1/db", "source.db"])
def test_an_import_from_an_address_that_does_not_answer_makes_no_store(source, run, path):
    complaint(run("import", "langgraph", "--from", source))
    assert list(path.parent.iterdir()) == []

"""What LangGraph's own savers wrote comes over, once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from typer.testing import CliRunner

import clew
from clew.adapters.langgraph import ClewSaver
from clew.adapters.langgraph.importing import import_threads, open_source
from clew.cli.app import app
from clew.testing.servers import shared_postgres
from tests.adapters.langgraph.support import asking, chat, config, say, texts
from tests.adapters.langgraph.test_values import Point, put


@pytest.fixture(params=["sqlite", "postgres"])
def source(request, tmp_path):
    """A saver of LangGraph's own, and its URL."""
    if request.param == "sqlite":
        path = tmp_path / "theirs.db"
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            yield SqliteSaver(connection), f"sqlite:///{path}"
    else:
        url = shared_postgres()
        with PostgresSaver.from_conn_string(url) as opened:
            saver: Any = opened
            saver.setup()
            yield saver, url
            saver.conn.execute("DROP TABLE checkpoints, checkpoint_blobs, checkpoint_writes, checkpoint_migrations")


@pytest.fixture
def filled(source):
    """Two conversations, one of them alice's, and one that waits for an answer."""
    saver, url = source
    for text in ("one", "two"):
        chat(saver).invoke(say(text), config("plain"))
        chat(saver).invoke(say(text), config("owned", user_id="alice"))
    asking(saver).invoke({"log": ["in"]}, config("asked"))
    return saver, url


def everything(saver: Any, thread_id: str, **more: Any) -> list[Any]:
    return [
        (
            each.checkpoint["id"],
            each.checkpoint["channel_values"],
            each.checkpoint["channel_versions"],
            each.parent_config and each.parent_config["configurable"]["checkpoint_id"],
            each.pending_writes,
            each.metadata["step"],
        )
        for each in saver.list(config(thread_id, **more))
    ]


def test_every_checkpoint_comes_over_with_its_writes(filled, checkpointer):
    theirs, url = filled
    ours = ClewSaver(checkpointer)
    seen: list[tuple[int, int]] = []
    with open_source(url) as opened:
        report = import_threads(opened, ours, progress=lambda *at: seen.append(at))
    assert (report.threads, report.known) == (3, 0)
    assert seen[0] == (0, report.checkpoints)
    assert seen[-1] == (report.checkpoints, report.checkpoints)
    assert everything(ours, "plain") == everything(theirs, "plain")
    assert everything(ours, "owned", user_id="alice") == everything(theirs, "owned")
    assert [each.content for each in checkpointer.list_messages("plain")] == [
        "one",
        "answer to one",
        "two",
        "answer to two",
    ]
    assert [each.thread_id for each in checkpointer.list_threads({"user_id": "alice"})] == ["owned"]
    assert texts(chat(ours).invoke(say("three"), config("plain")))[-2:] == ["three", "answer to three"]
    assert asking(ours).invoke(Command(resume="yes"), config("asked"))["log"] == ["in", "they said yes"]


def test_an_import_that_was_cut_short_goes_on_and_a_second_one_finds_nothing_new(filled, checkpointer):
    _, url = filled
    saver = ClewSaver(checkpointer)

    def stop(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with open_source(url) as opened, pytest.raises(KeyboardInterrupt):
        import_threads(opened, saver, progress=stop)
    with open_source(url) as opened:
        second = import_threads(opened, saver)
        third = import_threads(opened, saver)
    assert second.known == 5
    assert (third.checkpoints, third.known) == (0, second.checkpoints + 5)
    assert checkpointer.verify().ok
    assert checkpointer.size() == third.known


@pytest.mark.parametrize("allow", [[], [Point]])
def test_a_class_of_the_user_s_comes_over_whether_or_not_it_is_allowed(tmp_path, checkpointer, allow):
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as connection:
        put(SqliteSaver(connection), {"point": Point(1, 2), "deep": {"points": [Point(3, 4)]}})
    with open_source(f"sqlite:///{path}", allow=allow) as opened:
        import_threads(opened, ClewSaver(checkpointer, allow=allow))
    saver: Any = ClewSaver(checkpointer, allow=[Point])
    expected = {"point": Point(1, 2), "deep": {"points": [Point(3, 4)]}}
    assert saver.get_tuple(config()).checkpoint["channel_values"] == expected


def test_the_command_imports_and_says_how_much(filled, tmp_path):
    _, url = filled
    target = f"sqlite:///{tmp_path}/ours.db"
    ran = CliRunner().invoke(app, ["--url", target, "import", "langgraph", "--from", url])
    assert ran.exit_code == 0, ran.output
    assert "checkpoints of 3 threads imported" in ran.output
    again = CliRunner().invoke(app, ["--url", target, "import", "langgraph", "--from", url])
    assert "0 checkpoints of 3 threads imported" in again.output
    with clew.connect(target) as checkpointer:
        saver = ClewSaver(checkpointer)
        newest = saver.get_tuple(config("plain"))
        assert newest is not None
        # The times are those of the source.
        assert checkpointer.list_checkpoints("plain")[0].timestamp.isoformat() == newest.checkpoint["ts"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--from", "mysql://x"], "no store of LangGraph's"),
        (["--from", "sqlite:///nowhere.db"], "there is no nowhere.db"),
        (["--from", "sqlite:///x.db", "--allow", "Plan"], "a module and a class"),
    ],
)
def test_wrong_input_is_told_in_one_line(args, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(app, ["--url", "sqlite:///ours.db", "import", "langgraph", *args])
    assert ran.exit_code == 1
    assert said in ran.output

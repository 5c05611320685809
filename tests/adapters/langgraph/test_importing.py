"""Import of threads from LangGraph's own savers."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send
from typer.testing import CliRunner

import clew
from clew.adapters.langgraph import ClewSaver
from clew.adapters.langgraph.importing import import_threads, open_source
from clew.cli.app import app
from clew.testing.servers import shared_postgres
from tests.adapters.langgraph.support import Log, asking, chat, config, say, texts
from tests.adapters.langgraph.test_values import Frame, Point, Reversing, put


@pytest.fixture
def postgres_url():
    """The URL of a schema of the test's own. LangGraph's savers have no setting for it."""
    url, schema = shared_postgres(), f"theirs_{uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        yield f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{schema}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture(params=["sqlite", "postgres"])
def source(request, tmp_path):
    """One of LangGraph's own savers, and its URL."""
    if request.param == "sqlite":
        path = tmp_path / "theirs.db"
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            yield SqliteSaver(connection), f"sqlite:///{path}"
    else:
        url = request.getfixturevalue("postgres_url")
        with PostgresSaver.from_conn_string(url) as opened:
            saver: Any = opened
            saver.setup()
            yield saver, url


@pytest.fixture
def filled(source):
    """Two conversations, one owned by alice, and a thread that waits for an answer."""
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


def spreading(saver: Any) -> Any:
    """The graph that wrote the files of older versions.

    It waits before a node that runs three times.
    """
    builder: Any = StateGraph(Log)
    builder.add_node("go", lambda state: {"log": ["go"]})
    builder.add_node("each", lambda sent: {"log": [f"each {sent['n']}"]})
    builder.add_edge(START, "go")
    builder.add_conditional_edges("go", lambda state: [Send("each", {"n": number}) for number in range(3)], ["each"])
    return builder.compile(checkpointer=saver)


OLD = sorted((Path(__file__).parent.parent.parent / "golden" / "langgraph-savers").glob("sqlite-*.db"))
DONE = ["in", "go", "each 0", "each 1", "each 2"]


@pytest.mark.parametrize("old", OLD, ids=lambda path: path.stem)
def test_files_of_older_versions_come_over_and_their_graphs_go_on(checkpointer, old):
    """LangGraph X wrote `sqlite-X.db`: the thread "done", and "t", where three tasks are to be
    sent.
    """
    before = old.read_bytes()
    with open_source(f"sqlite:///{old}") as opened:
        assert import_threads(opened, ClewSaver(checkpointer)).checkpoints == 7
    assert old.read_bytes() == before, "it is only read"
    graph = spreading(ClewSaver(checkpointer))
    assert graph.get_state(config("done")).values["log"] == DONE
    assert graph.get_state(config()).next == ("each", "each", "each")
    assert graph.invoke(None, config())["log"] == DONE


def test_a_file_that_was_never_migrated_comes_over(checkpointer, tmp_path):
    """Tables of langgraph-checkpoint-sqlite before 3.1 have no `task_path`. A saver adds it when it writes."""
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path, check_same_thread=False, isolation_level=None)) as connection:
        theirs = SqliteSaver(connection)
        asking(theirs).invoke({"log": ["in"]}, config())
        expected = everything(theirs, "t")
        connection.execute("ALTER TABLE writes DROP COLUMN task_path")
    before = path.read_bytes()
    with open_source(f"sqlite:///{path}") as source:
        import_threads(source, ClewSaver(checkpointer))
    assert path.read_bytes() == before, "it is only read"
    saver = ClewSaver(checkpointer)
    assert everything(saver, "t") == expected
    assert asking(saver).invoke(Command(resume="yes"), config())["log"] == ["in", "they said yes"]


def test_a_store_of_postgres_that_was_never_migrated_comes_over(checkpointer, postgres_url):
    """Tables of langgraph-checkpoint-postgres 1.0.9 have no `task_path`; current versions can't
    read them.
    """
    with PostgresSaver.from_conn_string(postgres_url) as opened:
        theirs: Any = opened
        theirs.setup()
        asking(theirs).invoke({"log": ["in"]}, config())
        expected = everything(theirs, "t")
        theirs.conn.execute("ALTER TABLE checkpoint_writes DROP COLUMN task_path")
        theirs.conn.execute("DELETE FROM checkpoint_migrations WHERE v > 4")
        with open_source(postgres_url) as source:
            import_threads(source, ClewSaver(checkpointer))
        columns = "SELECT 1 FROM information_schema.columns WHERE column_name = 'task_path' AND table_schema = current_schema()"
        assert theirs.conn.execute(columns).fetchone() is None, "it is only read"
    saver = ClewSaver(checkpointer)
    assert everything(saver, "t") == expected
    assert asking(saver).invoke(Command(resume="yes"), config())["log"] == ["in", "they said yes"]


@pytest.mark.parametrize(
    ("serde", "kind"),
    [
        (JsonPlusSerializer(pickle_fallback=True), "pickle"),
        (EncryptedSerializer(cast(Any, Reversing()), JsonPlusSerializer()), "msgpack+reversing"),
    ],
    ids=["pickled", "encrypted"],
)
def test_data_of_another_serializer_is_reported_in_one_line_and_imported_with_it(tmp_path, checkpointer, serde, kind):
    path = tmp_path / "theirs.db"
    value: Any = Frame(1) if kind == "pickle" else "secret"
    with closing(sqlite3.connect(path)) as connection:
        put(SqliteSaver(connection, serde=serde), {"x": value})
    url = f"sqlite:///{path}"
    ran = CliRunner().invoke(app, ["--url", f"sqlite:///{tmp_path}/ours.db", "import", "langgraph", "--from", url])
    assert ran.exit_code == 1
    assert isinstance(ran.exception, SystemExit), "no traceback"
    said = " ".join(ran.output.split())
    assert f"is stored as '{kind}'" in said
    assert "open_source(url, serde=…)" in said
    saver = ClewSaver(checkpointer, serde=serde)
    with open_source(url, serde=serde) as opened:
        import_threads(opened, saver)
    found = saver.get_tuple(config())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"x": value}


def test_the_json_of_langgraph_s_first_versions_comes_over(tmp_path, checkpointer):
    message = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"]}
    checkpoint = {"v": 1, "id": "1ef00000-0000-6000-8000-000000000000", "ts": "2024-06-01T00:00:00+00:00"}
    checkpoint |= {"channel_versions": {"messages": 1}, "versions_seen": {}, "pending_sends": []}
    values = {"messages": [{**message, "kwargs": {"content": "hello", "type": "human", "id": "1"}}]}
    data = json.dumps({**checkpoint, "channel_values": values}).encode()
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as connection:
        SqliteSaver(connection).setup()
        row = ("t", "", checkpoint["id"], None, "json", data, b'{"source": "loop", "step": 1}')
        connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        connection.commit()
    saver = ClewSaver(checkpointer)
    with open_source(f"sqlite:///{path}") as opened:
        import_threads(opened, saver)
    found = saver.get_tuple(config())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"messages": [HumanMessage("hello", id="1")]}


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
        # The import keeps the times of the source.
        assert checkpointer.list_checkpoints("plain")[0].timestamp.isoformat() == newest.checkpoint["ts"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--from", "mysql://x"], "is not the URL of a LangGraph store"),
        (["--from", "sqlite:///nowhere.db"], "there is no file nowhere.db"),
        (["--from", "sqlite:///x.db", "--allow", "Plan"], "a module and a class"),
    ],
)
def test_wrong_input_is_reported_in_one_line(args, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(app, ["--url", "sqlite:///ours.db", "import", "langgraph", *args])
    assert ran.exit_code == 1
    assert said in ran.output

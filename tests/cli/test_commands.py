"""The commands, each on a small store."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from typing import Any

import pytest

import clew
from clew.testing import FakeClock


def lines(result):
    assert result.exit_code == 0, result.output
    return [line.rstrip() for line in result.stdout.splitlines() if line.strip()]


def history_of(store, thread="trip"):
    with clew.connect(f"sqlite:///{store}") as checkpointer:
        return checkpointer.list_checkpoints({"thread_id": thread, "user_id": clew.ANY_USER}, limit=None)


def test_threads_lists_those_of_everybody_the_last_active_first(store, run):
    _, _, first, second = lines(run("threads"))
    assert first.split()[:3] == ["notes", "1", "0"]
    assert second.split()[:6] == ["trip", "To", "Lisbon", "ana", "5", "5"]


def test_threads_can_be_narrowed_to_a_user_and_a_piece_of_text(store, run):
    assert lines(run("threads", "--user", "ana"))[-1].startswith("trip")
    assert lines(run("threads", "--search", "HOLI"))[-1].startswith("trip")
    assert lines(run("threads", "--user", "bob")) == ["no threads"]


def test_a_long_list_says_that_there_is_more(store, run):
    assert lines(run("threads", "--limit", "1"))[-1] == "more results: --offset 1"
    assert lines(run("messages", "trip", "--limit", "2", "--offset", "1"))[-1] == "more results: --offset 3"
    assert lines(run("messages", "trip", "--limit", "5"))[-1].endswith("Olá number 5")
    assert lines(run("history", "trip", "--limit", "2"))[-1] == "the newest 2 of 5; --limit shows more"


def test_search_finds_messages_in_all_threads_newest_first(store, run):
    rows = lines(run("search", "NUMBER"))[2:]
    assert [row.split()[-1] for row in rows] == ["5", "4", "3", "2", "1"]
    assert all(row.startswith("trip") for row in rows)
    assert lines(run("search", "number", "--limit", "2"))[-1] == "the newest 2; --limit shows more"
    assert lines(run("search", "olá", "--user", "bob")) == ["no messages"]
    found = json.loads(run("search", "olá", "--user", "ana", "--limit", "2", "--json").stdout)
    assert [each["snippet"] for each in found] == ["Olá number 5", "Olá number 4"]
    rest = json.loads(run("search", "olá", "--before", found[-1]["position"], "--json").stdout)
    assert [each["message"]["content"] for each in rest] == ["Olá number 3", "Olá number 2", "Olá number 1"]


def test_history_shows_each_checkpoint_with_its_parent_the_newest_first(store, run):
    rows = lines(run("history", "trip"))[2:]
    assert [row.split()[0] for row in rows] == ["5", "4", "3", "2", "1"]
    assert [row.split()[4] for row in rows] == ["#4", "#3", "#2", "#1", "–"]
    assert [row.split()[1] for row in rows] == [each.checkpoint_id for each in history_of(store)]


def test_history_and_show_tell_when_a_replaced_checkpoint_was_created(store, run):
    assert "created" not in run("history", "trip").stdout + run("show", "trip").stdout
    with clew.connect(f"sqlite:///{store}") as checkpointer:
        config = {"thread_id": "job", "user_id": "ana"}
        first = checkpointer.put_checkpoint(config, {"n": 1}, new_id="job-1").created_at
        last = checkpointer.put_checkpoint(config, {"n": 2}, new_id="job-1").updated_at
    for shown in (run("history", "job"), run("show", "job")):
        assert "created" in shown.stdout
        assert "saved" in shown.stdout
    (told,) = json.loads(run("history", "job", "--json").stdout)
    assert (told["created_at"], told["updated_at"]) == (first.isoformat(), last.isoformat())


def test_history_shows_where_a_line_branched(store, run):
    third = history_of(store)[2]
    with clew.connect(f"sqlite:///{store}") as checkpointer:
        checkpointer.put_state({**third.config, "user_id": "ana"}, {"said": []})
    assert lines(run("history", "trip"))[2].split()[2] == "#3"


def test_show_gives_the_head_or_the_checkpoint_that_is_named(store, run):
    assert "'step': 5" in run("show", "trip").stdout
    second = history_of(store)[3].checkpoint_id
    for name in (second, second[:15], "2", "#2"):
        shown = run("show", "trip", "--checkpoint", name).stdout
        assert "'step': 2" in shown
        assert second in shown


def test_show_shortens_what_is_long_unless_told_otherwise(store, run):
    assert "x" * 250 not in run("show", "notes").stdout.replace("\n", "")
    assert "x" * 300 in run("show", "notes", "--full").stdout.replace("\n", "")


def test_a_thread_without_checkpoints_can_be_looked_at(store, run):
    with clew.connect(f"sqlite:///{store}") as checkpointer:
        checkpointer.put_messages("talk", [clew.Message(role="user", content="hello")])
    assert lines(run("show", "talk"))[-1] == "no checkpoints"
    assert lines(run("history", "talk")) == ["no checkpoints"]
    assert lines(run("messages", "notes")) == ["no messages"]


def test_messages_come_in_order_and_can_be_searched(store, run):
    assert [line.split(maxsplit=3)[2:] for line in lines(run("messages", "trip"))] == [
        ["assistant" if number % 2 == 0 else "user", f"Olá number {number}"] for number in range(1, 6)
    ]
    assert [line[-12:] for line in lines(run("messages", "trip", "--search", "OLÁ NUMBER 3"))] == ["Olá number 3"]
    assert lines(run("messages", "trip", "--search", "%")) == ["no messages"]


def test_tool_calls_are_shown_in_the_shapes_that_frameworks_give_them(store, run):
    calls = (
        {"name": "look", "args": {"at": "map"}},
        {"id": "1", "function": {"name": "book", "arguments": '{"room": 31}'}},
        "anything",
    )
    with clew.connect(f"sqlite:///{store}") as checkpointer:
        checkpointer.put_messages("talk", [clew.Message(role="assistant", content="So:", tool_calls=calls)])
    shown = [line.strip() for line in lines(run("messages", "talk"))]
    assert shown[0].endswith("So:")
    assert shown[1:] == ["→ look(at='map')", '→ book({"room": 31})', "→ anything"]


def test_diff_shows_what_changed_between_two_checkpoints_or_until_the_head(store, run):
    assert lines(run("diff", "trip", "2", "3")) == ["said[2] added: 'Olá number 3'", "step changed: 2 -> 3"]
    assert lines(run("diff", "trip", "3"))[0] == "said[3..4] added: 'Olá number 4', 'Olá number 5'"
    assert lines(run("diff", "trip", "3", "3")) == ["no changes"]


def test_a_fork_belongs_to_the_same_owner_and_leaves_the_source_alone(store, run):
    before = history_of(store)
    assert lines(run("fork", "trip", "--checkpoint", "2", "--into", "other")) == ["other forked from trip at #2"]
    with clew.connect(f"sqlite:///{store}") as checkpointer:
        assert (checkpointer.get_state({"thread_id": "other", "user_id": "ana"}) or {})["step"] == 2
        assert checkpointer.get_thread("other") is None
    assert history_of(store) == before
    assert "forked from trip at" in run("history", "other").stdout


def test_a_rewind_goes_back_by_turns_or_to_a_checkpoint(store, run):
    assert lines(run("rewind", "trip", "--turns", "2")) == ["trip is at #7, with 2 messages"]
    assert lines(run("messages", "trip"))[-1].endswith("Olá number 2")
    assert lines(run("messages", "trip", "--all-branches"))[-1].endswith("Olá number 5")
    assert lines(run("messages", "trip", "--checkpoint", "4"))[-1].endswith("Olá number 4")
    assert lines(run("rewind", "trip", "--to", "5")) == ["trip is at #8, with 5 messages"]
    assert history_of(store)[0].parent_id == history_of(store)[2].checkpoint_id
    refused = run("rewind", "trip", "--turns", "9")
    assert refused.exit_code == 1
    assert "3 user messages" in refused.output
    with clew.connect(f"sqlite:///{store}") as checkpointer:
        found = checkpointer.get_thread({"thread_id": "trip", "user_id": "ana"})
    assert found is not None
    assert found.user_id == "ana"


def test_a_fork_gets_an_id_of_its_own_if_none_is_given(store, run):
    made = lines(run("fork", "notes"))[0].split()[0]
    assert [each.sequence for each in history_of(store, made)] == [1]


def test_stats_counts_what_is_there(store, run):
    shown = lines(run("stats"))
    assert shown[:3] == ["threads      2", "checkpoints  6", "messages     5"]
    assert any(line.startswith("trip") for line in shown)


def test_verify_reads_everything(store, run):
    assert lines(run("verify")) == ["sound: 6 checkpoints, 0 attachments and 5 messages of 2 threads read"]
    assert lines(run("verify", "trip")) == ["sound: 5 checkpoints, 0 attachments and 5 messages of 1 thread read"]


def test_verify_names_what_is_damaged_and_fails(store, run):
    damaged = history_of(store)[3].checkpoint_id
    connection = sqlite3.connect(store)
    connection.execute("UPDATE checkpoints SET body = x'00' WHERE checkpoint_id = ?", [damaged])
    connection.commit()
    connection.close()
    result = run("verify")
    assert result.exit_code == 1
    assert damaged in result.stdout
    assert "1 damaged record" in result.stdout
    broken = run("show", "trip", "--checkpoint", "2")
    assert broken.exit_code == 1
    assert damaged in broken.stderr
    assert run("show", "trip").exit_code == 0


def test_compact_keeps_every_checkpoint_loadable(store, run):
    states = [run("show", "trip", "--checkpoint", str(number), "--json").stdout for number in range(1, 6)]
    assert lines(run("compact"))[0].startswith("2 threads")
    assert lines(run("compact", "trip"))[0].startswith("1 thread")
    assert states == [run("show", "trip", "--checkpoint", str(number), "--json").stdout for number in range(1, 6)]


def test_every_command_that_reads_can_print_json(store, run):
    answers = {
        name: json.loads(run(*name.split(), "--json").stdout)
        for name in ("threads", "history trip", "show trip", "messages trip", "diff trip 1 2", "stats")
    }
    assert [clew.ThreadInfo.from_dict(each).thread_id for each in answers["threads"]] == ["notes", "trip"]
    assert [clew.CheckpointInfo.from_dict(each) for each in answers["history trip"]] == history_of(store)
    assert answers["show trip"]["checkpoint"]["state"]["step"] == 5
    assert clew.Message.from_dict(answers["messages trip"][0]).text() == "Olá number 1"
    assert answers["diff trip 1 2"]["changes"][0]["path"] == ["said", 1]
    assert answers["stats"]["by_thread"]["trip"]["checkpoints"] == 5


def test_types_that_json_lacks_become_text(store, run):
    with clew.connect(f"sqlite:///{store}") as checkpointer:
        checkpointer.put_state("odd", {1: {2, 3}, (4, 5): b"bytes", "nan": float("nan"), "tuple": (None, True)})
    shown = json.loads(run("show", "odd", "--json").stdout)["checkpoint"]["state"]
    assert shown == {"1": [2, 3], "(4, 5)": "b'bytes'", "nan": "nan", "tuple": [None, True]}


def test_stored_text_cannot_control_the_terminal(store, run):
    evil = "\x1b[2Jgone\x07\u202ereversed[bold]"
    with clew.connect(f"sqlite:///{store}") as checkpointer:
        config = {"thread_id": f"id{evil}", "user_id": evil}
        call = {"name": evil, "args": {evil: evil}}
        message = clew.Message(role=evil, content=evil, tool_calls=(call,))
        checkpointer.put_checkpoint(config, {evil: evil}, messages=[message], node_name=evil, metadata={evil: evil})
        checkpointer.put_thread(config, clew.ThreadInfo(thread_id=f"id{evil}", thread_name=evil, tags=(evil,)))
    thread = f"id{evil}"
    for command in (
        ["threads"],
        ["history", thread],
        ["show", thread],
        ["messages", thread],
        ["diff", thread, "1"],
        ["stats"],
        ["fork", thread, "--into", f"new{evil}"],
        ["show", f"no{evil}"],
    ):
        output = run(*command).output
        assert not set("\x1b\x07\u202e") & set(output), command
    assert "reversed[bold]" in run("messages", thread).stdout


def test_the_url_comes_from_the_environment_if_not_given(store, monkeypatch):
    from typer.testing import CliRunner

    from clew.cli.app import app

    monkeypatch.setenv("CLEW_URL", f"sqlite:///{store}")
    assert lines(CliRunner().invoke(app, ["verify"])) == [
        "sound: 6 checkpoints, 0 attachments and 5 messages of 2 threads read"
    ]


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "clew", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout == f"clew {clew.__version__}\n"


def test_cleanup_reports_what_it_would_remove_and_then_removes_it(store, run):
    dry = lines(run("cleanup", "--max-history", "2", "--dry-run"))
    assert dry[0].startswith("would be removed from 1 thread")
    assert len(history_of(store)) == 5
    gone = lines(run("cleanup", "--max-history", "2"))
    assert [line.split() for line in gone[2:]] == [line.split() for line in dry[2:]]
    assert [row.split()[:2] for row in gone if row.startswith("checkpoints")] == [["checkpoints", "3"]]
    assert len(history_of(store)) == 2
    assert lines(run("show", "trip"))


def test_cleanup_applies_the_rules_of_the_threads_themselves(store, path, run):
    with clew.connect(f"sqlite:///{path}") as memory:
        memory.put_retention({"thread_id": "trip", "user_id": "ana"}, clew.RetentionPolicy(max_history=2))
    gone = lines(run("cleanup", "--own-rules"))
    assert [row.split()[:2] for row in gone if row.startswith("checkpoints")] == [["checkpoints", "3"]]
    assert len(history_of(store)) == 2
    with clew.connect(f"sqlite:///{path}", clock=FakeClock()) as memory:
        memory.put_state("short", {"n": 1})
        memory.put_thread("short", ttl=1)
    gone = lines(run("cleanup", "--own-rules"))
    assert [row.split()[:3] for row in gone if row.startswith("expired")] == [["expired", "threads", "1"]]


def test_cleanup_takes_ages_sizes_and_one_thread(store, run):
    def checkpoints(*options):
        return json.loads(run("cleanup", *options, "--dry-run", "--json").stdout)["checkpoints"]

    assert checkpoints("--max-age", "1h") == 0
    assert checkpoints("--max-age", "0s") == 4
    assert checkpoints("--max-age", "0s", "--keep-every", "2") == 2
    assert checkpoints("--max-bytes", "1GB") == 0
    assert checkpoints("trip", "--max-bytes", "0") == 4
    assert checkpoints("notes", "--max-bytes", "0") == 0
    for wrong in (
        ["--max-age", "soon"],
        ["--max-age", "99999999999w"],
        ["--max-bytes", "3 moons"],
        ["--max-history", "0"],
    ):
        assert run("cleanup", *wrong).exit_code == 2
    assert run("cleanup").exit_code == 1
    assert "--max-age" in run("cleanup").stderr
    assert run("cleanup", "absent", "--max-history", "1").exit_code == 1


def test_threads_are_filtered_by_tags_and_metadata(store, run):
    with clew.connect(f"sqlite:///{store}") as checkpointer:
        checkpointer.put_thread("notes", {"tags": ["work", "holiday"], "metadata": {"plan": "gold", "seats": 2}})

    def ids(*options: str) -> list[str]:
        return [each["thread_id"] for each in json.loads(run("threads", *options, "--json").stdout)]

    assert ids("--tag", "holiday") == ["notes", "trip"]
    assert ids("--tag", "holiday", "--tag", "work") == ["notes"]
    assert ids("--metadata", "plan=gold", "--metadata", "seats=2") == ["notes"]
    assert ids("--metadata", "seats=3") == []
    assert run("threads", "--metadata", "plan").exit_code == 2


def test_the_newest_messages_are_asked_for(store, run):
    newest = json.loads(run("messages", "trip", "--last", "2", "--json").stdout)
    assert [each["content"] for each in newest] == ["Olá number 4", "Olá number 5"]
    assert "offset" in run("messages", "trip", "--last", "2", "--offset", "1").stderr


def test_a_thread_is_deleted_after_a_question(store, path):
    from typer.testing import CliRunner

    from clew.cli.app import app

    def ask(answer: str | None) -> Any:
        return CliRunner().invoke(app, ["delete", "trip", "--url", f"sqlite:///{path}"], input=answer)

    for refused in (ask("n\n"), ask("")):
        assert refused.exit_code == 1
        assert "Delete trip with 5 checkpoints and 5 messages?" in refused.stderr
    with clew.connect(f"sqlite:///{path}") as checkpointer:
        assert len(checkpointer.list_threads({"user_id": clew.ANY_USER})) == 2
    assert ask("n\n").stderr.splitlines()[-1] == "Aborted."
    unanswered = ask("").stderr.splitlines()
    assert unanswered[0].endswith("[y/N]:")
    assert unanswered[1:] == ["clew: nothing was deleted: there is no answer; pass --yes to delete without asking"]
    assert ask("y\n").stdout.endswith("trip deleted, with 5 checkpoints and 5 messages\n")
    assert ask("y\n").exit_code == 1
    with clew.connect(f"sqlite:///{path}") as checkpointer:
        assert [each.thread_id for each in checkpointer.list_threads({"user_id": clew.ANY_USER})] == ["notes"]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
def test_ids_are_never_cut_wrapped_or_left_out(width, store, run, monkeypatch):
    long = "customer-4711/" + "x" * 70
    with clew.connect(f"sqlite:///{store}") as checkpointer:
        config = {"thread_id": long, "user_id": "ana"}
        saved = checkpointer.put_checkpoint(
            config, {"n": 1}, node_name="plan", messages=[{"role": "user", "content": "a word to find " * 9}]
        )
        checkpointer.put_thread(config, {"thread_name": "A name that is long enough to be cut at every width"})
    monkeypatch.setenv("COLUMNS", str(width))
    for command in ("threads", "search find", f"show {long}", "stats", f"fork {long}", "threads --user ana"):
        shown = run(*command.split()).stdout
        assert any(long in line for line in shown.splitlines()), command
        for line in shown.splitlines():
            assert long in line or "customer" not in line, command
    listed = run("history", long).stdout
    assert any(saved.checkpoint_id in line for line in listed.splitlines())

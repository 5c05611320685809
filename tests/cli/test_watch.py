"""`clew watch` follows threads live, and resumes."""

from __future__ import annotations

import json
import re
from typing import Any

import clew

TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ")


def positions(path):
    """The position before the events that `change` makes."""
    with clew.connect(f"sqlite:///{path}") as memory, memory.watch({"user_id": clew.ANY_USER}, timeout=0) as watch:
        list(watch)
        return watch._watch._cursor


def change(path):
    ana = {"thread_id": "trip", "user_id": "ana"}
    with clew.connect(f"sqlite:///{path}") as memory:
        memory.put_checkpoint(ana, {"n": 1}, messages=[{"role": "user", "content": "Olá\x1b[2J"}], node_name="plan")
        memory.put_thread(ana, {"thread_name": "Lisbon"})
        memory.put_state({"thread_id": "other", "user_id": "ben"}, {"n": 1})
        memory.delete_thread({"thread_id": "other", "user_id": "ben"})


def test_watch_prints_what_happened_since_a_position(run, store):
    since = positions(store)
    change(store)
    done = run("watch", "--since", since, "--timeout", "0")
    assert done.exit_code == 0
    lines = [line[21:] for line in done.stdout.splitlines()]
    assert [line.split()[:2] for line in lines] == [
        ["checkpoint", "trip"],
        ["messages", "trip"],
        ["thread", "trip"],
        ["checkpoint", "other"],
        ["deleted", "other"],
    ]
    assert "\x1b" not in done.stdout
    assert "plan" in done.stdout


def test_watch_prints_one_event_of_json_per_line_that_can_be_resumed(run, store):
    since = positions(store)
    change(store)
    lines = run("watch", "trip", "--since", since, "--timeout", "0", "--json").stdout.splitlines()
    events = [clew.Event.from_dict(json.loads(line)) for line in lines]
    assert [event.kind for event in events] == ["checkpoint", "messages", "thread"]
    rest = run("watch", "trip", "--since", events[1].position, "--timeout", "0", "--json").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in rest] == ["thread"]


def test_watch_shows_only_the_threads_of_the_user(run, store):
    since = positions(store)
    change(store)
    lines = run("watch", "--user", "ben", "--since", since, "--timeout", "0", "--json").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["checkpoint", "deleted"]


def test_an_old_position_is_a_gap(run, store):
    done = run("watch", "--since", "long ago", "--timeout", "0")
    assert done.stdout.splitlines()[-1].strip().startswith("gap")


def test_each_line_has_the_time_the_node_and_a_piece_of_what_was_said(run, store):
    since = positions(store)
    ana = {"thread_id": "trip", "user_id": "ana"}
    call = {"name": "look", "args": {"at": "map"}}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "To Lyon,\n" + "please " * 40},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    with clew.connect(f"sqlite:///{store}") as memory:
        saved = memory.put_checkpoint(ana, {"n": 1}, messages=said, node_name="plan", step=-1)
    first, second = run("watch", "--since", since, "--timeout", "0").stdout.splitlines()
    assert TIME.match(first)
    assert first[21:] == f"checkpoint trip  #{saved.metadata.sequence} step -1 plan {saved.checkpoint_id}"
    assert TIME.match(second)
    assert second[21:].startswith("messages   trip  user: To Lyon, please please")
    assert second.endswith("… | assistant: → look(at='map')")
    assert len(second) < 150


def test_what_is_gone_again_says_so(run, store):
    since = positions(store)
    config = {"thread_id": "gone", "user_id": "ana"}
    with clew.connect(f"sqlite:///{store}") as memory:
        saved = memory.put_checkpoint(config, {"n": 1}, messages=[{"role": "user", "content": "x"}], new_id="c1")
        memory.put_thread(config, {"thread_name": "Gone"})
        memory.delete_thread(config)
    lines = run("watch", "--since", since, "--timeout", "0").stdout.splitlines()
    assert lines[0].split() == ["checkpoint", "gone", saved.checkpoint_id, "(removed", "since)"]
    assert [line.split()[0] for line in lines] == ["checkpoint", "messages", "thread", "deleted"]
    assert all(line.endswith("(removed since)") for line in lines[:-1])

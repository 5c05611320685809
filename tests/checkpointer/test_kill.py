"""SIGKILL at any moment: all acknowledged saves are complete after reopening."""

from __future__ import annotations

import random
import signal
import sys
from typing import Any

import pytest

import clew
from tests.checkpointer.support import start
from tests.rings import rounds

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")

_WRITER = """
import sys, threading
import clew
path, name, begin = sys.argv[1], sys.argv[2], int(sys.argv[3])
checkpointer = clew.SQLiteCheckpointer(path)
state = checkpointer.get_state(name) or {"m": [], "n": -1}
for number in range(begin, 10**9):
    state["m"].append(f"{name} {number} " * 20)
    del state["m"][:-40]
    state["n"] = number
    message = clew.Message(message_id=f"{number}", role="user", content=f"said {number}")
    if number % 3 == 2:
        checkpointer.update_state(name, set={"n": number}, append={"m": state["m"][-1:]})
        checkpointer.put_messages(name, [message])
        state = checkpointer.get_state(name)
    else:
        checkpointer.put_checkpoint(name, state, messages=[message], step=number)
    sys.stdout.write(f"{number}\\n"); sys.stdout.flush()
"""


def kill_after(process, acknowledgements):
    """Kill `process`; returns what it had acknowledged."""
    last = -1
    for _ in range(acknowledgements):
        last = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    for line in process.stdout.read().splitlines(keepends=True):
        last = int(line) if line.endswith("\n") else last
    process.stdin.close()
    process.stdout.close()
    process.wait()
    return last


def check(path, name, acknowledged):
    """Check that all saves up to `acknowledged`, and at most one more, are complete."""
    with clew.SQLiteCheckpointer(path) as checkpointer:
        head: Any = checkpointer.get_state(name)
        assert head["n"] in (acknowledged, acknowledged + 1)
        assert head["m"][-1] == f"{name} {head['n']} " * 20
        infos = checkpointer.list_checkpoints(name, limit=None)
        assert len(infos) == head["n"] + 1
        sequences = [info.sequence for info in infos]
        assert sequences == sorted(sequences, reverse=True)
        assert len(set(sequences)) == len(sequences)
        for checkpoint in checkpointer.get_history(name, limit=60):
            number = checkpoint.state["n"]
            assert checkpoint.state["m"][-1] == f"{name} {number} " * 20
        said = [message.message_id for message in checkpointer.list_messages(name, limit=None)]
        assert said[: acknowledged + 1] == [str(number) for number in range(acknowledged + 1)]
        # A change without its messages is one acknowledged call less, not half a commit.
        assert len(said) in (head["n"] + 1, head["n"])
        assert len(said) > acknowledged
        return head["n"], len(said)


def test_processes_killed_at_random_lose_nothing_acknowledged(tmp_path):
    path, chance, begin = tmp_path / "clew.db", random.Random(7), 0
    for _ in range(rounds(7, 20)):
        process = start(_WRITER, path, "t", begin)
        acknowledged = kill_after(process, chance.randint(1, 12))
        head, said = check(path, "t", acknowledged)
        begin = head + 1
        if said == head:
            with clew.SQLiteCheckpointer(path) as checkpointer:
                checkpointer.put_messages("t", [clew.Message(message_id=str(head), role="user")])
    with clew.SQLiteCheckpointer(path) as checkpointer:
        assert checkpointer.verify().ok
        checkpointer.compact()
        assert checkpointer.verify().ok
        assert checkpointer.size("t") == begin


def test_several_writers_of_one_file_killed_at_once_lose_nothing_acknowledged(tmp_path):
    path, chance = tmp_path / "clew.db", random.Random(8)
    begins = {"a": 0, "b": 0, "c": 0}
    for _ in range(rounds(2, 3)):
        processes = {name: start(_WRITER, path, name, begin) for name, begin in begins.items()}
        for name, process in processes.items():
            acknowledged = kill_after(process, chance.randint(5, 25))
            head, said = check(path, name, acknowledged)
            begins[name] = head + 1
            if said == head:
                with clew.SQLiteCheckpointer(path) as checkpointer:
                    checkpointer.put_messages(name, [clew.Message(message_id=str(head), role="user")])
    with clew.SQLiteCheckpointer(path) as checkpointer:
        assert checkpointer.verify().ok


_GROUP = """
import sys, threading
import clew
checkpointer = clew.SQLiteCheckpointer(sys.argv[1])
lock = threading.Lock()
def work(name):
    state = {"m": []}
    for number in range(10**9):
        state["m"].append(f"{name} {number} " * 30)
        del state["m"][:-20]
        checkpointer.put_state(name, {**state, "n": number})
        with lock:
            sys.stdout.write(f"{name} {number}\\n"); sys.stdout.flush()
for n in range(16):
    threading.Thread(target=work, args=(f"t{n}",), daemon=True).start()
threading.Event().wait()
"""


def test_a_killed_group_commit_is_there_for_each_thread_that_was_told_so(tmp_path):
    chance = random.Random(9)
    for turn in range(rounds(2, 4)):
        path = tmp_path / f"{turn}.db"
        process = start(_GROUP, path)
        acknowledged: dict[str, int] = {}
        lines = [process.stdout.readline() for _ in range(chance.randint(100, 600))]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().splitlines(keepends=True)
        process.stdin.close()
        process.stdout.close()
        process.wait()
        for line in lines:
            if line.endswith("\n"):
                name, number = line.split()
                acknowledged[name] = int(number)
        with clew.SQLiteCheckpointer(path) as checkpointer:
            assert len(acknowledged) == 16
            for name, number in acknowledged.items():
                head: Any = checkpointer.get_state(name)
                assert head["n"] in (number, number + 1)
                assert head["m"][-1] == f"{name} {head['n']} " * 30
                assert checkpointer.size(name) == head["n"] + 1
            assert checkpointer.verify().ok

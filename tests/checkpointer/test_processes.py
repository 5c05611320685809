"""Many processes on one file, and processes that fork."""

from __future__ import annotations

import os
import signal
import threading
from datetime import timedelta
from typing import Any

import pytest

import clew
from tests.checkpointer.support import at, start, text

_SAVER = """
import sys
import clew
path, mine, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
checkpointer = clew.SQLiteCheckpointer(path)
checkpointer.setup()
print("ready", flush=True); sys.stdin.readline()
for number in range(count):
    checkpointer.put_checkpoint("shared", {"who": mine, "n": number, "pad": f"{mine} {number} " * 60})
    checkpointer.put_checkpoint(f"own {mine}", {"m": [f"{each} " * 40 for each in range(number + 1)]})
    checkpointer.put_messages("shared", [clew.Message(message_id=f"{mine}-{number}", role="user")])
print("done", flush=True)
checkpointer.release()
"""


def finish(processes):
    for process in processes:
        assert process.stdout.readline() == "done\n"
        process.stdin.close()
        assert process.wait(120) == 0
        process.stdout.close()


def begin(processes):
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


def test_four_processes_save_fifty_times_each_to_one_thread_and_to_their_own(sqlite):
    names = ["a", "b", "c", "d"]
    processes = [start(_SAVER, sqlite.path, name, 50) for name in names]
    begin(processes)
    finish(processes)
    checkpointer = sqlite.open()
    history = checkpointer.get_history("shared", limit=None)[::-1]
    assert len(history) == 200
    sequences = [each.metadata.sequence for each in history]
    assert sequences == sorted(sequences)
    assert len(set(sequences)) == 200
    parents = [each.metadata.parent_id for each in history]
    assert parents == [None, *[each.checkpoint_id for each in history[:-1]]]
    for name in names:
        assert [each.state["n"] for each in history if each.state["who"] == name] == list(range(50))
        said = [each.message_id for each in checkpointer.list_messages("shared", limit=None)]
        assert [each for each in said if each.startswith(name)] == [f"{name}-{number}" for number in range(50)]
        assert checkpointer.size(f"own {name}") == 50
        assert checkpointer.get_state(f"own {name}") == {"m": [f"{each} " * 40 for each in range(50)]}
    assert all(each.state["pad"] == f"{each.state['who']} {each.state['n']} " * 60 for each in history)
    assert checkpointer.verify().ok


_READER = """
import sys
import clew
checkpointer = clew.SQLiteCheckpointer(sys.argv[1])
for line in sys.stdin:
    expected = int(line)
    state = checkpointer.get_state("t")
    assert state["n"] == expected and len(state["m"]) == expected + 1, (state["n"], expected)
    assert checkpointer.list_messages("t", limit=None)[-1].message_id == str(expected)
    assert checkpointer.get_state_cache("t") == state
    print("seen", flush=True)
"""


def test_another_process_sees_what_was_acknowledged(sqlite):
    checkpointer = sqlite.open()
    reader = start(_READER, sqlite.path)
    state: dict[str, Any] = {"m": []}
    for number in range(30):
        state["m"].append(text(number))
        checkpointer.put_checkpoint(
            "t", {**state, "n": number}, messages=[clew.Message(message_id=str(number), role="user")]
        )
        reader.stdin.write(f"{number}\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "seen\n"
    reader.stdin.close()
    assert reader.wait(120) == 0
    reader.stdout.close()


_APPENDER = """
import sys
import clew
checkpointer = clew.SQLiteCheckpointer(sys.argv[1])
checkpointer.setup()
print("ready", flush=True); sys.stdin.readline()
for number in range(40):
    checkpointer.update_state("t", append={"m": [f"{sys.argv[2]} {number}"]})
print("done", flush=True)
checkpointer.release()
"""


def test_appends_of_four_processes_lose_nothing(sqlite):
    sqlite.open().put_state("t", {"m": [], "rest": text("rest", 3000)})
    processes = [start(_APPENDER, sqlite.path, name) for name in "abcd"]
    begin(processes)
    finish(processes)
    checkpointer = sqlite.open()
    state = checkpointer.get_state("t")
    assert state["rest"] == text("rest", 3000)
    assert len(state["m"]) == 160
    for name in "abcd":
        assert [each for each in state["m"] if each.startswith(name)] == [f"{name} {number}" for number in range(40)]
    lengths = [len(each.state["m"]) for each in checkpointer.get_history("t", limit=None)]
    assert lengths == list(range(160, -1, -1))


# Forked processes


def in_child(work):
    """Run `work` in a forked child; returns whether it succeeded."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            os.write(2, f"in the child: {error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    return child


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_and_its_parent_go_on_with_one_checkpointer(sqlite):
    checkpointer = sqlite.open()
    state = {"m": [text(number) for number in range(5)]}
    checkpointer.put_state("t", state)

    def work():
        assert checkpointer.get_state("t")["m"][:5] == state["m"]
        for number in range(20):
            checkpointer.update_state("t", append={"m": [f"child {number}"]})
            checkpointer.put_state("child", {"n": number})

    children = [in_child(work) for _ in range(2)]
    for number in range(20):
        checkpointer.update_state("t", append={"m": [f"parent {number}"]})
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    said = checkpointer.get_state("t")["m"][5:]
    assert len(said) == 60
    assert [each for each in said if each.startswith("parent")] == [f"parent {number}" for number in range(20)]
    assert checkpointer.get_state("child") == {"n": 19}
    assert checkpointer.verify().ok


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_while_other_threads_write_leaves_both_sides_working(sqlite):
    checkpointer = sqlite.open()
    stop, saved = threading.Event(), []

    def keep_writing(name):
        number = 0
        while not stop.is_set():
            checkpointer.put_state(name, {"n": number})
            number += 1
        saved.append((name, number - 1))

    writers = [threading.Thread(target=keep_writing, args=(f"w{n}",)) for n in range(3)]
    for writer in writers:
        writer.start()

    def work():
        checkpointer.put_state(f"child {os.getpid()}", {"n": 1})

    try:
        for _ in range(5):
            assert os.waitpid(in_child(work), 0)[1] == 0
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert sum(each.thread_id.startswith("child") for each in checkpointer.list_threads({})) == 5
    for name, number in saved:
        assert checkpointer.get_state(name) == {"n": number}
        assert checkpointer.size(name) == number + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_gets_an_event_loop_of_its_own_for_a_storage_that_waits(remote):
    with clew.BaseCheckpointer(remote.storage()) as checkpointer:
        checkpointer.put_state("t", {"n": 0})

        def work():
            checkpointer.update_state("t", set={"child": 1})
            assert checkpointer.get_state("t") == {"n": 0, "child": 1}

        assert os.waitpid(in_child(work), 0)[1] == 0
        assert checkpointer.get_state("t") == {"n": 0, "child": 1}
        checkpointer.put_state("t", {"n": 1})


def test_branches_of_two_processes_are_both_kept(sqlite):
    base = sqlite.open().put_checkpoint("t", {"m": [text(number) for number in range(20)]})
    ours, theirs = sqlite.open(), sqlite.open()
    made = [
        each.put_checkpoint(at(base), {"m": [*base.state["m"], name]}) for each, name in ((ours, "a"), (theirs, "b"))
    ]
    cold = sqlite.open()
    assert [cold.get_state(at(each))["m"][-1] for each in made] == ["a", "b"]


def ended_in_child(work):
    """Run `work` in a forked child, which ends itself if it hangs; returns its exit code."""

    def limited():
        signal.alarm(120)
        work()

    return os.waitstatus_to_exitcode(os.waitpid(in_child(limited), 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_can_release_a_checkpointer_that_cleans_up_by_itself(store):
    policy = clew.RetentionPolicy(max_age=timedelta(days=1))
    checkpointer = store.open(retention=policy, cleanup_interval=3600)
    checkpointer.put_state("t", {"n": 1})

    def work():
        checkpointer.put_state("t", {"n": 2})
        checkpointer.release()

    assert ended_in_child(work) == 0
    checkpointer.put_state("t", {"n": 3})
    assert checkpointer.get_state("t") == {"n": 3}
    checkpointer.release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_leaves_the_block_of_a_lease_and_the_parent_keeps_the_lease(store):
    checkpointer = store.open()
    checkpointer.put_state("t", {"n": 1})
    read, write = os.pipe()
    with checkpointer.lease("t", 3600):
        child = os.fork()
        if child == 0:
            signal.alarm(120)
            os.read(read, 1)
    if child == 0:
        os._exit(0)
    # The parent has returned its lease, and takes another one while the child leaves the block.
    with checkpointer.lease("t", 3600):
        os.write(write, b".")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with pytest.raises(clew.LeaseError), store.open().lease("t"):
            pass
        checkpointer.put_state("t", {"n": 2})
    os.close(read)
    os.close(write)

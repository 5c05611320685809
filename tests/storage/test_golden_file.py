"""Golden SQLite files: `tests/golden/sqlite-N.db` is as schema version N wrote it, and new code must open it.

Development versions had five schemas, which became version 1 before the first release. `sqlite-1.db` was
written with that version, with the content that the earlier golden files had.

To add a version, run `python -m tests.storage.test_golden_file` once and commit the new file; never change an old one.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.model.commit import After, Removal
from clew.storage.sqlite import SQLiteStorage, thread_index
from clew.storage.sqlite.schema import VERSION
from clew.testing.build import commit
from clew.testing.driver import InlineStorage
from tests.codec.thread_log import message

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = sorted(GOLDEN.glob("sqlite-*.db"))
TURNS = 45


def state(turn: int) -> dict[str, Any]:
    return {"messages": [message(number, 300) for number in range(turn)], "turn": turn}


def write(path: Path) -> None:
    with clew.SQLiteCheckpointer(path) as checkpointer:
        ana = {"thread_id": "trip", "user_id": "ana", "run_id": "r1"}
        for turn in range(1, TURNS + 1):
            said = clew.Message(
                message_id=f"m{turn}", role="user", content=f"Message {turn}: Grüße", tool_calls=({"n": turn},)
            )
            checkpointer.put_checkpoint(
                ana, state(turn), messages=[said], node_name="node", step=turn, metadata={"k": (turn,)}
            )
        checkpointer.put_thread(
            ana, clew.ThreadInfo(thread_id="trip", thread_name="Lisbon", tags=("a", "b"), metadata={"x": 1})
        )
        checkpointer.put_checkpoint({**ana, "checkpoint_ns": "sub"}, {"inner": True})
        checkpointer.fork(ana, "fork")
        checkpointer.update_state({**ana, "thread_id": "fork"}, append={"messages": [message(999)]})
    store = InlineStorage(lambda: SQLiteStorage(path))
    store.apply(commit("trip", user="ana", commit_id="noted", remove=Removal(), journal=b"for another store"))
    store.close()


def check(checkpointer: clew.BaseCheckpointer) -> None:
    """Check that everything that `write` wrote is there, and that it can be written to."""
    ana = {"thread_id": "trip", "user_id": "ana"}
    assert checkpointer.verify().ok
    history = checkpointer.get_history(ana, limit=None)
    assert [each.state for each in history] == [state(turn) for turn in range(TURNS, 0, -1)]
    assert history[0].metadata.metadata == {"k": (TURNS,)}
    assert (history[0].metadata.step, history[0].metadata.run_id) == (TURNS, "r1")
    assert [each.message_id for each in checkpointer.list_messages(ana, search="message 7: GRÜSSE")] == ["m7"]
    assert checkpointer.list_messages(ana, limit=1)[0].tool_calls == ({"n": 1},)
    assert checkpointer.get_state({**ana, "checkpoint_ns": "sub"}) == {"inner": True}
    (fork, trip) = checkpointer.list_threads({"user_id": "ana"})
    for needle in ("LISBON", "sb", "fork"):
        found = checkpointer.list_threads({"user_id": "ana"}, search=needle)
        assert [each.thread_id for each in found] == (["fork"] if needle == "fork" else ["fork", "trip"])
    assert (trip.thread_name, trip.tags, trip.metadata, trip.message_count) == (
        "Lisbon",
        ("a", "b"),
        {"x": 1},
        TURNS,
    )
    assert fork.forked_from is not None
    assert fork.forked_from["thread_id"] == "trip"
    assert checkpointer.get_state({**ana, "thread_id": "fork"})["messages"][-1] == message(999)
    checkpointer.put_state(ana, state(TURNS + 1))
    checkpointer.compact()
    assert checkpointer.get_state(ana) == state(TURNS + 1)
    assert checkpointer.verify().ok


def test_there_is_a_golden_file_of_the_current_version() -> None:
    assert GOLDEN / f"sqlite-{VERSION}.db" in FILES


@pytest.mark.parametrize("golden", FILES, ids=lambda path: path.stem)
def test_a_file_of_every_version_opens_reads_and_goes_on(golden: Path, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    shutil.copy(golden, path)
    store = InlineStorage(lambda: SQLiteStorage(path))
    noted = [("trip", "noted", None, b"for another store")]
    assert [(each.thread_id, each.commit_id, each.after, each.data) for each in store.journal()] == noted
    store.apply(commit("trip", user="ana", remove=Removal(), after=After("noted"), journal=b"more"))
    store.close()
    with clew.SQLiteCheckpointer(path) as checkpointer:
        check(checkpointer)


if __name__ == "__main__":
    target = GOLDEN / f"sqlite-{VERSION}.db"
    if target.exists():
        sys.exit(f"{target.name} exists: a schema that was released never changes")
    thread_index.WAITING = 0  # so that the file has the index, though its threads are few
    write(target)

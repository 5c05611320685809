"""Damaged records in one of two stores: nothing damaged is copied over a good copy."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import CorruptRecordError
from tests.replicated.support import wait_until

NAMES = ("other", "t")
KEY = b"k" * 32


class Files:
    """Two files, opened as a pair or alone."""

    def __init__(self, directory: Path, *, sealed: bool) -> None:
        self._url = f"sqlite:///{directory}"
        self._sealed: dict[str, Any] = {"encryption": clew.Encryption(keys={"k1": KEY})} if sealed else {}
        self._mode = "async" if sealed else "sync"

    def __call__(self, one: str = "a", other: str = "b") -> Any:
        options: dict[str, Any] = {"replication_mode": self._mode, "timeout": 60, **self._sealed}
        return clew.connect(f"{self._url}/{one}.db", secondary=f"{self._url}/{other}.db", **options)

    def alone(self, name: str) -> clew.Checkpointer:
        return clew.connect(f"{self._url}/{name}.db", **self._sealed)


@pytest.fixture(params=["sync", "async and encrypted"])
def pair(request, tmp_path):
    connect = Files(tmp_path, sealed=request.param != "sync")
    with connect() as both:
        for name in NAMES:
            for number in range(1, 4):
                said = clew.Message(message_id=f"{name}{number}", role="user", content=f"message {number}")
                both.put_checkpoint(name, state(number), messages=[said])
        wait_until(lambda: not both.status().replication_queue_size)
    return connect


def state(number):
    return {"m": [f"{each}" * 400 for each in range(number * 3)]}


def damage(path, statement):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.create_function("changed", 1, lambda data: data[:-1] + bytes([data[-1] ^ 1]))
        (thread_no,) = connection.execute("SELECT thread_no FROM threads WHERE thread_id = 't'").fetchone()
        assert connection.execute(statement, {"t": thread_no}).rowcount == 1


ONE_ROW = (
    "WHERE rowid = (SELECT max(rowid) FROM value_rows WHERE log_no = (SELECT log_no FROM threads WHERE thread_no = :t))"
)
ONE_MESSAGE = "WHERE message_no = (SELECT max(message_no) FROM messages WHERE message_no >> 32 = :t)"
ONE_CHECKPOINT = "WHERE rowid = (SELECT max(rowid) FROM checkpoints WHERE thread_no = :t)"
DAMAGE = [
    pytest.param(f"UPDATE value_rows SET count = count | 1099511627776 {ONE_ROW}", "its values", id="count"),
    pytest.param(f"UPDATE value_rows SET data = changed(data) {ONE_ROW}", "its values", id="values"),
    pytest.param(f"DELETE FROM value_rows {ONE_ROW}", "are not all there", id="row"),
    pytest.param(f"UPDATE checkpoints SET body = changed(body) {ONE_CHECKPOINT}", "checkpoint", id="body"),
    pytest.param(f"UPDATE checkpoints SET saved_at = 1 << 62 {ONE_CHECKPOINT}", "checkpoint .*saved_at", id="time"),
    pytest.param(f"UPDATE messages SET data = changed(data) {ONE_MESSAGE}", "message 't3'", id="message"),
]


@pytest.mark.parametrize(("statement", "named"), DAMAGE)
def test_resync_keeps_the_good_copy_and_goes_on(pair, tmp_path, statement, named):
    damage(tmp_path / "a.db", statement)
    with pair.alone("b") as standby:
        standby.delete_thread("other")
    with pair() as both:
        report = both.resync()
        assert report.repaired == ("other",)
        (refused,) = report.refused
        assert refused.thread_id == "t"
        assert "the standby's copy has no damage and the same commits" in refused.problem
        with pytest.raises(CorruptRecordError, match=named):
            raise CorruptRecordError(refused.problem)
        assert clew.ResyncReport.from_dict(report.to_dict()) == report
        with pytest.raises(CorruptRecordError, match=f"thread 't' .*({named})"):
            both.copy_thread("t", "copy")
        assert both.get_state("copy") is None
    with pair.alone("b") as standby:
        assert standby.verify().ok
        assert standby.get_state("t") == state(3)
    # The advice of the refusal.
    with pair("b", "a") as swapped:
        assert (swapped.resync().repaired, swapped.resync().repaired) == (("t",), ())
    with pair() as both:
        assert both.resync() == clew.ResyncReport(threads=2)
        assert both.verify().ok
        assert both.get_state("t") == state(3)
        both.put_state("t", state(4))
        wait_until(lambda: not both.status().replication_queue_size)
        assert both.resync() == clew.ResyncReport(threads=2)


@pytest.mark.parametrize(("statement", "named"), DAMAGE)
def test_resync_repairs_a_damaged_standby(pair, tmp_path, statement, named):
    damage(tmp_path / "b.db", statement)
    with pair() as both:
        report = both.resync()
        assert (report.repaired, report.refused) == (("t",), ())
    with pair.alone("b") as standby:
        assert standby.verify().ok
        assert standby.get_state("t") == state(3)


def test_a_thread_that_is_damaged_in_both_stores_is_named(pair, tmp_path):
    for name in "ab":
        damage(tmp_path / f"{name}.db", DAMAGE[0].values[0])
    with pair() as both:
        report = both.resync()
        assert report.repaired == ()
        assert "in the standby, too" in report.refused[0].problem

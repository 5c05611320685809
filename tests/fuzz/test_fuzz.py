"""Arbitrary calls and damaged stores raise only ClewErrors, and the fuzzer detects anything else."""

from __future__ import annotations

import os
import secrets
import sqlite3
import sys
import time
from pathlib import Path
from random import Random

import pytest

import clew
from clew.checkpointer.messages import MessageMethods
from clew.storage.columns import THREAD
from clew.storage.sqlite import queries
from clew.testing.fuzz import stores
from clew.testing.fuzz.command import main
from clew.testing.fuzz.limits import Outcome
from clew.testing.fuzz.mutations import damage
from clew.testing.fuzz.runner import Around, around, golden_files, run_case, run_cases
from clew.testing.fuzz.templates import fresh_store

GOLDEN = golden_files(Path(__file__).parents[1] / "golden")
FIXED = {"calls": range(40), "stores": range(12)}
FRESH = secrets.randbelow(1 << 32)


@pytest.mark.parametrize("kind", FIXED)
def test_only_clew_errors_come_out_of_cases_that_are_always_the_same(kind, tmp_path):
    for number in FIXED[kind]:
        assert run_case(kind, number, tmp_path, Around(GOLDEN)).findings == [], f"{kind}:{number}"


@pytest.mark.parametrize("kind", FIXED)
def test_only_clew_errors_come_out_of_fresh_cases(kind, tmp_path):
    for number in range(FRESH, FRESH + len(FIXED[kind]) // 2):
        assert run_case(kind, number, tmp_path, Around(GOLDEN)).findings == [], (
            f"make fuzz ARGS='--case {kind}:{number}'"
        )


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_only_clew_errors_come_out_of_damaged_rows_and_members(kind, tmp_path):
    for number in range(2):
        assert run_case(kind, number, tmp_path, around(kind, ())).findings == [], f"{kind}:{number}"


def test_there_are_files_of_earlier_versions_to_damage():
    assert {path.stem for path in GOLDEN} >= {"langgraph-1", "langgraph-2", "sqlite-1"}


def test_the_same_number_is_the_same_damage(tmp_path):
    made = []
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        path = fresh_store(3, tmp_path / folder)
        before = path.read_bytes()
        made.append((before, damage(path, Random(8)), path.read_bytes()))
    assert made[0] == made[1]
    assert made[0][0] != made[0][2]


def test_an_error_that_is_not_clew_s_is_found_and_named(monkeypatch, tmp_path):
    async def broken(self, config, message_id):
        raise OverflowError("planted")

    monkeypatch.setattr(MessageMethods, "aget_message", broken)
    found = [text for number in range(60) for text in run_case("calls", number, tmp_path, Around()).findings]
    assert found
    assert [text for text in found if "planted" not in text] == []


def test_fuzzing_finds_a_column_that_is_used_without_a_check(monkeypatch, tmp_path):
    real = THREAD.record

    class Trusting:
        def record(self, row):
            made = real(row)
            if made.damage:
                raise OverflowError("planted")
            return made

    monkeypatch.setattr(queries, "THREAD", Trusting())
    path = fresh_store(1, tmp_path)
    outcome = Outcome()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE threads SET updated_at = ? WHERE thread_no = 2", (1 << 62,))
    connection.close()
    checkpointer = clew.connect(f"sqlite:///{path}")
    stores.use(checkpointer, Random(1), outcome)
    checkpointer.release()
    assert any(text.startswith("list_threads: OverflowError: planted") for text in outcome.findings)


def test_a_call_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr("clew.testing.fuzz.limits.SECONDS", 0.05)

    def endless():
        while True:
            time.monotonic()

    outcome = Outcome()
    outcome.call("endless", endless)
    assert "CPU time" in outcome.findings[0]


def kill(number, outcome, folder):
    os.kill(os.getpid(), 9)


def eat(number, outcome, folder):
    outcome.call("eat", lambda: bytearray(1 << 30))


@pytest.mark.parametrize(("way", "said"), [("kill", "code -9"), ("eat", "MemoryError")])
def test_a_process_that_dies_or_takes_too_much_memory_is_a_finding(way, said, tmp_path, monkeypatch):
    # The cases run in new processes, which import the planted bug.
    (tmp_path / "sitecustomize.py").write_text(
        "import clew.testing.fuzz.runner as running\n"
        "from tests.fuzz import test_fuzz\n"
        f"running.call_case = test_fuzz.{way}\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    (result,) = run_cases("calls", iter([5]), Around(), jobs=1)
    assert result.number == 5
    assert said in result.findings[0]


def test_the_command_prints_its_seed_and_runs_a_case_again(capsys):
    assert main(["--calls", "50", "--stores", "0", "--seed", "11", "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert "seed 11;" in said
    assert "calls: 2 cases from 11, 50 calls" in said
    assert main(["--case", "calls:11"]) == 0
    with pytest.raises(ValueError, match="calls:17"):
        main(["--case", "nothing"])

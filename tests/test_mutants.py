"""The mutations fit the sources and cover every rule and promise, and their results are right."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import mutants.hunt
from clew.storage.rules import RULES
from mutants import promises
from mutants.catalog import MUTATIONS, OF_RULES
from mutants.hunt import Kill, hunt
from mutants.mutation import NOTIONS, ROOT, SOURCES, Mutation, MutationError, Regression, copy_sources
from mutants.targets import CASES, TARGETS, Stage, Target, group_of, unmutated

SHARING = {"memory", "sqlite"}
"""Storages whose forks share values."""
OWN_TO_SQLITE = {"owner", "receipt", "deleted", "epoch", "after", "fence", "shared", "head", "parent", *NOTIONS}
"""Rules for which SQLite has its own code. It shares the other rules' code with the memory storage."""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return copy_sources(tmp_path_factory.mktemp("base"))


def test_each_mutation_fits_its_source_exactly_once():
    wrong = []
    for mutation in MUTATIONS:
        try:
            assert mutation.mutated() != (SOURCES / mutation.path).read_text()
        except MutationError as error:
            wrong.append(str(error))
    assert wrong == []


def test_no_mutation_is_there_twice():
    assert len(set(MUTATIONS)) == len(MUTATIONS)


@pytest.mark.parametrize("storage", TARGETS)
def test_every_rule_is_broken_in_every_storage_that_has_it(storage):
    broken = {each.rule for each in OF_RULES if each.storage == storage}
    rules = {rule.name for rule in RULES} | set(NOTIONS)
    if storage == "sqlite":
        rules = OWN_TO_SQLITE
    if storage not in SHARING:
        rules -= {"shared"}
    assert broken == rules


def test_every_language_is_among_them():
    assert {each.file.rpartition(".")[2] for each in OF_RULES} == {"py", "sql", "lua"}
    plpgsql = {each.file for each in OF_RULES if each.storage == "postgres"}
    assert {f"postgres/sql/{name}.sql" for name in ("rules", "fast_save", "fast_appends", "commit")} <= plpgsql


def test_every_promise_has_a_mutation_or_a_reason_why_not():
    broken = {each.promise for each in promises.MUTATIONS}
    assert list(promises.PROMISES) == list(range(1, 31))
    assert broken | set(promises.ELSEWHERE) == set(promises.PROMISES)
    assert all(promises.PROMISES.values())
    assert all(promises.ELSEWHERE.values())


def test_the_tests_of_every_promise_exist_and_are_run_without_a_mutation_too():
    assert [each.tests for each in promises.MUTATIONS if not (ROOT / "tests" / each.tests).is_file()] == []
    groups = {each.name: each for each in unmutated(promises.MUTATIONS)}
    for each in promises.MUTATIONS:
        (stage,) = group_of(each).stages
        assert stage.chosen
        assert f"({stage.chosen})" in groups[each.tests].stages[0].chosen


def test_a_mutation_that_does_not_fit_is_an_error():
    with pytest.raises(MutationError, match="0 times"):
        Mutation("fence", "memory", "rules.py", "this is not there", "nor this").mutated()
    with pytest.raises(MutationError, match="not once"):
        Mutation("fence", "memory", "rules.py", "return", "yield").mutated()
    with pytest.raises(MutationError, match=r"invalid syntax|never closed|expected"):
        Mutation("fence", "memory", "rules.py", "if commit.fence != token:", "if commit.fence != (:").mutated()


def test_a_mutant_is_killed_and_the_test_named(base):
    mutation, *_ = [each for each in OF_RULES if each.rule == "fence" and each.file == "rules.py"]
    verdict = hunt(mutation, base)
    assert verdict.killed is not None
    assert not verdict.killed.hung
    assert re.fullmatch(rf"cases: TestMemoryStorage::{CASES}\[fence-.+\]", verdict.killed.by)


def test_a_fault_that_is_put_back_is_found_and_the_test_named(base):
    mutation, *_ = [each for each in promises.MUTATIONS if each.tests == "storage/test_columns.py"]
    verdict = hunt(mutation, base)
    assert verdict.killed is not None
    assert verdict.killed.by.startswith("storage/test_columns: test_a_row_whose_count_differs")


def test_a_selection_without_tests_is_an_error(base):
    fitting = promises.MUTATIONS[0]
    none = Regression(1, fitting.file, fitting.old, fitting.new, "storage/test_columns.py", "no_test_is_called_so")
    with pytest.raises(MutationError, match="pytest ended with 5"):
        hunt(none, base)


def test_a_harmless_mutation_survives(base, monkeypatch):
    # Only the rule's own cases, because the whole contract takes half a minute.
    cases = TARGETS["memory"].stages("fence")[:1]
    monkeypatch.setattr(Target, "stages", lambda self, rule: cases)
    harmless = Mutation("fence", "memory", "rules.py", "if commit.fence != token:", "if not commit.fence == token:")
    assert hunt(harmless, base).killed is None


def test_a_mutation_that_breaks_everything_is_an_error(base):
    broken = Mutation("fence", "memory", "rules.py", "if commit.fence != token:", "if commit.fence:")
    with pytest.raises(MutationError, match=r"that the rules allow fail: .*LeaseError"):
        hunt(broken, base)


@pytest.fixture
def slow(base, monkeypatch):
    """Lets the tests of mutants exceed any time limit; with `slow.append(base)` those without a mutation, too."""
    run = mutants.hunt._run
    exceeding: list[Path] = []

    def exceed(sources: Path, arguments: Sequence[str], limit: float = 0) -> subprocess.CompletedProcess[str]:
        if "pytest" in arguments and (sources != base or base in exceeding):
            raise subprocess.TimeoutExpired("pytest", limit)
        return run(sources, arguments)

    monkeypatch.setattr(mutants.hunt, "_run", exceed)
    monkeypatch.setattr(
        Target, "stages", lambda self, rule: [Stage("cases", (f"{self.contract}::{CASES}",), "[fence-")]
    )
    return exceeding


def hanging(*, may_hang: bool) -> Mutation:
    return Mutation("fence", "memory", "rules.py", "if commit.fence != token:", "if False:", may_hang=may_hang)


def test_tests_that_exceed_the_time_limit_kill_only_a_mutant_that_may_hang(base, slow):
    with pytest.raises(MutationError, match="may just be slow"):
        hunt(hanging(may_hang=False), base)
    assert hunt(hanging(may_hang=True), base).killed == Kill("cases: the time limit of 60 s", hung=True)


def test_tests_that_are_slow_without_the_mutation_too_kill_nothing(base, slow):
    slow.append(base)
    with pytest.raises(MutationError, match="without the mutation the tests fail or take as long"):
        hunt(hanging(may_hang=True), base)


def test_a_test_that_exceeds_its_own_time_limit_counts_as_hanging(base, monkeypatch, tmp_path):
    said = "FAILED tests/x.py::TestX::test_y - Failed: Timeout (>60.0s) from pytest-timeout.\n"
    monkeypatch.setattr(mutants.hunt, "_run", lambda *_: subprocess.CompletedProcess([], 1, said, ""))
    killed = mutants.hunt._killed(base, Stage("contract", ()), tmp_path, 1)
    assert killed == Kill("contract: TestX::test_y exceeds its time limit", hung=True)


def test_the_guide_names_the_command():
    assert "`make mutants`" in (ROOT / "CONTRIBUTING.md").read_text()

"""The mutations fit the sources and cover every rule, and their results are right."""

from __future__ import annotations

import re

import pytest

from clew.storage.rules import RULES
from mutants.catalog import MUTATIONS
from mutants.hunt import hunt
from mutants.mutation import NOTIONS, ROOT, SOURCES, Mutation, MutationError, copy_sources
from mutants.targets import CASES, TARGETS, Target

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
    broken = {each.rule for each in MUTATIONS if each.storage == storage}
    rules = {rule.name for rule in RULES} | set(NOTIONS)
    if storage == "sqlite":
        rules = OWN_TO_SQLITE
    if storage not in SHARING:
        rules -= {"shared"}
    assert broken == rules


def test_every_language_is_among_them():
    assert {each.file.rpartition(".")[2] for each in MUTATIONS} == {"py", "sql", "lua"}
    plpgsql = {each.file for each in MUTATIONS if each.storage == "postgres"}
    assert {f"postgres/sql/{name}.sql" for name in ("rules", "fast_save", "fast_appends", "commit")} <= plpgsql


def test_a_mutation_that_does_not_fit_is_an_error():
    with pytest.raises(MutationError, match="0 times"):
        Mutation("fence", "memory", "rules.py", "this is not there", "nor this").mutated()
    with pytest.raises(MutationError, match="not once"):
        Mutation("fence", "memory", "rules.py", "return", "yield").mutated()
    with pytest.raises(MutationError, match=r"invalid syntax|never closed|expected"):
        Mutation("fence", "memory", "rules.py", "if commit.fence != token:", "if commit.fence != (:").mutated()


def test_a_mutant_is_killed_and_the_test_named(base):
    mutation, *_ = [each for each in MUTATIONS if each.rule == "fence" and each.file == "rules.py"]
    verdict = hunt(mutation, base)
    assert verdict.killed is not None
    assert re.fullmatch(rf"cases: TestMemoryStorage::{CASES}\[fence-.+\]", verdict.killed)


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


def test_the_guide_names_the_command():
    assert "`make mutants`" in (ROOT / "CONTRIBUTING.md").read_text()

"""Planted faults: the simulator finds each, by its kind, and shrinks it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from clew.storage.replicated import storage
from clew.testing.simulation import SCENARIOS, command, simulate
from clew.testing.simulation.plan import TroubleKind
from clew.testing.simulation.shrink import shrink
from clew.testing.simulation.world import planned
from tests.simulation.plants import (
    Credulous,
    DroppingEntries,
    WithoutEnds,
    WithoutFence,
    WithoutReceipts,
    seed_that_finds,
)

pytestmark = pytest.mark.full
SEEDS = range(1, 2001)
APART: dict[TroubleKind, int] = {"crash": 4, "pause": 3, "cut": 8}
"""Troubles that make two stores diverge."""


def test_an_acknowledgement_before_durability_is_found():
    """The store loses its last writes in a crash."""
    assert seed_that_finds({"lost"}, replace(SCENARIOS["plain"], forgets=frozenset({0})), SEEDS)


def test_a_fence_that_is_ignored_is_found():
    assert seed_that_finds({"stale"}, replace(SCENARIOS["plain"], memory=WithoutFence), SEEDS)


def test_a_journal_entry_that_is_dropped_is_found():
    assert seed_that_finds({"lost", "different", "revived"}, replace(SCENARIOS["async"], memory=DroppingEntries), SEEDS)


def test_receipts_that_a_copy_lacks_are_found():
    """A duplicate commit is applied to the copy again. Copies are made after failovers that make
    the stores diverge."""
    scenario = replace(SCENARIOS["async"], memory=WithoutReceipts, lanes=("talk",), troubles=APART, twice=1.0)
    assert seed_that_finds({"revived", "doubled", "disordered", "different"}, scenario, SEEDS)


def test_chains_of_deleted_threads_that_are_forgotten_are_found():
    """A late shipment creates the thread again."""
    scenario = replace(SCENARIOS["sync"], memory=WithoutEnds, lanes=("talk", "victims"), twice=0.3)
    assert seed_that_finds({"revived", "different", "late"}, scenario, SEEDS)


def test_a_stale_role_that_is_accepted_is_found(monkeypatch):
    monkeypatch.setattr(storage, "Coordinator", Credulous)
    assert seed_that_finds(
        {"stale", "revived", "lost"}, replace(SCENARIOS["sync"], lanes=("talk", "shared"), troubles=APART), SEEDS
    )


def test_a_failing_seed_is_shrunk_to_what_the_failure_needs():
    scenario = replace(SCENARIOS["plain"], forgets=frozenset({0}))
    seed = seed_that_finds({"lost"}, scenario, SEEDS)
    plan = planned(scenario, seed)
    shrunk = shrink(scenario, plan, {"lost"}, runs=150)
    assert simulate(scenario, seed, plan=shrunk).findings.counts["lost"] > 0
    assert any(each.kind == "crash" for each in shrunk.troubles)
    assert len(shrunk.numbers) < len(plan.numbers) / 8


@pytest.fixture
def forgetting(monkeypatch):
    monkeypatch.setitem(SCENARIOS, "forgetting", replace(SCENARIOS["plain"], forgets=frozenset({0})))


def test_the_command_names_the_seeds_that_fail_and_replays_them(forgetting, capsys):
    assert command.main(["--only", "forgetting", "--seeds", "8", "--jobs", "1"]) == 1
    said = capsys.readouterr().out
    seed = said.partition("forgetting: seed ")[2].partition(":")[0]
    assert "lost" in said
    assert f"--only forgetting --seed {seed}" in said
    assert command.main(["--only", "forgetting", "--seed", seed]) == 1
    told = capsys.readouterr().out
    assert "crash store" in told
    assert "acknowledged" in told


def test_the_command_succeeds_if_nothing_is_wrong(capsys):
    assert command.main(["--only", "plain", "--seeds", "4", "--jobs", "2"]) == 0
    assert "4 seeds from 1" in capsys.readouterr().out


def test_a_seed_of_another_length_is_replayed_with_that_length(forgetting, capsys):
    assert command.main(["--only", "forgetting", "--seeds", "8", "--jobs", "1", "--steps", "200"]) == 1
    written = capsys.readouterr().out
    seed = re.search(r"--seed (\d+) --steps 200'", written)
    assert seed, written
    assert command.main(["--only", "forgetting", "--seed", seed[1], "--steps", "200"]) == 1
    outcomes = [simulate(replace(SCENARIOS["plain"], steps=steps), 1) for steps in (100, 350)]
    assert 30 < outcomes[0].commits < outcomes[1].commits / 2

"""The simulator can fail: faults that are planted are found, by their kind, and shrunk."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clew.storage.replicated import failover, steering
from clew.testing.simulation import SCENARIOS, command, simulate
from clew.testing.simulation.shrink import shrink
from clew.testing.simulation.world import planned
from tests.simulation.plants import DroppingEntries, WithoutFence, WithoutReceipts, first_finding, has_roles, held

SEEDS = range(1, 2001)


def test_an_acknowledgement_before_durability_is_found():
    """The store loses its last writes in a crash."""
    _, findings = first_finding(replace(SCENARIOS["plain"], forgets=frozenset({0})), SEEDS)
    assert findings.counts["lost"] > 0


def test_a_fence_that_is_ignored_is_found():
    _, findings = first_finding(replace(SCENARIOS["plain"], memory=WithoutFence), SEEDS)
    assert findings.counts["stale"] > 0


def test_a_journal_entry_that_is_dropped_is_found():
    _, findings = first_finding(replace(SCENARIOS["async"], memory=DroppingEntries), SEEDS)
    assert findings.counts.keys() & {"lost", "different", "revived"}


def test_receipts_that_a_copy_lacks_are_found():
    """A retry that reaches the copy is applied again."""
    _, findings = first_finding(replace(SCENARIOS["sync"], memory=WithoutReceipts), SEEDS)
    assert findings.counts.keys() & {"revived", "doubled", "disordered", "different"}


def test_a_stale_role_that_is_accepted_is_found(monkeypatch):
    """A process goes on by the roles that it once read."""
    monkeypatch.setattr(steering.Steering, "_held", held)
    for module in (steering, failover):
        monkeypatch.setattr(module, "is_fresh", has_roles)
    _, findings = first_finding(SCENARIOS["sync"], SEEDS)
    assert findings.counts.keys() & {"stale", "revived", "lost"}


def test_a_failing_seed_is_shrunk_to_what_the_failure_needs():
    scenario = replace(SCENARIOS["plain"], forgets=frozenset({0}))
    seed, _ = first_finding(scenario, SEEDS)
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


def test_the_command_succeeds_where_nothing_is_wrong(capsys):
    assert command.main(["--only", "plain", "--seeds", "4", "--jobs", "2"]) == 0
    assert "4 seeds from 1" in capsys.readouterr().out

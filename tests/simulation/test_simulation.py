"""Simulation of the real code: fixed and fresh seeds of every scenario, and determinism."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from clew.testing.simulation import SCENARIOS, simulate
from clew.testing.simulation.plan import STEPS
from tests.rings import rounds
from tests.simulation.plants import Denying, WithoutBranches, WithoutConflicts, seed_that_finds

FIXED = {
    "plain": 8, "cache": 5, "background": 5, "sync": 6, "async": 6,
    "encrypted-plain": 2, "encrypted-cache": 2, "encrypted-background": 2, "encrypted-sync": 2, "encrypted-async": 2,
}  # fmt: skip
BEFORE_STRICT = ("own", "shared", "talk", "victims", "turns")
"""The lanes of seeds that were found before rejecting saves were drawn."""
MENDED = [
    ("sync", 701390, BEFORE_STRICT, STEPS),
    ("sync", 1100050, (*BEFORE_STRICT, "strict"), STEPS),
    ("sync", 2006340, SCENARIOS["sync"].lanes, STEPS),
    ("sync", 6004590, SCENARIOS["sync"].lanes, 230),
]
"""Seeds that found a fault, with their lanes and their length. 701390: a writer was told that its thread had been
deleted, and its commit was there in the end. 1100050: a late shipment created a deleted thread again. 2006340: a
branch lacked a message that was read, but not acknowledged, before the primary was lost. 6004590: a retry on the
secondary created a deleted thread again, as the thread that it had been."""
FRESH = rounds(1, 5)
"""Seconds for fresh seeds."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_lost_doubled_stale_or_revived(name):
    for seed in range(1, rounds(FIXED[name] // 2, FIXED[name]) + 1):
        outcome = simulate(SCENARIOS[name], seed)
        assert outcome.holds, f"--only {name} --seed {seed}: {outcome.findings.texts}"
        assert outcome.commits >= 100
        assert outcome.reads > 20


@pytest.mark.parametrize(("name", "seed", "lanes", "steps"), MENDED)
def test_a_seed_that_found_a_fault_passes(name, seed, lanes, steps):
    assert simulate(replace(SCENARIOS[name], lanes=lanes, steps=steps), seed).findings.texts == []


def test_fresh_seeds_pass_too():
    first = random.SystemRandom().randrange(10**6, 10**9)
    print(f"fresh seeds from {first}")
    until = time.monotonic() + FRESH
    names = list(SCENARIOS)
    seed = first
    while time.monotonic() < until:
        name = names[seed % len(names)]
        outcome = simulate(SCENARIOS[name], seed)
        assert outcome.holds, f"--only {name} --seed {seed}: {outcome.findings.texts}"
        seed += 1


@pytest.mark.parametrize(("memory", "kind"), [(WithoutConflicts, "not_ancestor"), (Denying, "refused")])
def test_a_rejecting_save_that_breaks_its_promise_is_found(memory, kind):
    scenario = replace(SCENARIOS["plain"], memory=memory, lanes=("strict",), troubles={"stop": 1})
    assert seed_that_finds({kind}, scenario, range(1, 11))


def test_a_conversation_that_does_not_go_back_is_found():
    scenario = replace(SCENARIOS["plain"], memory=WithoutBranches, lanes=("back",), troubles={"stop": 1})
    assert seed_that_finds({"crossed"}, scenario, range(1, 11))


def test_rejecting_saves_are_acknowledged_and_refused():
    outcome = simulate(replace(SCENARIOS["sync"], lanes=("strict",)), 1)
    assert outcome.commits >= 100
    assert outcome.errors["ConflictError"] > 10


DIGESTS = """
from clew.testing.simulation import SCENARIOS, simulate
for name in ("background", "cache", "sync", "encrypted-async"):
    print(name, simulate(SCENARIOS[name], 3, traced=True).trace.digest())
"""


def test_a_seed_is_the_same_run_in_every_process_whatever_the_hash_seed():
    found = []
    for hash_seed in ("0", "12345"):
        done = subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        )
        found.append(done.stdout.split())
    assert found[0] == found[1]
    assert len(set(found[0])) == 8


def test_a_trace_does_not_change_the_run():
    bare, traced = (simulate(SCENARIOS["sync"], 5, traced=each) for each in (False, True))
    assert (bare.callbacks, bare.seconds, bare.commits) == (traced.callbacks, traced.seconds, traced.commits)
    assert traced.trace.events
    assert not bare.trace.events

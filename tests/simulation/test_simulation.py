"""The code as it is, simulated: fixed seeds of every scenario, fresh ones, and the same run each time."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clew.testing.simulation import SCENARIOS, simulate

FIXED = {
    "plain": 8, "cache": 5, "background": 5, "sync": 6, "async": 6,
    "encrypted-plain": 2, "encrypted-cache": 2, "encrypted-background": 2, "encrypted-sync": 2, "encrypted-async": 2,
}  # fmt: skip
FRESH = 5.0
"""Seconds of fresh seeds."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_lost_doubled_stale_or_revived(name):
    for seed in range(1, FIXED[name] + 1):
        outcome = simulate(SCENARIOS[name], seed)
        assert outcome.holds, f"--only {name} --seed {seed}: {outcome.findings.texts}"
        assert outcome.commits >= 100
        assert outcome.reads > 20


def test_nothing_is_wrong_with_fresh_seeds_either():
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


def test_a_run_goes_the_same_way_with_and_without_a_trace():
    bare, traced = (simulate(SCENARIOS["sync"], 5, traced=each) for each in (False, True))
    assert (bare.callbacks, bare.seconds, bare.commits) == (traced.callbacks, traced.seconds, traced.commits)
    assert traced.trace.events
    assert not bare.trace.events

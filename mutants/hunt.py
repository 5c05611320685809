"""The hunt: runs a storage's tests on a copy of the sources with one mutation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.mutation import ROOT, Mutation, MutationError, Storage, mutate
from mutants.targets import TARGETS, Stage

TIME_LIMIT = 600.0
"""Timeout for one run of pytest, in seconds. Tests that take longer have detected the mutant, too."""
_PASSED, _FAILED, _NO_TESTS = 0, 1, 5
_FAILURE = re.compile(r"^FAILED \S*?::(?P<test>.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for a mutant: the test that `killed` it, or `None` if it survived."""

    mutation: Mutation
    killed: str | None
    seconds: float


def hunt(mutation: Mutation, base: Path) -> Verdict:
    """Run the tests of the mutation's storage on it. Raises MutationError if
    it breaks more than its rule.

    `base` is the result of `copy_sources`.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="clew-mutant-") as place:
        sources = mutate(base, Path(place), mutation)
        _probe(sources, mutation.storage, Path(place), f"{mutation.rule} in {mutation.file}")
        killed = None
        for stage in TARGETS[mutation.storage].stages(mutation.rule):
            killed = _killed(sources, stage, Path(place))
            if killed is not None:
                break
    return Verdict(mutation, killed, time.monotonic() - began)


def check(storage: Storage, base: Path) -> float:
    """Run a storage's tests without a mutation; return the seconds. Raises MutationError if one fails."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="clew-mutant-") as place:
        _probe(base, storage, Path(place), f"{storage} without a mutation")
        for stage in TARGETS[storage].stages(None):
            if killed := _killed(base, stage, Path(place)):
                raise MutationError(f"{storage}: {killed} fails without a mutation; fix it first")
    return time.monotonic() - began


def _probe(sources: Path, storage: Storage, place: Path, what: str) -> None:
    probed = _run(sources, ["-m", "mutants.probe", storage, str(place)])
    if probed.returncode:
        error = (probed.stderr.strip().splitlines() or ["no error"])[-1]
        raise MutationError(f"{what}: commits that the rules allow fail: {error}")
    if not probed.stdout.startswith(str(sources)):
        raise MutationError(f"{what}: imported {probed.stdout.strip()} instead of the copy of the sources")


def _killed(sources: Path, stage: Stage, place: Path) -> str | None:
    """Return the first failed test, if any. Raises MutationError if the tests can't run.
    `place` is for temporary files."""
    chosen = ["-k", stage.chosen] if stage.chosen else []
    # Plain assertions and few plugins, because startup takes most of the time.
    options = ["-q", "-x", "-p", "pytest_timeout", "-p", "no:cacheprovider", "--assert=plain", "--tb=line", "-rfE"]
    # A separate folder, because pytest removes old ones, including those of concurrent runs.
    options += ["--basetemp", str(place / "pytest")]
    try:
        done = _run(sources, ["-m", "pytest", *options, *stage.tests, *chosen])
    except subprocess.TimeoutExpired:
        return f"{stage.name}: the time limit of {TIME_LIMIT:g} s"
    # Not every storage has such tests.
    if done.returncode == _PASSED or (chosen and done.returncode == _NO_TESTS):
        return None
    failure = _FAILURE.search(done.stdout)
    if done.returncode != _FAILED or failure is None:
        raise MutationError(
            f"{stage.name}: pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-500:]}"
        )
    return f"{stage.name}: {failure['test']}"


def _run(sources: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{sources}{os.pathsep}{ROOT}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        check=False,
    )

"""The hunt: runs the tests that must fail on a copy of the sources with one mutation."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.mutation import ROOT, Change, MutationError, mutate
from mutants.targets import Group, Stage, group_of

TIME_LIMIT = 600.0
"""Timeout for one run of pytest, in seconds. Exceeding it is an error."""
HANG_LIMIT = 60.0
"""Timeout for a mutant that may hang, in seconds. Exceeding it is a kill, if the same tests take less
without the mutation."""
_PASSED, _FAILED, _NO_TESTS = 0, 1, 5
_FAILURE = re.compile(r"^FAILED \S*?::(?P<test>.+?)(?: - (?P<error>.*))?$", re.MULTILINE)
_TIMED_OUT = "Failed: Timeout"
"""The error of a test that pytest-timeout has ended."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A run of tests that failed: `by` names the test, or the time limit if it `hung`."""

    by: str
    hung: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for a mutant: what `killed` it, or `None` if it survived."""

    mutation: Change
    killed: Kill | None
    seconds: float


def hunt(mutation: Change, base: Path) -> Verdict:
    """Run the tests that must fail on the mutant.

    Raises MutationError if it breaks more than it should, or if the tests exceed a time limit
    although it can't hang. `base` is the result of `copy_sources`.
    """
    began = time.monotonic()
    what = f"{mutation.name} in {mutation.file}"
    group = group_of(mutation)
    with tempfile.TemporaryDirectory(prefix="clew-mutant-") as place:
        sources = mutate(base, Path(place), mutation)
        _probe(sources, group, Path(place), what)
        killed = None
        for stage in group.stages:
            limit = HANG_LIMIT if mutation.may_hang else TIME_LIMIT
            killed = _killed(sources, stage, Path(place), limit)
            if killed is not None and killed.hung:
                _check_hang(mutation, killed, base, stage, Path(place))
            if killed is not None:
                break
    return Verdict(mutation, killed, time.monotonic() - began)


def check(group: Group, base: Path) -> float:
    """Run tests without a mutation; return the seconds. Raises MutationError if one fails or hangs."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="clew-mutant-") as place:
        _probe(base, group, Path(place), f"{group.name} without a mutation")
        for stage in group.stages:
            if killed := _killed(base, stage, Path(place), TIME_LIMIT):
                raise MutationError(f"{group.name}: {killed.by} fails without a mutation; fix it first")
    return time.monotonic() - began


def _check_hang(mutation: Change, killed: Kill, base: Path, stage: Stage, place: Path) -> None:
    """Raise MutationError unless the mutation may hang, and the same tests pass in time without it."""
    what = f"{mutation.name} in {mutation.file}: {killed.by}"
    if not mutation.may_hang:
        raise MutationError(f"{what}: the tests may just be slow; if the mutant hangs, set may_hang")
    if _killed(base, stage, place, HANG_LIMIT) is not None:
        raise MutationError(f"{what}: without the mutation the tests fail or take as long")


def _probe(sources: Path, group: Group, place: Path, what: str) -> None:
    probed = _run(sources, ["-m", "mutants.probe", group.probe, str(place)])
    if probed.returncode:
        error = (probed.stderr.strip().splitlines() or ["no error"])[-1]
        raise MutationError(f"{what}: {group.allowed} fail: {error}")
    if not probed.stdout.startswith(str(sources)):
        raise MutationError(f"{what}: imported {probed.stdout.strip()} instead of the copy of the sources")


def _killed(sources: Path, stage: Stage, place: Path, limit: float) -> Kill | None:
    """Return the first failed test or exceeded time limit, if any. Raises MutationError if the tests can't run.
    `place` is for temporary files."""
    chosen = ["-k", stage.chosen] if stage.chosen else []
    # Plain assertions and few plugins, because startup takes most of the time.
    options = ["-q", "-x", "-p", "pytest_timeout", "-p", "no:cacheprovider", "--assert=plain", "--tb=line", "-rfE"]
    # A separate folder, because pytest removes old ones, including those of concurrent runs.
    options += ["--basetemp", str(place / "pytest")]
    try:
        done = _run(sources, ["-m", "pytest", *options, *stage.tests, *chosen], limit)
    except subprocess.TimeoutExpired:
        return Kill(f"{stage.name}: the time limit of {limit:g} s", hung=True)
    if done.returncode == _PASSED or (stage.optional and done.returncode == _NO_TESTS):
        return None
    failure = _FAILURE.search(done.stdout)
    if done.returncode != _FAILED or failure is None:
        raise MutationError(
            f"{stage.name}: pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-500:]}"
        )
    hung = (failure["error"] or "").startswith(_TIMED_OUT)
    return Kill(f"{stage.name}: {failure['test']}{' exceeds its time limit' if hung else ''}", hung=hung)


def _run(sources: Path, arguments: Sequence[str], limit: float = TIME_LIMIT) -> subprocess.CompletedProcess[str]:
    """Run Python on `sources`. Raises TimeoutExpired after `limit` seconds."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{sources}{os.pathsep}{ROOT}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=limit)
        except BaseException:
            # With the processes that the tests have started: a mutant that hangs would run on.
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

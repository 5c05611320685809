"""The runner: runs cases in processes with bounded memory. A process that dies is a finding."""

from __future__ import annotations

import logging
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Final, NamedTuple

from clew.testing.fuzz.calls import call_case
from clew.testing.fuzz.limits import Outcome, limit_memory, peak_memory
from clew.testing.fuzz.servers import SERVERS, server_case, server_url
from clew.testing.fuzz.stores import store_case

KINDS: Final = ("calls", "stores", *SERVERS)
CHUNKS: Final = {"calls": 100, "stores": 100}
"""Number of cases that a process runs before it is replaced; fewer for cases with a server."""
_FEW: Final = 10
PATIENCE: Final = 120.0
"""Seconds after which a case that has not ended is a finding: it is blocked."""


class Result(NamedTuple):
    """The result of one case."""

    kind: str
    number: int
    calls: int
    refused: int
    findings: list[str]
    memory: int = 0


class Around(NamedTuple):
    """The inputs of cases: files of earlier versions, and a server's URL where one is needed."""

    golden: Sequence[Path] = ()
    url: str = ""


def run_case(kind: str, number: int, folder: Path, around: Around) -> Result:
    """Run one case in this process."""
    outcome = Outcome()
    try:
        if kind == "calls":
            call_case(number, outcome, folder)
        elif kind == "stores":
            store_case(number, outcome, folder, list(around.golden))
        else:
            server_case(kind, number, outcome, around.url)
    except Exception as error:  # Any error that ends a case is a finding.
        outcome.findings.append(f"the case itself: {type(error).__name__}: {error}")
    return Result(kind, number, outcome.calls, outcome.refused, outcome.findings, peak_memory())


def run_cases(kind: str, numbers: Iterator[int], around: Around, jobs: int) -> Iterator[Result]:
    """Run cases in parallel processes and yield their results, until `numbers` ends."""
    workers: list[_Worker] = []
    try:
        while True:
            while len(workers) < jobs and (chunk := list(islice(numbers, CHUNKS.get(kind, _FEW)))):
                workers.append(_Worker(kind, chunk, around))
            if not workers:
                return
            ready = wait_for([each.pipe for each in workers], timeout=1.0)
            for worker in list(workers):
                if worker.pipe in ready or worker.is_late:
                    yield from worker.results()
                    if worker.ended:
                        workers.remove(worker)
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A process and its cases."""

    def __init__(self, kind: str, numbers: list[int], around: Around) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe(duplex=False)
        self._kind, self._left = kind, numbers
        self._process = context.Process(target=_work, args=(theirs, kind, numbers, around), daemon=True)
        self._process.start()
        theirs.close()
        self._heard = time.monotonic()
        self.ended = False

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self._heard + PATIENCE

    def results(self) -> Iterator[Result]:
        """Return the output of the process so far."""
        try:
            while self.pipe.poll():
                result = Result(*self.pipe.recv())
                self._heard = time.monotonic()
                self._left = self._left[1:]
                yield result
        except EOFError:
            self._process.join()
            self.ended = True
            if self._left:
                # The remaining cases are skipped until this one is fixed.
                yield self._lost(f"the process ended with code {self._process.exitcode}")
            return
        if self.is_late:
            self.stop()
            self.ended = True
            yield self._lost(f"not done after {PATIENCE:.0f} s")

    def _lost(self, problem: str) -> Result:
        return Result(self._kind, self._left[0], 0, 0, [problem])

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


def _work(pipe: Connection, kind: str, numbers: list[int], around: Around) -> None:
    logging.disable(logging.CRITICAL)
    limit_memory()
    with tempfile.TemporaryDirectory(prefix="clew-fuzz-", dir=_fast_folder()) as folder:
        for number in numbers:
            pipe.send(tuple(run_case(kind, number, Path(folder), around)))
    pipe.close()


def _fast_folder() -> str | None:
    """Return an in-memory file system if there is one, because nothing here has to be durable."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() else None


def golden_files(folder: Path) -> list[Path]:
    """Return the stores of earlier versions in `folder`."""
    return sorted(folder.glob("*.db")) if folder.is_dir() else []


def numbered(first: int, count: int | None, until: float) -> Iterator[int]:
    """Yield case numbers from `first` on: a fixed count, or until a time on the monotonic clock."""
    number = first
    while (count is None or number < first + count) and time.monotonic() < until:
        yield number
        number += 1


def around(kind: str, golden: Sequence[Path]) -> Around:
    """Return the inputs for cases of that kind. A server is started if they need one."""
    return Around(golden, server_url(kind) if kind in SERVERS else "")


def replay(case: str, golden: Sequence[Path]) -> Result:
    """Run the case named `kind:number` in this process. Raises ValueError if the name is invalid."""
    kind, _, number = case.partition(":")
    if kind not in KINDS or not number.isdigit():
        raise ValueError(f"{case!r} is not a case; expected a name such as {KINDS[0]}:17 or {KINDS[1]}:17")
    with tempfile.TemporaryDirectory(prefix="clew-fuzz-", dir=_fast_folder()) as folder:
        return run_case(kind, int(number), Path(folder), around(kind, golden))

"""Fleet of writer processes: starts, kills, restarts and stops them."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec.structs import replace

from clew.testing.verdict.history import History
from drill.ledger import is_acknowledgement, read_lines
from drill.writer import Plan

_ROOT = Path(__file__).parent.parent
_PATIENCE = 90.0


class CrashError(Exception):
    """A writer crashed: it got an unexpected error, or read what nobody wrote."""


class Fleet:
    """One process for each plan. A context manager, which ends them on exit."""

    def __init__(self, plans: Sequence[Plan], chance: random.Random) -> None:
        self._plans = plans
        self._chance = chance
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._read: dict[int, int] = {}
        self.acknowledged = 0
        self.kills = 0

    def start(self) -> None:
        for plan in self._plans:
            self._start(plan)

    def _start(self, plan: Plan) -> None:
        plan = replace(plan, seed=self._chance.getrandbits(32))
        with self._said(plan).open("ab") as output:
            self._processes[plan.writer] = subprocess.Popen(
                [sys.executable, "-m", "drill.writer", msgspec.json.encode(plan).decode()],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=_ROOT,
                # Ctrl-C in a terminal goes to the drill only, which then ends the writers.
                start_new_session=True,
            )

    def _said(self, plan: Plan) -> Path:
        return Path(plan.ledger).with_suffix(".said")

    def kill_one(self) -> None:
        """Kill one of them at any point, and start it again."""
        plan = self._chance.choice(self._plans)
        process = self._processes[plan.writer]
        process.send_signal(signal.SIGKILL)
        self._wait(process)
        self.kills += 1
        self._start(plan)

    def progress(self) -> int:
        """Return the number of acknowledged commits. Raises CrashError if a writer crashed."""
        for plan in self._plans:
            with Path(plan.ledger).open("ab+") as ledger:
                ledger.seek(self._read.get(plan.writer, 0))
                news = ledger.read()
            news = news[: news.rfind(b"\n") + 1]
            self._read[plan.writer] = self._read.get(plan.writer, 0) + len(news)
            self.acknowledged += sum(map(is_acknowledgement, news.splitlines()))
            if self._processes[plan.writer].poll() is not None:
                raise self._crash(plan)
        return self.acknowledged

    def _crash(self, plan: Plan) -> CrashError:
        said = self._said(plan).read_text(errors="replace")[-3000:]
        return CrashError(f"writer {plan.writer} crashed; its output:\n{said}")

    def stop(self) -> None:
        """Ask all writers to end, and wait for them. Raises CrashError if one fails."""
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
        for plan in self._plans:
            if self._wait(self._processes[plan.writer]):
                raise self._crash(plan)

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(_PATIENCE)
        finally:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def history(self) -> History:
        """Return what the writers did, from their ledgers."""
        history = History()
        for plan in self._plans:
            history.add(plan.writer, read_lines(Path(plan.ledger)))
        return history

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.kill()
            self._wait(process)

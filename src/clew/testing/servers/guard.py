"""A guard process for a server: when the process that started both ends, it kills the
server and removes its files.

Its standard input is a pipe from that process. It runs as a script, with
the directory as its argument.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path


def clear(directory: Path) -> None:
    """Kill the processes whose ids are recorded in `directory`, and remove the directory."""
    for _ in range(50):
        _kill(directory / "pid")
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.1)  # The server's children are still writing.


def _kill(noted: Path) -> None:
    try:
        numbers = [int(number) for number in noted.read_text().split()]
    except (OSError, ValueError):
        return
    for number in numbers:
        with suppress(OSError):
            os.kill(number, signal.SIGKILL)


if __name__ == "__main__":
    # Ctrl-C at a terminal reaches this process too, which must outlive its parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    clear(Path(sys.argv[1]))

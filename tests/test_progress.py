"""Progress of long runs."""

from __future__ import annotations

import io

from rich.console import Console

from clew.testing.progress import progress


def shown(*, terminal: bool) -> str:
    """The output of a run whose four steps take 40 seconds each."""
    out = io.StringIO()
    now = 0.0
    console = Console(file=out, force_terminal=terminal, width=100)
    with progress(console, "sync", 4, monotonic=lambda: now) as show:
        for step in range(1, 5):
            now += 40.0
            show(step, f"{step} seeds")
    return out.getvalue()


def test_a_log_gets_a_line_a_minute():
    assert shown(terminal=False).splitlines() == ["sync: 50%, 2 seeds", "sync: 100%, 4 seeds"]


def test_a_terminal_shows_a_bar_and_the_last_text():
    assert "4 seeds" in shown(terminal=True)

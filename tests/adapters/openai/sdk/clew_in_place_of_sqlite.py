"""A pytest plugin: the SDK's own tests find ClewSession where they look for SQLiteSession."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agents
import agents.extensions.memory.encrypt_session  # before the class is replaced: it has a way of its own for the real one
import agents.memory
import agents.memory.sqlite_session
import pytest

from clew.adapters.openai_agents import ClewSession

used: set[str] = set()
running = ""


class SQLiteSession(ClewSession):
    """ClewSession with the parameters of the SDK's class."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        *_tables: str,
        session_settings: Any = None,
        **_more_tables: str,
    ) -> None:
        used.add(running)
        url = "memory://" if str(db_path) == ":memory:" else f"sqlite:///{db_path}"
        super().__init__(session_id, url, session_settings=session_settings)


for module in (agents, agents.memory, agents.memory.sqlite_session):
    module.SQLiteSession = SQLiteSession  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    global running
    running = item.nodeid


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"{len(used)} tests used ClewSession")
    Path("/tmp/oai/used.txt").write_text("\n".join(sorted(used)))

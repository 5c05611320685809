"""A pytest plugin that replaces SQLiteSession by ClewSession in the SDK's own tests."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import agents
import agents.extensions.memory.encrypt_session  # before the replacement: it treats the real class differently
import agents.memory
import agents.memory.sqlite_session
import pytest

from clew.adapters.openai_agents import ClewSession

PLAN = tomllib.loads((Path(__file__).parent / "tests.toml").read_text("utf-8"))


class SQLiteSession(ClewSession):
    """ClewSession with the parameters of the SDK's class."""

    tests: set[str] = set()
    test = ""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        *_tables: str,
        session_settings: Any = None,
        **_named: str,
    ) -> None:
        self.tests.add(self.test)
        url = "memory://" if str(db_path) == ":memory:" else f"sqlite:///{db_path}"
        super().__init__(session_id, url, session_settings=session_settings)


for module in (agents, agents.memory, agents.memory.sqlite_session):
    module.SQLiteSession = SQLiteSession  # type: ignore[attr-defined]


def names(item: pytest.Item) -> set[str]:
    """The names of a test in the plan: with and without its parameters."""
    return {item.name, item.name.partition("[")[0]}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    excluded = PLAN["excluded"].keys()
    left_out = [item for item in items if names(item) & excluded]
    unknown = excluded - {name for item in items for name in names(item)}
    if unknown and not config.option.keyword:
        raise pytest.UsageError(f"no such tests to leave out: {', '.join(sorted(unknown))}")
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not names(item) & excluded]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    SQLiteSession.test = item.nodeid
    in_two_steps = names(item) & set(PLAN["in_two_steps"])
    at_once: Any = None if in_two_steps else ClewSession._atomic_replace_items
    SQLiteSession._atomic_replace_items = at_once  # type: ignore[method-assign]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"{len(SQLiteSession.tests)} of them used ClewSession")

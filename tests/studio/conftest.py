"""A real Chromium, and a studio on a store of its own for each test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.server.support import running
from tests.studio.stores import rich_store

PATIENCE = 120_000
CHROMIUM = os.environ.get("CLEW_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", metavar="FOLDER", help="write the pictures of docs/studio.md to this folder")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="`make test-studio` installs Playwright")
    if not CHROMIUM:
        pytest.skip("no Chromium: apt install chromium")
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        opened = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rich store, made once."""
    folder = tmp_path_factory.mktemp("rich")
    rich_store(f"sqlite:///{folder}/agent.db", now=datetime.now(UTC))
    return folder


class Studio:
    """A server on a store, and pages that show it. Errors on a page fail the test."""

    def __init__(self, browser: Any, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.memory = clew.connect(url)
        self.address = ""
        self.problems: list[str] = []
        self.expected: list[str] = []
        """Parts of messages that a test provokes."""
        self._browser = browser
        self._contexts: list[Any] = []

    def open(self, path: str = "", *, width: int = 1360, height: int = 860, **options: Any) -> Any:
        context = self._browser.new_context(viewport={"width": width, "height": height}, **options)
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.problems.append(f"{error} {error.stack}"))
        page.on("console", lambda said: self.problems.extend([said.text] if said.type == "error" else []))
        page.goto(f"{self.address}/{path}")
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        self.memory.release()
        assert [each for each in self.problems if not any(part in each for part in self.expected)] == []


@contextmanager
def studio_on(browser: Any, folder: Path, url: str, *options: str) -> Iterator[Studio]:
    """Serve the store at `url`, and open pages of it."""
    made = Studio(browser, folder, url)
    with running(folder, url, "serve", "--port", "0", *options) as (address, _):
        made.address = address
        yield made
        made.close()


@pytest.fixture
def studio(browser: Any, template: Path, tmp_path: Path) -> Iterator[Studio]:
    """A studio on a copy of the rich store."""
    for file in template.iterdir():
        shutil.copy(file, tmp_path)
    with studio_on(browser, tmp_path, f"sqlite:///{tmp_path}/agent.db") as made:
        yield made


@pytest.fixture
def token(tmp_path: Path) -> Callable[..., str]:
    """A function that makes a token. The server must start after the first one."""

    def made(*arguments: str) -> str:
        words = [sys.executable, "-m", "clew", "token", "create", *arguments]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    return made


def shown(page: Any, text: str, inside: str = "body") -> None:
    """Wait until the text is visible."""
    page.locator(inside).get_by_text(text).filter(visible=True).first.wait_for()


def dialog(page: Any) -> Any:
    return page.locator("dialog[open]")


def until(page: Any, expression: str) -> None:
    """Wait until the expression is true. Playwright's own way needs `eval`, which the page forbids."""
    for _ in range(PATIENCE // 50):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"it did not become true: {expression}")

"""axe-core finds nothing on any page, light and dark, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.studio.conftest import dialog, shown, studio_on, until
from tests.studio.stores import HOTELS, search_in_subgraphs

axe = pytest.importorskip("axe_playwright_python", reason="`make test-studio` installs axe-core")
SOURCE = Path(axe.__path__[0]) / "axe.min.js"


def found_on(page: Any, name: str) -> list[str]:
    """Return what axe-core finds on the page as it is now."""
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(SOURCE.read_text(encoding="utf-8"))
    # Colours are measured at rest.
    until(page, "!document.getAnimations().length")
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{name}: {each['id']}: {[node['html'][:200] for node in each['nodes'][:4]]}" for each in found["violations"]
    ]


def after(first: Callable[[], None], then: Callable[[], None]) -> Callable[[], None]:
    """Return a step that does both."""

    def both() -> None:
        first()
        then()

    return both


def steps(page: Any, address: str) -> list[tuple[str, Callable[[], None]]]:
    """Ways to each view, with what must be there before it is checked."""

    def button(name: str) -> Any:
        return page.get_by_role("button", name=name).first

    def at(path: str, ready: str) -> None:
        page.goto(f"{address}/{path}")
        page.locator(ready).first.wait_for(state="attached")

    def opened(name: str, ready: str = "dialog[open]") -> None:
        button(name).click()
        page.locator(ready).first.wait_for()

    def closed() -> None:
        page.keyboard.press("Escape")
        dialog(page).wait_for(state="detached")

    def pane(name: str) -> None:
        tab = page.locator(".tabs button", has_text=name)
        if tab.is_visible():
            tab.click()

    def edited() -> None:
        closed()
        pane("State")
        button("Edit…").click()
        area = page.get_by_label("The state as JSON")
        area.fill(area.input_value().replace("Lisbon", "Porto"))

    def compared() -> None:
        at("#/thread/trip-lisbon", ".checkpoint")
        pane("History")
        page.locator(".checkpoint").nth(1).click()
        pane("State")
        opened("Compare with parent", ".change")

    def found() -> None:
        button("Show the state").click()
        page.get_by_label("Find in the state").fill("a")
        page.locator(".tree mark").first.wait_for()

    def inside() -> None:
        at("#/thread/trip-lisbon", "#namespace")
        page.get_by_label("Namespace", exact=True).select_option(HOTELS["checkpoint_ns"])
        pane("History")
        page.locator(".timeline li.chosen", has_text="done").wait_for()

    def previewed() -> None:
        at("#/store", ".largest li")
        button("Verify every record").click()
        shown(page, "No damage")
        opened("Retention…")
        dialog(page).get_by_label("Keep only the newest").fill("2")
        dialog(page).get_by_role("button", name="Preview").click()
        dialog(page).get_by_role("button", name="Remove this…").click()

    return [
        ("threads", lambda: at("#/", ".rows li")),
        ("help", lambda: opened("Keys")),
        ("search", after(closed, lambda: at("#/?q=report", ".hits a"))),
        ("nothing found", lambda: at("#/?q=nothingofthesort", ".empty h2")),
        ("a thread", lambda: at("#/thread/trip-lisbon", ".checkpoint")),
        ("a tool call", lambda: page.locator(".call summary").first.click()),
        ("fork", lambda: opened("Fork…")),
        ("describe", after(closed, lambda: opened("Describe…"))),
        ("delete", after(closed, lambda: opened("Delete…"))),
        ("edit", edited),
        ("branch", lambda: opened("Save as a branch…")),
        ("differences", after(closed, compared)),
        ("history", lambda: pane("History")),
        ("find", after(lambda: pane("State"), found)),
        ("a namespace", inside),
        (
            "go back in it",
            after(lambda: page.locator(".checkpoint").nth(2).click(), lambda: opened("Go back to here…")),
        ),
        ("a missing namespace", after(closed, lambda: at("#/thread/trip-lisbon?ns=nothing", "#namespace"))),
        ("retention", previewed),
        ("store", after(closed, lambda: at("#/store", ".largest li"))),
        ("no thread", lambda: at("#/thread/nobody", ".empty h1")),
    ]


@pytest.mark.parametrize("width", [1360, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(studio, scheme, width):
    studio.expected.append("status of 404")
    search_in_subgraphs(studio.memory)
    page = studio.open(color_scheme=scheme, width=width, reduced_motion="reduce")
    problems = []
    for name, step in steps(page, studio.address):
        step()
        problems += found_on(page, name)
    assert problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_when_signing_in_and_in_an_empty_store(browser, tmp_path, token, scheme):
    made = token("me")
    with studio_on(browser, tmp_path, f"sqlite:///{tmp_path}/new.db") as studio:
        studio.expected.append("status of 401")
        page = studio.open(color_scheme=scheme)
        page.get_by_label("Token").wait_for()
        assert found_on(page, "sign in") == []
        page.get_by_label("Token").fill(made)
        page.get_by_role("button", name="Open the studio").click()
        shown(page, "This store has no conversations yet")
        assert found_on(page, "empty") == []
        page.goto(f"{studio.address}/#/store")
        shown(page, "Nothing was saved yet.")
        assert found_on(page, "an empty store") == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 390)])
def test_axe_finds_nothing_in_the_reference(studio, scheme, width):
    page = studio.open("docs", color_scheme=scheme, width=width)
    operation = page.locator("#list_threads")
    operation.get_by_text("Fields of ThreadPage").click()
    assert found_on(page, "reference") == []
    # The type of an answer leads to its fields, and theirs to others.
    operation.get_by_role("link", name="ThreadInfo").click()
    page.locator("article:target").get_by_role("link", name="CheckpointInfo").click()
    page.locator("article:target code", has_text="parent_id").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width

"""The studio in a real Chromium, as a person uses it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli.demo.conversation import demo_conversation
from tests.server.test_serve import serving

CHROMIUM = os.environ.get("CLEW_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="`make test-studio` installs Playwright")
if not CHROMIUM:
    pytest.skip("no Chromium: apt install chromium", allow_module_level=True)
PATIENCE = 120_000
TRIP = {"thread_id": "trip", "user_id": "ana"}
HOSTILE = "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'>[x](javascript:window.hacked=1)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        opened = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield opened
        opened.close()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[clew.BaseCheckpointer]:
    with clew.connect(f"sqlite:///{tmp_path}/agent.db") as opened:
        source = demo_conversation()
        for checkpoint in reversed(source.get_history({"thread_id": "demo", "user_id": "ana"}, None)):
            info = checkpoint.metadata
            opened.put_checkpoint(TRIP, checkpoint.state, node_name=info.node_name, step=info.step)
        said = source.list_messages({"thread_id": "demo", "user_id": "ana"})
        opened.put_messages(TRIP, said)
        opened.put_thread(TRIP, {"thread_name": "Three days in Lyon", "tags": ["rail"]})
        for number in range(150):
            config = {"thread_id": f"support-{number:03}", "user_id": "bob"}
            opened.put_checkpoint(config, {"n": number}, messages=[{"role": "user", "content": f"Ticket {number}"}])
        yield opened


@pytest.fixture
def open_page(browser: Any, memory: clew.BaseCheckpointer, tmp_path: Path) -> Iterator[Any]:
    """A function that opens a page of the studio. Errors on a page fail the test."""
    problems: list[str] = []
    contexts = []

    with serving(tmp_path) as (url, _):

        def opened(path: str = "", **options: Any) -> Any:
            context = browser.new_context(viewport={"width": 1360, "height": 820}, **options)
            contexts.append(context)
            page = context.new_page()
            page.set_default_timeout(PATIENCE)
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda message: problems.extend([message.text] if message.type == "error" else []))
            page.goto(f"{url}/{path}")
            return page

        yield opened
        for context in contexts:
            context.close()
    assert problems == []


def shown(page: Any, text: str) -> None:
    page.get_by_text(text).first.wait_for()


def test_threads_are_listed_and_more_come_while_scrolling(open_page):
    page = open_page()
    page.locator(".list li").nth(99).wait_for(state="attached")
    page.mouse.wheel(0, 100_000)
    page.locator(".list li").nth(150).wait_for(state="attached")
    assert page.locator(".list li").count() == 151
    shown(page, "Three days in Lyon")


def test_a_search_finds_names_and_messages_and_stays_in_the_address(open_page):
    page = open_page()
    page.get_by_label("Search").fill("ticket 14")
    shown(page, "Ticket 149")
    assert "q=ticket" in page.url
    again = open_page(page.url.partition("/#")[2] and "#" + page.url.partition("#")[2])
    shown(again, "Ticket 149")
    again.locator(".hits a").first.click()
    shown(again, "Conversation")


def test_a_thread_shows_its_conversation_history_and_state(open_page):
    page = open_page("#/thread/trip")
    shown(page, "There is a train:")
    page.locator(".call summary").first.click()
    shown(page, "49 EUR, TGV 6607, 2 h")
    assert page.locator(".timeline li").count() == 5
    page.locator(".state .tree").get_by_text("city").wait_for()


def test_a_person_goes_back_in_time_and_compares(open_page):
    page = open_page("#/thread/trip")
    page.locator(".checkpoint").last.click()
    page.wait_for_url("**at=*")
    page.locator(".timeline li.chosen").get_by_text("ask").wait_for()
    page.locator(".checkpoint").first.click()
    page.get_by_role("button", name="Compare with its parent").click()
    page.locator(".changes li").first.wait_for()
    shared = open_page("#" + page.url.partition("#")[2])
    shared.locator(".changes li").first.wait_for()
    shared.get_by_role("button", name="Show the state").click()
    slider = shared.get_by_label("Go through the history")
    slider.focus()
    slider.press("ArrowLeft")
    shared.locator(".timeline li:nth-child(2).chosen").wait_for()


def test_new_checkpoints_and_messages_appear_without_a_reload_in_two_browsers(open_page, memory):
    pages = [open_page("#/thread/trip"), open_page("#/thread/trip")]
    for page in pages:
        page.locator(".timeline li").nth(4).wait_for()
    memory.put_checkpoint(TRIP, {"booked": True}, messages=[{"role": "user", "content": "Book it!"}], node_name="book")
    for page in pages:
        shown(page, "Book it!")
        page.locator(".timeline").get_by_text("book").first.wait_for()


def test_a_hostile_thread_runs_nothing(open_page, memory):
    config = {"thread_id": f"evil {HOSTILE}", "user_id": HOSTILE}
    memory.put_checkpoint(
        config, {HOSTILE: [HOSTILE]}, messages=[{"role": HOSTILE, "content": HOSTILE}], node_name=HOSTILE
    )
    memory.put_thread(config, {"thread_name": HOSTILE, "tags": [HOSTILE], "metadata": {HOSTILE: HOSTILE}})
    page = open_page()
    page.locator(".list a").first.click()
    page.locator(".conversation .message").first.wait_for()
    page.locator(".state .tree .leaf").first.wait_for()
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script").count() == 0


def test_a_person_forks_renames_and_deletes(open_page, memory):
    page = open_page("#/thread/trip")
    page.get_by_role("button", name="Fork from here").click()
    shown(page, "forked from")
    page.once("dialog", lambda dialog: dialog.accept("By bus"))
    page.get_by_role("button", name="Rename").click()
    page.get_by_role("heading", name="By bus").wait_for()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Keep it").click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete it").click()
    shown(page, "Threads")
    assert len(memory.list_threads({"user_id": clew.ANY_USER}, limit=None)) == 151


def test_a_person_goes_back_and_the_conversation_follows(open_page, memory):
    before = memory.list_checkpoints(TRIP)[0]
    memory.put_checkpoint(TRIP, {"wrong": True}, messages=[{"role": "assistant", "content": "To Mars!"}])
    page = open_page(f"#/thread/trip?at={before.checkpoint_id}")
    page.get_by_role("button", name="Go back to here").click()
    page.locator(".timeline li").nth(6).wait_for()
    page.locator(".conversation").get_by_text("To Mars!").wait_for(state="detached")
    assert memory.get_state(TRIP) == memory.get_state({**TRIP, "checkpoint_id": before.checkpoint_id})


def test_the_store_shows_totals_days_and_verification(open_page):
    page = open_page("#/store")
    shown(page, "151")
    page.locator(".days rect").first.wait_for()
    page.get_by_role("button", name="Verify every record").click()
    shown(page, "No damage in 151 threads")


def test_pages_fit_a_phone_and_the_dark(open_page):
    for path in ("", "#/thread/trip", "#/store"):
        page = open_page(path, color_scheme="dark")
        page.set_viewport_size({"width": 390, "height": 800})
        page.locator("main a, main button").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


def test_a_person_signs_in_with_a_token(browser, memory, tmp_path):
    command = [sys.executable, "-m", "clew", "token", "create", "me"]
    token = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()
    with serving(tmp_path) as (url, _):
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(url)
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Open the studio").click()
        shown(page, "support-149")
        # In the fragment, it is taken out of the address.
        other = context.new_page()
        other.goto(f"{url}/#token={token}")
        other.locator(".list li").first.wait_for()
        assert token not in other.url
        context.close()

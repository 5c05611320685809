"""Large stores: 100,000 threads, and a thread of 5,000 checkpoints.

Times are processor times of the server and of the page, because other work on the machine must fail nothing.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.server.support import running
from tests.studio.conftest import Studio, shown

THREADS = 100_000
CHECKPOINTS = 5_000
COPY = {
    "threads": {
        "thread_no": "n",
        "thread_id": "printf('ticket-%06d', n)",
        "log_no": "n",
        "updated_at": "updated_at - n",
    },
    "logs": {"log_no": "n", "thread_no": "n"},
    "checkpoints": {"checkpoint_no": "NULL", "thread_no": "n"},
    "messages": {"message_no": "message_no + ((n - 1) << 32)", "thread_no": "n"},
}
"""What differs between a thread and its copies, by table."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with many threads, copied from one in SQL, and one long thread."""
    folder = tmp_path_factory.mktemp("large")
    with clew.connect(f"sqlite:///{folder}/agent.db") as memory:
        config = {"thread_id": "ticket", "user_id": "bob"}
        memory.put_checkpoint(config, {"n": 1}, messages=[{"role": "user", "content": "My ticket"}])
        memory.put_thread(config, {"thread_name": "A ticket"})
    with sqlite3.connect(folder / "agent.db") as database:
        for table, changes in COPY.items():
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            chosen = ", ".join(changes.get(name, name) for name in columns)
            numbers = f"WITH RECURSIVE count(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM count WHERE n < {THREADS})"
            database.execute(f"{numbers} INSERT INTO {table} SELECT {chosen} FROM {table}, count")
    database.close()
    with clew.connect(f"sqlite:///{folder}/agent.db") as memory:
        state: dict[str, Any] = {"log": []}
        for step in range(CHECKPOINTS):
            state["log"].append(f"step {step}")
            said = [{"role": ("user", "assistant")[step % 2], "content": f"Message {step}"}]
            memory.put_checkpoint({"thread_id": "long", "user_id": "bob"}, state, messages=said, step=step)
    return folder


@pytest.fixture(scope="module")
def served(browser, large):
    made = Studio(browser, large, f"sqlite:///{large}/agent.db")
    with running(large, made.url, "serve", "--port", "0") as (address, process):
        made.address = address
        yield made, process.pid
        made.close()


class Cost:
    """Processor time of the server and of the page's main thread, in seconds."""

    def __init__(self, page: Any, pid: int) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._pid = pid
        self._before = self._now()

    def _now(self) -> float:
        metrics = {each["name"]: each["value"] for each in self._session.send("Performance.getMetrics")["metrics"]}
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return float(metrics["TaskDuration"]) + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def spent(self) -> float:
        return self._now() - self._before


def test_a_hundred_thousand_threads_are_shown_and_scrolled(served):
    studio, pid = served
    page = studio.open("#/store-is-not-asked")
    page.locator(".rows li").first.wait_for()
    cost, started = Cost(page, pid), time.monotonic()
    page.reload()
    page.locator(".rows li").nth(5).wait_for()
    shown(page, "200 threads and more")
    print(f"the list took {cost.spent():.2f} s of processor time, {time.monotonic() - started:.2f} s in all")
    assert cost.spent() < 1
    box = page.locator(".rows.threads")
    cost = Cost(page, pid)
    for _ in range(25):
        count = int(box.get_attribute("data-count"))
        box.evaluate("box => box.scrollTop = box.scrollHeight")
        page.locator(f".rows.threads[data-count='{count + 200}']").wait_for()
        # Only what is in sight is drawn.
        assert page.locator(".rows li").count() < 60
    print(f"25 pages took {cost.spent():.2f} s of processor time")
    assert cost.spent() < 5
    # As a wheel scrolls. It takes 8 ms; processor time grows, too, when other work uses the caches.
    cost = Cost(page, pid)
    box.evaluate(
        """async box => {
            for (let step = 0; step < 120; step++) {
                box.scrollTop -= 150;
                box.dispatchEvent(new Event('scroll'));
                await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
            }
        }"""
    )
    print(f"a frame took {1000 * cost.spent() / 120:.1f} ms of processor time")
    assert cost.spent() / 120 < 0.033
    page.get_by_label("Search").fill("ticket-077777")
    page.locator(".rows.threads[data-count='1']").wait_for()
    page.locator(".rows li a").first.click()
    shown(page, "My ticket", ".conversation")


def test_the_overview_of_a_hundred_thousand_threads_is_small(served):
    studio, _ = served
    page = studio.open()
    page.locator(".rows li").first.wait_for()
    with page.expect_response("**/api/overview*") as answered:
        page.goto(f"{studio.address}/#/store")
    assert len(answered.value.body()) < 20_000
    page.locator(".figures dd", has_text="100,001").wait_for()
    assert "long" in page.locator(".largest li").first.inner_text()


def test_a_thread_of_five_thousand_checkpoints_is_shown_at_once(served):
    studio, pid = served
    page = studio.open()
    page.locator(".rows li").first.wait_for()
    cost, started = Cost(page, pid), time.monotonic()
    page.goto(f"{studio.address}/#/thread/long")
    page.locator(".checkpoint").nth(5).wait_for()
    shown(page, "Message 4999", ".conversation")
    page.locator("[aria-labelledby=state] .tree").get_by_text("5,000 items").wait_for()
    print(f"the thread took {cost.spent():.2f} s of processor time, {time.monotonic() - started:.2f} s in all")
    assert cost.spent() < 1
    page.locator(f".rows.timeline[data-count='{CHECKPOINTS}']").wait_for()
    assert page.locator(".timeline li").count() < 60
    slider = page.get_by_label("Go through the history")
    slider.focus()
    slider.press("Home")
    page.locator(".timeline li.chosen", has_text="step 0").wait_for()
    page.locator("[aria-labelledby=state] .tree").get_by_text("1 item").wait_for()
    shown(page, "Message 0", ".conversation")
    # Earlier messages come on demand, and what is read stays in its place.
    slider.press("End")
    shown(page, "Message 4999", ".conversation")
    page.locator(".scroll").first.evaluate("box => box.scrollTop = 0")
    page.get_by_role("button", name="Earlier messages").click()
    page.locator(".conversation").get_by_text("Message 4700", exact=True).wait_for(state="attached")
    assert page.locator(".scroll").first.evaluate("box => box.scrollTop") > 1000

"""Namespaces in the studio: separate lines of checkpoints in one thread, as LangGraph's subgraphs make them."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any
from urllib.parse import quote

import pytest

from tests.studio.conftest import dialog, shown, studio_on, until
from tests.studio.stores import FARES, HOTELS, LISBON, rich_store, search_in_subgraphs

THREAD = "#/thread/trip-lisbon"


@pytest.fixture
def searched(studio):
    """A studio whose thread about Lisbon has two more namespaces."""
    search_in_subgraphs(studio.memory)
    return studio


def inside(config: dict[str, Any], **query: str) -> str:
    """Return the link to the config's namespace."""
    rest = "".join(f"&{name}={value}" for name, value in query.items())
    return f"#/thread/{config['thread_id']}?ns={quote(config['checkpoint_ns'], safe='')}{rest}"


def selector(page: Any) -> Any:
    return page.get_by_label("Namespace", exact=True)


def choose(page: Any, config: dict[str, Any]) -> None:
    selector(page).select_option(config.get("checkpoint_ns", ""))


def labels(page: Any) -> list[str]:
    """Return what the selector offers: the names, and how many checkpoints they have."""
    return [" · ".join(each.split(" · ")[:2]) for each in selector(page).locator("option").all_inner_texts()]


def state(page: Any) -> Any:
    return page.locator("[aria-labelledby=state] .tree")


def nodes(page: Any) -> list[str]:
    return list(page.locator(".timeline .what b").all_inner_texts())


def test_a_thread_with_one_namespace_has_no_selector(studio):
    page = studio.open()
    page.locator(".rows li").first.wait_for()
    with page.expect_response("**/namespaces"):
        page.goto(f"{studio.address}/{THREAD}")
    page.locator(".timeline li").nth(14).wait_for()
    assert selector(page).count() == 0
    assert page.locator(".namespace").count() == 0


def test_a_person_chooses_a_namespace_and_the_link_can_be_shared(searched):
    page = searched.open(THREAD)
    selector(page).wait_for()
    assert labels(page) == [
        "Main · 15 checkpoints",
        "search_hotels:1f0e8a3c… · 4 checkpoints",
        "search_trains:77aa8a3c…|fares:52b1f7c0… · 3 checkpoints",
    ]
    # Each namespace counts its own checkpoints.
    shown(page, "15 / 15", ".slider")
    choose(page, HOTELS)
    shown(page, "4 / 4", ".slider")
    assert nodes(page) == ["done", "rank", "fetch", "ask"]
    page.locator(".timeline li.chosen", has_text="done").get_by_text("head").wait_for()
    state(page).get_by_text("done", exact=False).first.wait_for()
    # The conversation is that of the thread.
    shown(page, "Booked:", ".conversation")
    shown(page, "of the whole thread")
    again = searched.open("#" + page.url.partition("#")[2])
    shown(again, "4 / 4", ".slider")
    assert selector(again).input_value() == HOTELS["checkpoint_ns"]
    choose(again, FARES)
    shown(again, "3 / 3", ".slider")
    choose(again, LISBON)
    shown(again, "15 / 15", ".slider")
    assert again.url.endswith(THREAD)


def test_slider_state_differences_and_conversation_follow_in_a_namespace(searched):
    searched.memory.put_checkpoint(LISBON, {"n": 1}, messages=[{"role": "user", "content": "And a museum?"}])
    page = searched.open(inside(HOTELS))
    shown(page, "And a museum?", ".conversation")
    page.get_by_label("Older checkpoint").click()
    page.locator(".timeline li.chosen", has_text="rank").wait_for()
    # What was said later is not shown, although the checkpoint is not one of the main namespace.
    shown(page, "as of")
    page.locator(".conversation").get_by_text("And a museum?").wait_for(state="detached")
    shown(page, "Booked:", ".conversation")
    page.get_by_label("Go through the history").focus()
    page.keyboard.press("ArrowLeft")
    page.locator(".timeline li.chosen", has_text="fetch").wait_for()
    state(page).get_by_text('"fetch 0"').wait_for()
    page.keyboard.press("c")
    page.locator(".change.added", has_text="found").get_by_text('"fetch 0"').wait_for()
    shared = searched.open("#" + page.url.partition("#")[2])
    shared.locator(".timeline li.compared", has_text="ask").wait_for()
    shared.locator(".change", has_text="query").locator("ins", has_text="fetch").wait_for()
    shared.get_by_role("button", name="Compare with head").click()
    shared.locator(".change", has_text="query").locator("del", has_text="done").wait_for()
    shared.locator(".checkpoint").nth(3).click(modifiers=["Shift"])
    shared.locator(".timeline li.compared", has_text="ask").wait_for()
    shared.get_by_role("button", name="Show the state").click()
    state(shared).get_by_text('"fetch 0"').wait_for()
    shared.get_by_role("button", name="Back to the head").click()
    shared.locator(".timeline li.chosen", has_text="done").wait_for()
    shown(shared, "And a museum?", ".conversation")


def test_one_id_in_two_namespaces_shows_the_state_of_the_chosen_one(searched):
    for config, text in ((LISBON, "in the main one"), (HOTELS, "in the other one")):
        searched.memory.put_checkpoint(config, {"where": text}, new_id="same")
    page = searched.open(f"{THREAD}?at=same")
    state(page).get_by_text("in the main one").wait_for()
    page.evaluate(f"location.hash = '{inside(HOTELS, at='same')}'")
    state(page).get_by_text("in the other one").wait_for()
    assert nodes(page)[1] == "done"


def test_a_person_goes_back_in_a_namespace_and_the_rest_stays(searched):
    memory = searched.memory
    page = searched.open(inside(HOTELS))
    page.locator(".checkpoint").nth(2).click()
    page.get_by_role("button", name="Go back to here…").click()
    shown(page, "other namespaces stay as they are", "dialog")
    dialog(page).get_by_role("button", name="Go back").click()
    page.locator(".timeline li").nth(4).wait_for()
    page.locator(".timeline li.chosen", has_text="fetch").get_by_text("head").wait_for()
    assert selector(page).input_value() == HOTELS["checkpoint_ns"]
    assert memory.get_state(HOTELS) == {"query": "fetch", "found": ["fetch 0"]}
    assert len(memory.list_checkpoints(LISBON, limit=None)) == 15
    assert memory.list_messages(LISBON)[-1].content.startswith("Booked:")


def test_an_edited_state_becomes_a_branch_of_its_namespace(searched):
    memory = searched.memory
    base = memory.list_checkpoints(HOTELS)[1]
    page = searched.open(inside(HOTELS, at=base.checkpoint_id))
    page.get_by_role("button", name="Edit…").click()
    page.get_by_label("The state as JSON").fill('{"query": "by hand"}')
    page.get_by_role("button", name="Save as a branch…").click()
    shown(page, "The namespace gets a new head", "dialog")
    dialog(page).get_by_role("button", name="Save the branch").click()
    page.locator(".timeline li.chosen", has_text="edit").wait_for()
    shown(page, "5 / 5", ".slider")
    saved = memory.list_checkpoints(HOTELS)[0]
    assert (saved.node_name, saved.parent_id) == ("edit", base.checkpoint_id)
    assert memory.get_state(HOTELS) == {"query": "by hand"}
    assert len(memory.list_checkpoints(LISBON, limit=None)) == 15
    assert len(memory.list_checkpoints(FARES, limit=None)) == 3


def test_a_fork_of_a_namespace_opens_there_and_leads_back(searched):
    page = searched.open(inside(HOTELS))
    page.locator(".checkpoint").nth(1).click()
    page.keyboard.press("f")
    shown(page, "It has this namespace only.", "dialog")
    dialog(page).get_by_label("Id of the new thread").fill("hotels-again")
    dialog(page).get_by_role("button", name="Fork", exact=True).click()
    page.get_by_role("button", name="hotels-again").wait_for()
    page.locator(".timeline li.chosen", has_text="rank").wait_for()
    # There is nothing to choose, and nothing to see without it: so the name is said, and a plain link finds it.
    shown(page, "search_hotels:1f0e8a3c…", ".namespace")
    assert selector(page).count() == 0
    plain = searched.open("#/thread/hotels-again")
    plain.locator(".timeline li.chosen", has_text="rank").wait_for()
    assert "?ns=search_hotels" in plain.url
    plain.get_by_role("button", name="Compare with source's head").click()
    plain.locator(".change", has_text="query").locator("del", has_text="done").wait_for()
    plain.get_by_role("link", name="trip-lisbon").click()
    plain.locator(".timeline li.chosen", has_text="rank").wait_for()
    assert selector(plain).input_value() == HOTELS["checkpoint_ns"]
    assert len(nodes(plain)) == 4


def test_live_changes_appear_in_their_namespace(studio):
    memory = studio.memory
    page = studio.open(THREAD)
    page.locator(".timeline li").nth(14).wait_for()
    shown(page, "Live", ".top")
    assert selector(page).count() == 0
    # The first checkpoint of another namespace: now there is something to choose.
    memory.put_checkpoint(HOTELS, {"n": 1}, node_name="first")
    selector(page).wait_for()
    until(page, "document.querySelector('.facts').innerText.includes('16 checkpoints')")
    assert labels(page) == ["Main · 15 checkpoints", "search_hotels:1f0e8a3c… · 1 checkpoint"]
    assert len(nodes(page)) == 15
    choose(page, HOTELS)
    page.locator(".timeline li.chosen", has_text="first").wait_for()
    memory.put_checkpoint(HOTELS, {"n": 2}, node_name="second")
    page.locator(".timeline li.chosen", has_text="second").get_by_text("head").wait_for()
    state(page).get_by_text("2", exact=True).wait_for()
    # Other namespaces go on, and the conversation with them.
    memory.put_checkpoint(LISBON, {"n": 3}, messages=[{"role": "user", "content": "And a museum?"}], node_name="main")
    shown(page, "And a museum?", ".conversation")
    memory.put_checkpoint(FARES, {"n": 4}, node_name="fares")
    until(page, "document.querySelectorAll('#namespace option').length === 3")
    assert nodes(page) == ["second", "first"]
    assert labels(page) == [
        "Main · 16 checkpoints",
        "search_trains:77aa8a3c…|fares:52b1f7c0… · 1 checkpoint",
        "search_hotels:1f0e8a3c… · 2 checkpoints",
    ]
    assert selector(page).input_value() == HOTELS["checkpoint_ns"]
    # One that is replaced is not counted again, and one that is removed is counted no more.
    newest = memory.list_checkpoints(HOTELS)[0]
    memory.put_checkpoint(HOTELS, {"n": 5}, node_name="replaced", new_id=newest.checkpoint_id)
    page.locator(".timeline li.chosen", has_text="replaced").wait_for()
    assert "search_hotels:1f0e8a3c… · 2 checkpoints" in labels(page)
    memory.delete_checkpoint(memory.list_checkpoints(FARES)[0].config)
    until(page, "document.querySelectorAll('#namespace option').length === 2")
    memory.delete_checkpoint(memory.list_checkpoints(HOTELS)[1].config)
    page.locator(".timeline li").nth(1).wait_for(state="detached")
    shown(page, "Booked:", ".conversation")


def test_without_a_stream_a_namespace_is_polled(studio):
    studio.expected.append("status of 503")
    search_in_subgraphs(studio.memory)
    page = studio.open()
    page.route("**/events", lambda route: route.fulfill(status=503, body="{}"))
    page.goto(f"{studio.address}/{inside(HOTELS)}")
    page.reload()
    page.locator(".live.polling").wait_for()
    studio.memory.put_checkpoint(HOTELS, {"n": 1}, node_name="slowly")
    page.locator(".timeline li.chosen", has_text="slowly").wait_for()
    until(page, "document.querySelector('#namespace').innerText.includes('5 checkpoints')")


def test_a_late_answer_about_the_namespace_before_is_not_shown(searched):
    page = searched.open(THREAD)
    page.locator(".timeline li").nth(14).wait_for()
    shown(page, "Live", ".top")
    held: list[Any] = []
    page.route("**/checkpoints?*fares*", lambda route: held.append(route))
    choose(page, FARES)
    shown(page, "Loading…", "[aria-labelledby=history]")
    assert nodes(page) == []
    choose(page, HOTELS)
    page.locator(".timeline li.chosen", has_text="done").wait_for()
    assert held
    for route in held:
        with page.expect_response("**/checkpoints?*fares*") as answered:
            route.continue_()
        answered.value.finished()
    page.evaluate("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    state(page).get_by_text('"done 2"').wait_for()
    assert nodes(page) == ["done", "rank", "fetch", "ask"]


def test_a_namespace_is_chosen_with_the_keyboard(searched):
    page = searched.open(THREAD, permissions=["clipboard-read", "clipboard-write"])
    selector(page).wait_for()
    page.keyboard.press("n")
    until(page, "document.activeElement.id === 'namespace'")
    page.keyboard.press("ArrowDown")
    page.locator(".timeline li.chosen", has_text="done").wait_for()
    # The focus stays, so that the next one is a key away.
    until(page, "document.activeElement.id === 'namespace'")
    page.keyboard.press("ArrowDown")
    page.locator(".timeline li.chosen", has_text="sum").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("[")
    page.locator(".timeline li.chosen", has_text="read").wait_for()
    page.get_by_role("button", name="Copy the namespace").click()
    shown(page, "Copied the namespace")
    assert page.evaluate("navigator.clipboard.readText()") == FARES["checkpoint_ns"]


def test_a_link_to_a_namespace_that_is_gone_says_so_and_leads_to_the_others(searched):
    page = searched.open(f"{THREAD}?ns=gone")
    selector(page).wait_for()
    assert selector(page).input_value() == "gone"
    assert labels(page)[-1] == "gone · no checkpoints"
    shown(page, "No state was saved in this namespace.")
    shown(page, "No checkpoints yet.")
    for name in ("Fork…", "Go back to here…", "Edit…"):
        assert page.get_by_role("button", name=name).count() == 0
    choose(page, LISBON)
    shown(page, "15 / 15", ".slider")
    assert len(labels(page)) == 3
    # Also in a thread that has no other one.
    page.goto(f"{searched.address}/#/thread/trip-lisbon-by-bus?ns=gone")
    shown(page, "No state was saved in this namespace.")
    choose(page, LISBON)
    page.locator(".timeline li.chosen").wait_for()


def test_a_very_long_thread_says_that_older_namespaces_are_not_listed(searched):
    page = searched.open()
    page.locator(".rows li").first.wait_for()

    def shortened(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "complete": False})

    page.route("**/namespaces", shortened)
    page.goto(f"{searched.address}/{THREAD}")
    selector(page).wait_for()
    options = selector(page).locator("option")
    assert options.last.inner_text() == "Older ones are not listed"
    assert options.last.is_disabled()
    # Counts would be too low.
    assert not [text for text in options.all_inner_texts() if "checkpoint" in text]
    shown(page, "15 / 15", ".slider")
    with page.expect_download():
        page.get_by_role("button", name="Export").click()
    shown(page, "Exported without namespaces that rested for long", ".note")


def test_an_export_has_the_states_of_all_namespaces(searched):
    page = searched.open(inside(HOTELS))
    shown(page, "4 / 4", ".slider")
    with page.expect_download() as started:
        page.get_by_role("button", name="Export").click()
    content = json.loads(started.value.path().read_text())
    exported = [(each["metadata"]["namespace"], each["metadata"]["node_name"]) for each in content["checkpoints"]]
    assert len(exported) == content["thread"]["checkpoint_count"] == 22
    assert exported[0] == ("", "answer")
    assert [node for name, node in exported if name == HOTELS["checkpoint_ns"]] == ["done", "rank", "fetch", "ask"]
    assert [node for name, node in exported if name == FARES["checkpoint_ns"]] == ["sum", "read", "ask"]


def test_damage_in_a_namespace_is_shown_where_it_is(searched):
    victim = searched.memory.list_checkpoints(HOTELS)[1]
    searched.memory.release()
    with sqlite3.connect(searched.folder / "agent.db") as database:
        changed = database.execute(
            "UPDATE checkpoints SET body = x'ff00ff' WHERE checkpoint_id = ?", (victim.checkpoint_id,)
        )
        assert changed.rowcount == 1
    database.close()
    page = searched.open("#/store")
    page.get_by_role("button", name="Verify every record").click()
    shown(page, "1 damaged record in 1 thread")
    searched.expected.append("status of 500")
    page.locator(".damage a").click()
    page.locator(".problem", has_text="CorruptRecordError").wait_for()
    page.locator(".timeline li.chosen", has_text="rank").wait_for()
    assert selector(page).input_value() == HOTELS["checkpoint_ns"]


def test_hostile_names_of_namespaces_run_nothing(studio):
    hostile = "<img src=x onerror='window.hacked=1'>?&#|\"'"
    for number in range(2):
        studio.memory.put_checkpoint({**LISBON, "checkpoint_ns": hostile}, {"n": number}, node_name=f"n{number}")
    page = studio.open(THREAD)
    selector(page).select_option(hostile)
    page.locator(".timeline li.chosen", has_text="n1").wait_for()
    page.locator(".checkpoint").nth(1).click()
    page.locator(".timeline li.chosen", has_text="n0").wait_for()
    assert selector(page).input_value() == hostile
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img[src=x]").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_namespace_is_chosen_on_a_phone(searched, scheme):
    page = searched.open(inside(FARES), color_scheme=scheme, width=390, height=800)
    selector(page).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = selector(page).bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert box["height"] >= 24
    choose(page, HOTELS)
    page.get_by_role("button", name="History", exact=True).click()
    page.locator(".checkpoint").nth(2).click()
    page.get_by_role("button", name="State", exact=True).click()
    state(page).get_by_text('"fetch 0"').wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_namespaces_on_postgresql(browser, tmp_path):
    from clew.testing.servers.shared import shared_postgres

    server = shared_postgres()
    url = f"{server}{'&' if '?' in server else '?'}schema=studio_{time.time_ns()}"
    rich_store(url, others=2)
    with studio_on(browser, tmp_path, url) as studio:
        search_in_subgraphs(studio.memory)
        page = studio.open(inside(HOTELS))
        shown(page, "4 / 4", ".slider")
        studio.memory.put_checkpoint(HOTELS, {"n": 1}, node_name="live")
        page.locator(".timeline li.chosen", has_text="live").wait_for()
        page.locator(".checkpoint").nth(2).click()
        page.get_by_role("button", name="Go back to here…").click()
        dialog(page).get_by_role("button", name="Go back").click()
        page.locator(".timeline li.chosen", has_text="rank").get_by_text("head").wait_for()
        assert studio.memory.get_state(HOTELS)["query"] == "rank"
        shown(page, "Booked:", ".conversation")

"""The studio in a real Chromium, as a person uses it: looking."""

from __future__ import annotations

import shutil
import sqlite3
import time

import pytest

import clew
from tests.server.support import running
from tests.studio.conftest import PATIENCE, dialog, shown, studio_on, until
from tests.studio.stores import LISBON

HOSTILE = "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'>[x](javascript:window.hacked=1)"


def test_threads_have_owners_tags_sizes_and_times(studio):
    page = studio.open()
    row = page.locator(".rows li").nth(1)
    row.wait_for()
    text = row.inner_text()
    for part in ("Four nights in Lisbon", "trip-lisbon", "rail", "booked", "ana", "14", "15", "kB", "ago"):
        assert part in text, part
    shown(page, "44 threads")


def test_filters_are_in_the_address_and_links_can_be_shared(studio):
    page = studio.open()
    page.locator(".rows li .badge", has_text="urgent").first.click()
    page.wait_for_url("**tag=urgent*")
    page.get_by_label("User", exact=True).fill("bob")
    page.wait_for_url("**user=bob*")
    shown(page, "11 threads")
    again = studio.open("#" + page.url.partition("#")[2])
    shown(again, "11 threads")
    assert again.get_by_label("Tag").input_value() == "urgent"
    again.get_by_role("button", name="Clear").click()
    shown(again, "44 threads")


def test_a_search_finds_names_and_messages_with_snippets(studio):
    page = studio.open()
    page.get_by_label("Search").fill("casa do")
    page.locator(".hits mark", has_text="Casa do").first.wait_for()
    assert "q=casa" in page.url
    page.get_by_label("Search").fill("number 41")
    shown(page, "No thread matches")
    page.locator(".hits a").first.click()
    page.locator(".message.wanted", has_text="umber 41").wait_for()
    page.go_back()
    page.get_by_label("Search").fill("LISBON")
    shown(page, "2 threads")


def test_a_hit_leads_to_its_message_however_far_back_it_is(studio):
    for number in range(450):
        studio.memory.put_messages("long", [{"role": "user", "content": f"This is number {number}."}])
    page = studio.open("#/?q=this is number 17.")
    page.locator(".hits a").click()
    found = page.locator(".message.wanted", has_text="This is number 17.")
    found.wait_for()
    until(page, "document.querySelector('.message.wanted').getBoundingClientRect().top > 100")
    until(page, "document.querySelector('.message.wanted').getBoundingClientRect().top < innerHeight")
    # It stays in its place while the conversation goes on.
    place = found.bounding_box()
    studio.memory.put_messages("long", [{"role": "assistant", "content": "And one more."}])
    page.locator(".message", has_text="And one more.").wait_for(state="attached")
    assert found.bounding_box() == place
    # What a tool returned stands under its call, which unfolds.
    page.goto(f"{studio.address}/#/?q=64.80 EUR")
    page.locator(".hits a").first.click()
    page.locator(".message.wanted details[open]", has_text="3 legs, 64.80 EUR").wait_for()


def test_a_thread_shows_its_conversation_with_tools_tables_and_images(studio):
    page = studio.open("#/thread/trip-lisbon")
    shown(page, "arrive at")
    said = page.locator(".conversation")
    said.locator("table td", has_text="Casa do Rio").wait_for()
    assert said.locator("ol li", has_text="Badajoz to").count() == 1
    said.locator("summary", has_text="search_trains").click()
    shown(page, "3 legs, 64.80 EUR", ".conversation details[open]")
    shown(page, "Madrid", ".conversation details[open]")
    image = said.locator("img")
    until(page, "document.querySelector('.conversation img').naturalWidth === 240")
    assert image.count() == 1
    # Roles are said once for messages in a row.
    assert said.locator("header b", has_text="assistant").count() == 2


def test_images_at_other_addresses_are_named_and_not_loaded(studio):
    link = {"type": "image_url", "image_url": {"url": "https://elsewhere.example/p.png"}}
    blue = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    studio.memory.put_messages("pictures", [{"role": "user", "content": [each]} for each in (link, blue)])
    page = studio.open()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{studio.address}/#/thread/pictures")
    shown(page, "https://elsewhere.example/p.png")
    page.locator(".conversation img").wait_for(state="attached")
    assert not [url for url in asked if "elsewhere" in url]


def test_the_history_is_a_graph_with_nodes_steps_sizes_and_writers(studio):
    studio.memory.put_checkpoint({**LISBON, "run_id": "run-77"}, {"n": 1}, node_name="review", step=10)
    page = studio.open("#/thread/trip-lisbon")
    rows = page.locator(".timeline li")
    rows.nth(15).wait_for()
    assert "review" in rows.nth(0).inner_text()
    assert "step 10" in rows.nth(0).inner_text()
    assert "run-77" in rows.nth(0).inner_text()
    assert "head" in rows.nth(0).inner_text()
    # The branch that was given up has a lane of its own.
    lanes = {circle.get_attribute("cx") for circle in page.locator(".timeline circle.dot").all()}
    assert len(lanes) == 2
    assert page.locator(".timeline circle.ring").count() == 1


def test_a_person_goes_back_in_time_with_clicks_the_slider_and_keys(studio):
    page = studio.open("#/thread/trip-lisbon")
    page.locator(".checkpoint").nth(9).click()
    page.wait_for_url("**at=*")
    shown(page, "as of")
    shown(page, "answer, step 5")
    page.locator(".conversation").get_by_text("Booked:").wait_for(state="detached")
    slider = page.get_by_label("Go through the history")
    slider.focus()
    slider.press("ArrowLeft")
    page.locator(".timeline li.chosen[data-at='10']").wait_for()
    page.keyboard.press("]")
    page.locator(".timeline li.chosen[data-at='9']").wait_for()
    page.keyboard.press("[")
    page.locator(".timeline li.chosen[data-at='10']").wait_for()
    page.get_by_role("button", name="Back to the head").click()
    page.locator(".timeline li.chosen[data-at='0']").wait_for()
    shown(page, "Booked:")


def test_differences_show_words_inside_long_texts(studio):
    page = studio.open("#/thread/trip-lisbon")
    page.locator(".checkpoint").nth(1).click()
    page.get_by_role("button", name="Compare with parent").click()
    brief = page.locator(".change", has_text="brief")
    brief.locator("ins", has_text="The trip is booked.").wait_for()
    brief.locator("del", has_text="euros").wait_for()
    brief.locator("ins", has_text="EUR").wait_for()
    assert "You plan trips" not in "".join(brief.locator("del, ins").all_inner_texts())
    page.locator(".change.added", has_text="reference").wait_for()
    page.get_by_role("button", name="Show the state").click()
    page.locator("[aria-labelledby=state] .tree").get_by_text("reference").wait_for()


def test_any_two_checkpoints_are_compared_and_the_link_can_be_shared(studio):
    page = studio.open("#/thread/trip-lisbon")
    page.locator(".checkpoint").nth(12).click(modifiers=["Shift"])
    page.wait_for_url("**with=*")
    page.locator(".change", has_text="hotels").first.wait_for()
    shared = studio.open("#" + page.url.partition("#")[2])
    shared.locator(".change", has_text="hotels").first.wait_for()
    shared.locator(".timeline li.compared[data-at='12']").wait_for()


def test_a_fork_is_compared_with_its_source(studio):
    page = studio.open("#/thread/trip-lisbon-by-bus")
    shown(page, "forked from")
    page.get_by_role("button", name="Compare with source's head").click()
    page.locator(".change.removed", has_text="reference").wait_for()
    assert "in=trip-lisbon" in page.url


def test_the_state_is_searched_folded_and_its_paths_are_copied(studio):
    page = studio.open("#/thread/trip-lisbon", permissions=["clipboard-read", "clipboard-write"])
    tree = page.locator("[aria-labelledby=state] .tree")
    tree.get_by_text("decimal").first.wait_for()
    for kind in ("date", "set", "bytes", "bool", "list"):
        assert tree.locator(".type", has_text=kind).count() > 0, kind
    assert tree.get_by_text("Badajoz").count() == 0
    page.get_by_label("Find in the state").fill("badajoz")
    tree.locator("mark", has_text="Badajoz").first.wait_for()
    shown(page, "1 of 2")
    page.keyboard.press("Enter")
    shown(page, "2 of 2")
    tree.locator(".leaf.current .key").click()
    shown(page, "Copied legs[1].from")
    assert page.evaluate("navigator.clipboard.readText()") == "legs[1].from"
    page.get_by_label("Find in the state").fill("")
    tree.get_by_role("button", name="legs[1]").click()
    tree.get_by_text("Entroncamento").wait_for()


def test_long_values_come_on_demand(studio):
    state = {"long": "word " * 1000, "many": list(range(5000))}
    studio.memory.put_state("large", state)
    page = studio.open("#/thread/large")
    tree = page.locator("[aria-labelledby=state] .tree")
    tree.get_by_text("more characters").click()
    tree.get_by_text("more characters").wait_for(state="detached")
    tree.get_by_text("Show 1000 of 4900 more").click()
    tree.get_by_role("button", name="1099", exact=True).wait_for()
    assert tree.locator("li").count() < 1200


def test_keys_move_open_and_explain(studio):
    page = studio.open()
    page.locator(".rows li").first.wait_for()
    page.keyboard.press("?")
    shown(page, "Older and newer checkpoint", "dialog")
    page.keyboard.press("Escape")
    dialog(page).wait_for(state="detached")
    page.keyboard.press("j")
    page.locator(".rows [data-at='0'] a:focus").wait_for()
    for at in range(1, 30):
        page.keyboard.press("j")
        page.locator(f".rows [data-at='{at}'] a:focus").wait_for()
    page.keyboard.press("k")
    page.locator(".rows [data-at='28'] a:focus").wait_for()
    page.keyboard.press("Enter")
    shown(page, "Conversation")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Search"
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.get_by_role("heading", name="The store").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator(".rows li").first.wait_for()


def test_a_hostile_thread_runs_nothing(studio):
    config = {"thread_id": f"evil {HOSTILE}", "user_id": HOSTILE}
    memory = studio.memory
    call = {"id": HOSTILE, "type": "function", "function": {"name": HOSTILE, "arguments": HOSTILE}}
    picture = {"type": HOSTILE, "image_url": {"url": f"data:image/png;base64,{HOSTILE}"}}
    said = [
        {"role": HOSTILE, "content": HOSTILE},
        {"role": "user", "content": [{"type": "text", "text": HOSTILE}, picture, {"type": HOSTILE, HOSTILE: HOSTILE}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": HOSTILE, "content": HOSTILE},
    ]
    memory.put_checkpoint(config, {HOSTILE: [HOSTILE], "text": "before"}, messages=said, node_name=HOSTILE)
    memory.put_checkpoint(
        {**config, "run_id": HOSTILE}, {HOSTILE: {HOSTILE: 1}, "text": f"before {HOSTILE}"}, node_name=HOSTILE
    )
    memory.put_thread(config, {"thread_name": HOSTILE, "tags": [HOSTILE], "metadata": {HOSTILE: HOSTILE}})
    page = studio.open()
    page.get_by_label("Search").fill("<script>")
    page.locator(".hits a").first.wait_for()
    page.locator(".rows li a").first.click()
    page.locator(".conversation .message").first.wait_for()
    page.locator(".conversation summary").first.click()
    page.locator("[aria-labelledby=state] .tree .leaf").first.wait_for()
    page.get_by_label("Find in the state").fill("script")
    page.get_by_role("button", name="Compare with parent").click()
    page.locator(".change").first.wait_for()
    page.get_by_role("button", name="Show the state").click()
    page.get_by_role("button", name="Edit…").click()
    area = page.get_by_label("The state as JSON")
    area.fill(area.input_value().replace("before", "after"))
    page.get_by_role("button", name="Save as a branch…").click()
    dialog(page).locator(".change").first.wait_for()
    dialog(page).get_by_role("button", name="Save the branch").click()
    page.locator(".timeline").get_by_text("edit").first.wait_for()
    for name in ("Fork…", "Describe…", "Retention…", "Delete…"):
        page.get_by_role("button", name=name).click()
        dialog(page).wait_for()
        page.keyboard.press("Escape")
        dialog(page).wait_for(state="detached")
    page.goto(f"{studio.address}/#/store")
    page.locator(".largest li").first.wait_for()
    page.get_by_role("button", name="Verify every record").click()
    shown(page, "No damage")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script").count() == 0


def test_the_store_shows_totals_growth_health_and_largest_threads(studio):
    page = studio.open("#/store")
    shown(page, "436")
    assert page.locator(".chart .slot").count() >= 40
    assert 25 < page.locator(".chart .column").count() < page.locator(".chart .slot").count()
    page.get_by_role("button", name="Size", exact=True).click()
    page.get_by_role("img", name="Size by day").wait_for()
    assert "trip-lisbon" in page.locator(".largest li").first.inner_text()
    shown(page, "not automatic in this server")
    page.get_by_role("button", name="Verify every record").click()
    shown(page, "No damage in 44 threads")
    page.locator(".largest a").first.click()
    shown(page, "Conversation")


def test_damage_is_named_and_the_rest_is_shown(studio):
    victim = studio.memory.list_checkpoints(LISBON)[0]
    studio.memory.release()
    database = sqlite3.connect(studio.folder / "agent.db")
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    (table,) = [name for name in tables if name.startswith("checkpoint") and "body" in _columns(database, name)]
    changed = database.execute(f"UPDATE {table} SET body = x'ff00ff' WHERE checkpoint_id = ?", (victim.checkpoint_id,))
    assert changed.rowcount == 1
    database.commit()
    database.close()
    page = studio.open("#/store")
    page.get_by_role("button", name="Verify every record").click()
    shown(page, "1 damaged record in 1 thread")
    studio.expected.append("status of 500")
    page.locator(".damage a").click()
    page.locator(".problem", has_text="CorruptRecordError").wait_for()
    shown(page, "Casa do Rio", ".conversation")
    page.locator(".checkpoint").nth(1).click()
    page.locator("[aria-labelledby=state] .tree").get_by_text("reference").wait_for()


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in database.execute(f"PRAGMA table_info({table})")}


def test_missing_threads_and_empty_stores_say_what_to_do(studio, browser, tmp_path):
    studio.expected.append("status of 404")
    page = studio.open("#/thread/nobody")
    shown(page, "There is no such thread")
    page.get_by_role("link", name="All threads").click()
    page.locator(".rows li").first.wait_for()
    (tmp_path / "empty").mkdir()
    with studio_on(browser, tmp_path, f"sqlite:///{tmp_path}/empty/new.db") as empty:
        page = empty.open()
        shown(page, "This store has no conversations yet")
        empty.memory.put_state("first", {"n": 1})
        page.locator(".rows li", has_text="first").wait_for()
        empty.open("#/store").get_by_text("Nothing was saved yet.").wait_for(state="detached")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_phone(studio, scheme):
    for path in ("", "#/?q=report", "#/thread/trip-lisbon", "#/store"):
        page = studio.open(path, color_scheme=scheme, width=390, height=800)
        page.locator("main a, main button").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        if "thread" in path:
            page.get_by_role("button", name="History", exact=True).click()
            page.locator(".checkpoint").nth(2).click()
            page.get_by_role("button", name="State", exact=True).click()
            page.locator("[aria-labelledby=state] .tree").get_by_text("approved").wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_person_signs_in_and_sees_what_the_token_may_see(browser, template, tmp_path, token):
    shutil.copy(template / "agent.db", tmp_path)
    reader, ana = token("me"), token("ana", "--user", "ana", "--write")
    with studio_on(browser, tmp_path, f"sqlite:///{tmp_path}/agent.db") as studio:
        studio.expected.append("status of 401")
        page = studio.open()
        page.get_by_label("Token").fill(reader)
        page.get_by_role("button", name="Open the studio").click()
        shown(page, "44 threads")
        shown(page, "read only")
        page.goto(f"{studio.address}/#/thread/trip-lisbon")
        page.get_by_role("button", name="Export").wait_for()
        assert page.locator(".about .actions").inner_text().split("\n") == ["Export", "Retention…"]
        assert page.get_by_role("button", name="Edit…").count() == 0
        # In the fragment, it is taken out of the address.
        other = studio.open(f"#token={ana}")
        shown(other, "13 threads")
        assert ana not in other.url
        other.goto(f"{studio.address}/#/store")
        shown(other, "Largest threads")
        assert other.get_by_role("button", name="Retention…").count() == 0
        assert other.get_by_role("button", name="Verify every record").count() == 0


def test_clew_studio_without_a_store_shows_the_demo_conversation(browser, tmp_path):
    started = time.monotonic()
    with running(tmp_path, "", "studio", "--no-browser") as (address, _):
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        shown(page, "Three days in Lyon")
        print(f"the demo was shown after {time.monotonic() - started:.1f} s")
        page.get_by_text("Three days in Lyon").first.click()
        shown(page, "Booked:", ".conversation")
        assert page.locator(".timeline li").count() == 11
        page.close()
    assert not list(tmp_path.iterdir())


def test_one_run_on_postgresql(browser, tmp_path):
    from clew.testing.servers.shared import shared_postgres
    from tests.studio.stores import rich_store

    server = shared_postgres()
    name = f"studio_{time.time_ns()}"
    url = f"{server}{'&' if '?' in server else '?'}schema={name}"
    rich_store(url, others=6)
    with studio_on(browser, tmp_path, url) as studio:
        page = studio.open()
        shown(page, "8 threads")
        page.get_by_label("Search").fill("casa do")
        page.locator(".hits mark").first.click()
        shown(page, "Booked:", ".conversation")
        page.locator(".checkpoint").nth(1).click()
        page.get_by_role("button", name="Compare with parent").click()
        page.locator(".change ins", has_text="The trip is booked.").wait_for()
        page.get_by_role("button", name="Show the state").click()
        page.get_by_role("button", name="Back to the head").click()
        # Live, and a branch from an edit.
        studio.memory.put_checkpoint(LISBON, {"done": True}, messages=[{"role": "user", "content": "Thank you!"}])
        shown(page, "Thank you!", ".conversation")
        page.get_by_role("button", name="Edit…").click()
        page.get_by_label("The state as JSON").fill('{"done": false}')
        page.get_by_role("button", name="Save as a branch…").click()
        dialog(page).get_by_role("button", name="Save the branch").click()
        page.locator(".timeline").get_by_text("edit").first.wait_for()
        assert studio.memory.get_state(LISBON) == {"done": False}
        page.goto(f"{studio.address}/#/store")
        page.get_by_role("button", name="Retention…").click()
        dialog(page).get_by_label("Keep only the newest").fill("2")
        dialog(page).get_by_role("button", name="Preview").click()
        dialog(page).get_by_role("button", name="Remove this…").click()
        dialog(page).get_by_role("button", name="Remove it").click()
        shown(page, "Removed", ".note")
        assert len(studio.memory.list_checkpoints(LISBON, limit=None)) == 2
        page.get_by_role("button", name="Verify every record").click()
        shown(page, "No damage in 8 threads")


def test_the_client_of_another_user_is_told_nothing(browser, template, tmp_path, token):
    shutil.copy(template / "agent.db", tmp_path)
    bob = token("bob", "--user", "bob", "--write")
    with studio_on(browser, tmp_path, f"sqlite:///{tmp_path}/agent.db") as studio:
        studio.expected += ["status of 404", "status of 401"]
        page = studio.open(f"#token={bob}")
        page.locator(".rows li").first.wait_for()
        page.goto(f"{studio.address}/#/thread/trip-lisbon")
        shown(page, "There is no such thread")
        assert "Lisbon" not in page.locator("main").inner_text()
        page.goto(f"{studio.address}/#/?q=Lisbon")
        shown(page, "No thread matches")
        with clew.connect(studio.url) as memory:
            memory.put_messages(LISBON, [{"role": "user", "content": "Only for ana"}])
            memory.put_state({"thread_id": "of-bob", "user_id": "bob"}, {"n": 1})
        page.goto(f"{studio.address}/#/")
        shown(page, "of-bob")
        assert "ana" not in page.locator(".rows").inner_text()

"""Live updates: by server-sent events, in several browsers, across lost connections, and without any stream."""

from __future__ import annotations

from tests.server.support import running
from tests.studio.conftest import dialog, shown
from tests.studio.stores import LISBON


def test_changes_appear_without_a_reload_in_two_browsers(studio):
    pages = [studio.open("#/thread/trip-lisbon"), studio.open("#/thread/trip-lisbon")]
    lists = studio.open()
    for page in pages:
        page.locator(".timeline li").nth(14).wait_for()
        shown(page, "Live", ".top")
    shown(lists, "Live", ".top")
    polls = []
    for page in pages:
        page.on("request", lambda request: polls.append(request.url))
    studio.memory.put_checkpoint(
        LISBON, {"seen": True}, messages=[{"role": "user", "content": "And a museum?"}], node_name="museum"
    )
    for page in pages:
        shown(page, "And a museum?", ".conversation")
        page.locator(".timeline li.chosen", has_text="museum").wait_for()
        page.locator("[aria-labelledby=state] .tree").get_by_text("seen").wait_for()
        shown(page, "16 checkpoints")
    # What one person does, the other one sees.
    pages[0].get_by_role("button", name="Describe…").click()
    pages[0].get_by_label("Name").fill("Museums of Lisbon")
    pages[0].get_by_role("button", name="Save").click()
    for page in (pages[1], lists):
        page.get_by_text("Museums of Lisbon").first.wait_for()
    # Only because something happened: nobody polls.
    assert len([url for url in polls if url.endswith("/threads/trip-lisbon")]) <= 6
    studio.memory.put_state({"thread_id": "brand-new", "user_id": "eve"}, {"n": 1})
    lists.locator(".rows li", has_text="brand-new").wait_for()
    studio.memory.delete_thread(LISBON)
    for page in pages:
        shown(page, "This thread was deleted")
    lists.locator(".rows li", has_text="Museums of Lisbon").wait_for(state="detached")


def test_a_reader_further_down_is_not_disturbed(studio):
    page = studio.open()
    page.locator(".rows li").first.wait_for()
    page.locator(".rows.threads").evaluate("box => box.scrollTop = 1000")
    page.locator(".rows li[data-at='20']").wait_for()
    name = page.locator(".rows li[data-at='20']").inner_text()
    studio.memory.put_state({"thread_id": "brand-new", "user_id": "eve"}, {"n": 1})
    page.get_by_role("button", name="1 thread changed. Show").wait_for()
    assert page.locator(".rows li[data-at='20']").inner_text() == name
    page.get_by_role("button", name="1 thread changed. Show").click()
    page.locator(".rows li[data-at='0']", has_text="brand-new").wait_for()


def test_what_a_person_types_stays_when_the_thread_changes_meanwhile(studio):
    page = studio.open("#/thread/trip-lisbon")
    shown(page, "Live", ".top")
    page.get_by_role("button", name="Describe…").click()
    name = dialog(page).get_by_label("Name")
    name.fill("By plane")
    studio.memory.put_checkpoint(LISBON, {"n": 1}, node_name="meanwhile")
    page.locator(".timeline li", has_text="meanwhile").wait_for()
    page.locator(".facts", has_text="16 checkpoints").wait_for()
    assert name.input_value() == "By plane"
    dialog(page).get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="By plane").wait_for()


def test_a_lost_connection_is_resumed_after_the_last_event(browser, template, tmp_path):
    import shutil

    from tests.studio.conftest import Studio

    shutil.copy(template / "agent.db", tmp_path)
    studio = Studio(browser, tmp_path, f"sqlite:///{tmp_path}/agent.db")
    studio.expected += ["ERR_", "Failed to load"]
    resumed = []
    with running(tmp_path, studio.url, "serve", "--port", "0") as (address, _):
        studio.address = address
        page = studio.open("#/thread/trip-lisbon")
        shown(page, "Live", ".top")
        page.on("request", lambda request: resumed.append(request.headers.get("last-event-id")))
        studio.memory.put_checkpoint(LISBON, {"n": 1}, node_name="first")
        page.locator(".timeline li.chosen", has_text="first").wait_for()
        # The first may have come with the reload at the beginning; this one comes as an event.
        studio.memory.put_checkpoint(LISBON, {"n": 2}, node_name="next")
        page.locator(".timeline li.chosen", has_text="next").wait_for()
    page.locator(".live.reconnecting, .live.polling").wait_for()
    studio.memory.put_checkpoint(
        LISBON, {"n": 2}, node_name="meanwhile", messages=[{"role": "user", "content": "Still there?"}]
    )
    with running(tmp_path, studio.url, "serve", "--port", address.rpartition(":")[2]):
        page.locator(".timeline li.chosen", has_text="meanwhile").wait_for()
        shown(page, "Still there?", ".conversation")
        page.locator(".live.live").wait_for()
        # An error of the connection disappears without a click.
        page.locator(".error").wait_for(state="detached")
        assert any(resumed)
        studio.close()


def test_without_a_stream_the_page_polls(studio):
    studio.expected.append("status of 503")
    page = studio.open()
    page.route("**/events", lambda route: route.fulfill(status=503, body="{}"))
    page.goto(f"{studio.address}/#/thread/trip-lisbon")
    page.reload()
    page.locator(".live.polling").wait_for()
    studio.memory.put_checkpoint(LISBON, {"n": 1}, messages=[{"role": "user", "content": "Slowly, but surely"}])
    shown(page, "Slowly, but surely", ".conversation")
    page.locator("[aria-labelledby=state] .tree").get_by_text("n", exact=True).wait_for()
    # When the stream is back, it is used again.
    page.unroute("**/events")
    page.locator(".live.live").wait_for()

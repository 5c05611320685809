"""Acting in the studio: fork, go back, describe, edit, clean up, export, delete."""

from __future__ import annotations

import json

import clew
from tests.studio.conftest import dialog, shown
from tests.studio.stores import LISBON


def test_a_person_forks_describes_and_deletes(studio):
    page = studio.open("#/thread/trip-lisbon")
    page.get_by_role("button", name="Fork…").click()
    dialog(page).get_by_label("Id of the new thread").fill("by-plane")
    dialog(page).get_by_role("button", name="Fork", exact=True).click()
    page.wait_for_url("**/thread/by-plane")
    shown(page, "forked from")
    page.get_by_role("button", name="Describe…").click()
    dialog(page).get_by_label("Name").fill("By plane")
    dialog(page).get_by_label("Tags").fill("air, fast")
    dialog(page).get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="By plane").wait_for()
    described = studio.memory.get_thread({"thread_id": "by-plane", "user_id": "ana"})
    assert (described.thread_name, described.tags) == ("By plane", ("air", "fast"))
    page.get_by_role("button", name="Delete…").click()
    dialog(page).get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Delete…").click()
    dialog(page).get_by_role("button", name="Delete it").click()
    shown(page, "44 threads")
    assert len(studio.memory.list_threads({"user_id": clew.ANY_USER})) == 44


def test_a_fork_whose_id_is_taken_is_refused_in_the_dialog(studio):
    studio.expected.append("status of 4")
    page = studio.open("#/thread/trip-lisbon")
    page.get_by_role("button", name="Fork…").click()
    dialog(page).get_by_label("Id of the new thread").fill("trip-lisbon-by-bus")
    dialog(page).get_by_role("button", name="Fork", exact=True).click()
    dialog(page).locator(".problem").wait_for()
    page.keyboard.press("Escape")
    shown(page, "Four nights in Lisbon")


def test_a_person_goes_back_and_the_conversation_follows(studio):
    before = studio.memory.list_checkpoints(LISBON)[4]
    page = studio.open(f"#/thread/trip-lisbon?at={before.checkpoint_id}")
    page.get_by_role("button", name="Go back to here…").click()
    dialog(page).get_by_role("button", name="Go back").click()
    page.locator(".timeline li").nth(15).wait_for()
    page.locator(".conversation").get_by_text("Booked:").wait_for(state="detached")
    assert studio.memory.get_state(LISBON) == studio.memory.get_state({**LISBON, "checkpoint_id": before.checkpoint_id})


def test_an_edited_state_becomes_a_branch_and_keeps_its_types(studio):
    base = studio.memory.list_checkpoints(LISBON)[3]
    before = studio.memory.get_state({**LISBON, "checkpoint_id": base.checkpoint_id})
    page = studio.open(f"#/thread/trip-lisbon?at={base.checkpoint_id}")
    page.get_by_role("button", name="Edit…").click()
    area = page.get_by_label("The state as JSON")
    assert page.get_by_role("button", name="Save as a branch…").is_disabled()
    area.fill(area.input_value() + "}")
    page.get_by_role("button", name="Save as a branch…").click()
    shown(page, "This is not JSON yet")
    area.fill(area.input_value().rstrip("}").rstrip() + "}")
    area.fill(json.dumps(json.loads(area.input_value()) | {"approved": "by a person"}))
    page.get_by_role("button", name="Save as a branch…").click()
    change = dialog(page).locator(".change")
    change.wait_for()
    assert change.count() == 1
    assert "approved" in change.inner_text()
    # Nothing happens before it is confirmed.
    dialog(page).get_by_role("button", name="Cancel").click()
    assert len(studio.memory.list_checkpoints(LISBON, limit=None)) == 15
    page.get_by_role("button", name="Save as a branch…").click()
    dialog(page).get_by_role("button", name="Save the branch").click()
    page.locator(".timeline li").nth(15).wait_for()
    page.locator(".timeline li.chosen", has_text="edit").wait_for()
    saved = studio.memory.list_checkpoints(LISBON)[0]
    assert saved.parent_id == base.checkpoint_id
    assert saved.metadata == {"source": "studio", "edited": base.checkpoint_id}
    assert studio.memory.get_state(LISBON) == {**before, "approved": "by a person"}
    assert type(studio.memory.get_state(LISBON)["trip"]["budget"]) is type(before["trip"]["budget"])


def test_retention_is_previewed_confirmed_and_applied(studio):
    page = studio.open("#/store")
    page.get_by_role("button", name="Retention…").click()
    dialog(page).get_by_role("button", name="Preview").click()
    shown(page, "Fill in at least one rule", "dialog")
    dialog(page).get_by_label("Keep only the newest").fill("5")
    dialog(page).get_by_role("button", name="Preview").click()
    shown(page, "What would go", "dialog")
    report = studio.memory.cleanup(clew.RetentionPolicy(max_history=5), dry_run=True)
    assert str(report.checkpoints) in dialog(page).locator("table").inner_text()
    assert studio.memory.stats(clew.ANY_USER).total_checkpoints == 436
    # Another rule needs another preview.
    dialog(page).get_by_label("Always keep every").fill("4")
    dialog(page).locator("table").wait_for(state="detached")
    dialog(page).get_by_label("Always keep every").fill("")
    dialog(page).get_by_role("button", name="Preview").click()
    dialog(page).get_by_role("button", name="Remove this…").click()
    dialog(page).get_by_role("button", name="Keep it").click()
    assert studio.memory.stats(clew.ANY_USER).total_checkpoints == 436
    dialog(page).get_by_role("button", name="Remove this…").click()
    dialog(page).get_by_role("button", name="Remove it").click()
    shown(page, "Removed", ".note")
    left = 436 - report.checkpoints
    page.locator(".figures dd", has_text=str(left)).wait_for()
    assert studio.memory.stats(clew.ANY_USER).total_checkpoints == left


def test_retention_of_one_thread_leaves_the_others(studio):
    page = studio.open("#/thread/trip-lisbon")
    page.get_by_role("button", name="Retention…").click()
    dialog(page).get_by_label("Keep only the newest").fill("3")
    dialog(page).get_by_role("button", name="Preview").click()
    dialog(page).locator("tr", has_text="checkpoints").get_by_text("12").wait_for()
    dialog(page).get_by_role("button", name="Remove this…").click()
    dialog(page).get_by_role("button", name="Remove it").click()
    page.locator(".timeline li").nth(3).wait_for(state="detached")
    assert len(studio.memory.list_checkpoints(LISBON, limit=None)) == 3
    assert studio.memory.stats(clew.ANY_USER).total_checkpoints == 436 - 12


def test_a_reader_sees_the_preview_and_can_not_apply_it(browser, template, tmp_path, token):
    import shutil

    from tests.studio.conftest import studio_on

    shutil.copy(template / "agent.db", tmp_path)
    reader = token("me")
    with studio_on(browser, tmp_path, f"sqlite:///{tmp_path}/agent.db") as studio:
        page = studio.open(f"#token={reader}")
        page.locator(".rows li").first.wait_for()
        page.goto(f"{studio.address}/#/store")
        page.get_by_role("button", name="Retention…").click()
        dialog(page).get_by_label("Keep only the newest").fill("1")
        dialog(page).get_by_role("button", name="Preview").click()
        shown(page, "Your token may only read", "dialog")
        assert dialog(page).get_by_role("button", name="Remove this…").count() == 0


def test_an_export_has_every_message_and_every_state(studio):
    for number in range(60):
        studio.memory.put_checkpoint(LISBON, {"n": number}, messages=[{"role": "user", "content": f"{number}"}])
    page = studio.open("#/thread/trip-lisbon")
    with page.expect_download() as started:
        page.get_by_role("button", name="Export").click()
    assert started.value.suggested_filename == "trip-lisbon.json"
    content = json.loads(started.value.path().read_text())
    assert content["thread"]["thread_name"] == "Four nights in Lisbon"
    assert [each["state"].get("n") for each in content["checkpoints"][:60]] == list(range(59, -1, -1))
    assert len(content["checkpoints"]) == 75
    # Those of the branch that was given up, too.
    assert len(content["messages"]) == 74

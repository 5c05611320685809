"""save, load, list, delete, clear_all and get_stats behave as llmfy documents, even where its own
backends don't.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import clew
from clew.adapters.llmfy import ClewCheckpointer
from clew.adapters.llmfy.metadata import fields_of
from clew.testing import FakeClock
from tests.adapters.llmfy.support import MOMENT, NEW, TIME, checkpoint, node_of
from tests.checkpointer.support import run


@pytest.fixture
def llmfy(checkpointer):
    return ClewCheckpointer(checkpointer)


def ids(found):
    return [each.metadata.checkpoint_id for each in found]


def test_what_is_saved_is_loaded_with_all_its_metadata(llmfy):
    async def go():
        saved = checkpoint(1, state={"n": 1, "list": [1, 2.5, None, "é\0"], "deep": {"a": {"b": []}}})
        await llmfy.save(saved)
        assert await llmfy.load("s") == await llmfy.load("s", "c1") == saved
        assert await llmfy.list("s") == [saved]

    run(go())


def test_the_latest_is_the_last_that_was_saved_also_at_equal_and_earlier_times(store):
    async def go():
        llmfy = ClewCheckpointer(store.open(clock=FakeClock()))
        for number, moment in enumerate([MOMENT, MOMENT, MOMENT, MOMENT - timedelta(days=1)]):
            await llmfy.save(checkpoint(number, at=moment))
        assert await llmfy.load("s") == checkpoint(3, at=moment)
        assert ids(await llmfy.list("s")) == ["c3", "c2", "c1", "c0"]

    run(go())


def test_an_id_that_is_saved_again_replaces_its_checkpoint_in_its_place(llmfy):
    async def go():
        for number in range(3):
            await llmfy.save(checkpoint(number))
        await llmfy.save(checkpoint(1, state={"n": "again"}))
        assert ids(await llmfy.list("s")) == ["c2", "c1", "c0"]
        assert (await llmfy.load("s", "c1")).state == {"n": "again"}
        assert (await llmfy.load("s")).state == {"n": 2}

    run(go())


def test_a_limit_gives_the_newest_and_none_of_them_for_zero(llmfy):
    async def go():
        for number in range(12):
            await llmfy.save(checkpoint(number))
        assert len(await llmfy.list("s")) == 10
        assert ids(await llmfy.list("s", 2)) == ["c11", "c10"]
        assert await llmfy.list("s", limit=0) == []
        assert len(await llmfy.list("s", limit=None)) == 12
        with pytest.raises(clew.ConfigError):
            await llmfy.list("s", limit=-1)

    run(go())


def test_missing_sessions_and_checkpoints_are_none(llmfy):
    async def go():
        assert await llmfy.load("absent") is None
        assert await llmfy.load("absent", "c1") is None
        assert await llmfy.list("absent") == []
        await llmfy.delete("absent")
        await llmfy.delete("absent", "c1")
        await llmfy.clear_all()

    run(go())


def test_a_checkpoint_answers_only_to_its_own_session(llmfy):
    async def go():
        await llmfy.save(checkpoint(1, "mine"))
        await llmfy.save(checkpoint(2, "other"))
        assert await llmfy.load("other", "c1") is None
        await llmfy.delete("other", "c1")
        assert (await llmfy.load("mine", "c1")).state == {"n": 1}
        await llmfy.save(checkpoint(1, "other", state={"n": "the same id elsewhere"}))
        assert (await llmfy.load("mine", "c1")).state == {"n": 1}

    run(go())


def test_sessions_of_another_user_are_not_there(checkpointer):
    async def go():
        alice, bob = (ClewCheckpointer(checkpointer, user_id=name) for name in ("alice", "bob"))
        await alice.save(checkpoint(1))
        assert await bob.load("s") is None
        assert await bob.list("s") == []
        with pytest.raises(clew.PermissionDeniedError):
            await bob.save(checkpoint(2))
        with pytest.raises(clew.PermissionDeniedError):
            await bob.delete("s")
        await bob.clear_all()
        assert await alice.load("s") == checkpoint(1)

    run(go())


def test_deleting_one_leaves_the_others_and_deleting_a_session_leaves_nothing(llmfy):
    async def go():
        for number in range(3):
            await llmfy.save(checkpoint(number, state={"messages": [{"role": "user", "content": f"word {number}"}]}))
        await llmfy.delete("s", "c2")
        assert ids(await llmfy.list("s")) == ["c1", "c0"]
        await llmfy.save(checkpoint(3, "kept"))
        await llmfy.delete("s")
        assert await llmfy.load("s") is None
        assert await llmfy.checkpointer.alist_messages("s") == []
        assert (await llmfy.load("kept")) is not None
        await llmfy.save(checkpoint(4, state={"messages": [{"role": "user", "content": "word 0"}]}))
        assert ids(await llmfy.list("s")) == ["c4"]
        assert len(await llmfy.checkpointer.alist_messages("s")) == 1

    run(go())


def test_clearing_all_and_counting_leave_out_threads_of_others(llmfy):
    async def go():
        await llmfy.checkpointer.aput_state("not llmfy's", {"n": 1})
        for number in range(5):
            await llmfy.save(checkpoint(number, "a" if number < 3 else "b"))
        expected = {"total_sessions": 2, "total_checkpoints": 5, "checkpoints_per_session": {"a": 3, "b": 2}}
        assert await llmfy.aget_stats() == expected
        await llmfy.clear_all()
        assert await llmfy.aget_stats() == {
            "total_sessions": 0,
            "total_checkpoints": 0,
            "checkpoints_per_session": {},
        }
        assert await llmfy.checkpointer.aget_state("not llmfy's") == {"n": 1}

    run(go())


def test_statistics_are_there_without_an_event_loop_too(llmfy):
    run(llmfy.save(checkpoint(1)))
    expected = {"total_sessions": 1, "total_checkpoints": 1, "checkpoints_per_session": {"s": 1}}
    assert llmfy.get_stats() == expected


def test_callers_get_and_keep_their_own_copies(llmfy):
    async def go():
        saved = checkpoint(1, state={"list": [1]})
        await llmfy.save(saved)
        saved.state["list"].append(2)
        loaded = await llmfy.load("s")
        loaded.state["list"].append(3)
        assert (await llmfy.load("s")).state == {"list": [1]}

    run(go())


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=30)), None])
def test_times_come_back_with_their_zone(llmfy, zone):
    moment = datetime(2026, 3, 1, 12, 0, 0, 7, tzinfo=zone)

    async def go():
        await llmfy.save(checkpoint(1, at=moment))
        found = getattr((await llmfy.load("s")).metadata, TIME)
        assert found == moment
        assert found.utcoffset() == moment.utcoffset()

    run(go())


@dataclasses.dataclass
class Older:
    """The metadata of llmfy 0.9."""

    checkpoint_id: str
    session_id: str
    timestamp: datetime
    node_name: str
    step: int


@dataclasses.dataclass
class Newer:
    """The metadata of llmfy 0.11."""

    checkpoint_id: str
    session_id: str
    run_id: str
    created_at: datetime
    node: str
    prev_node: str
    step: int
    updated_fields: list[str]
    attempt: int | None
    dispatch_id: str | None


@dataclasses.dataclass
class Saved:
    metadata: Any
    state: dict[str, Any]


OLDER = Older("c1", "s", MOMENT, "ask", 4)
NEWER = Newer("c1", "s", "r", MOMENT, "ask", "before", 4, ["n"], 1, None)


@pytest.mark.parametrize("metadata", [OLDER, NEWER], ids=["0.9", "0.11"])
def test_a_session_of_either_generation_is_read_by_the_installed_one(llmfy, metadata):
    async def go():
        await llmfy.save(Saved(metadata, {"n": 1}))
        found = await llmfy.load("s")
        assert (node_of(found), found.metadata.step, getattr(found.metadata, TIME)) == ("ask", 4, MOMENT)
        if NEW:
            of_older: tuple[Any, ...] = ("", "__start__", [], None, None)
            of_newer: tuple[Any, ...] = ("r", "before", ["n"], 1, None)
            now = found.metadata
            told = (now.run_id, now.prev_node, now.updated_fields, now.attempt, now.dispatch_id)
            assert told == (of_newer if metadata is NEWER else of_older)
        (info,) = await llmfy.checkpointer.alist_checkpoints("s")
        assert (info.node_name, info.step, info.run_id) == ("ask", 4, "r" if metadata is NEWER else None)
        assert info.metadata["llmfy"] == fields_of(metadata)

    run(go())


def test_a_checkpoint_that_llmfy_has_not_made_is_read_too(llmfy):
    async def go():
        made = await llmfy.checkpointer.aput_checkpoint("s", {"n": 1}, node_name="mine")
        found = await llmfy.load("s")
        assert (node_of(found), found.metadata.step) == ("mine", 0)
        assert found.metadata.checkpoint_id == made.checkpoint_id

    run(go())


def test_an_invalid_on_conflict_is_refused():
    with pytest.raises(clew.ConfigError):
        ClewCheckpointer("memory://", on_conflict="ignore")  # type: ignore[arg-type]


def test_it_closes_only_what_it_opened(tmp_path):
    async def go():
        async with ClewCheckpointer(f"sqlite:///{tmp_path}/clew.db") as own:
            await own.save(checkpoint(1))
        async with clew.connect(f"sqlite:///{tmp_path}/clew.db") as shared:
            async with ClewCheckpointer(shared) as borrowed:
                assert (await borrowed.load("s")).state == {"n": 1}  # type: ignore[union-attr]
            assert await shared.aget_state("s") == {"n": 1}

    run(go())

"""Namespaces over HTTP: separate lines of checkpoints in one thread."""

from __future__ import annotations

from typing import Any

import pytest

import clew
from clew.server.routes import states
from tests.server.support import client
from tests.server.test_api import served

SEARCH = "search:5f1d|hotels"


async def filled(memory: clew.BaseCheckpointer, **owner: Any) -> dict[str, clew.Checkpoint]:
    """Save two states in the main namespace, two in another one, and a message with each of the main ones."""
    config = {"thread_id": "trip", **owner}
    inner = {**config, "checkpoint_ns": SEARCH}
    return {
        "first": await memory.aput_checkpoint(config, {"n": 1}, messages=[{"role": "user", "content": "To Lyon!"}]),
        "found": await memory.aput_checkpoint(inner, {"hotels": ["Rio"]}, node_name="look"),
        "chosen": await memory.aput_checkpoint(inner, {"hotels": ["Rio", "Azul"]}, node_name="choose"),
        "last": await memory.aput_checkpoint(config, {"n": 2}, messages=[{"role": "user", "content": "Book it!"}]),
    }


def said(answer: Any) -> list[str]:
    return [each["content"] for each in answer.json()["messages"]]


def test_a_thread_names_its_namespaces_with_counts_and_heads():
    async def test(memory, http):
        made = await filled(memory)
        told = (await http.get("/api/threads/trip/namespaces")).json()
        assert told["complete"] is True
        assert [(each["namespace"], each["checkpoints"]) for each in told["namespaces"]] == [("", 2), (SEARCH, 2)]
        assert [each["head"]["checkpoint_id"] for each in told["namespaces"]] == [
            made["last"].checkpoint_id,
            made["chosen"].checkpoint_id,
        ]
        # Each of them names the checkpoints that a list shows.
        for each in told["namespaces"]:
            listed = await http.get("/api/threads/trip/checkpoints", params={"namespace": each["namespace"]})
            assert listed.json()["checkpoints"][0] == each["head"]
            assert len(listed.json()["checkpoints"]) == each["checkpoints"]
        await memory.aput_state({"thread_id": "trip", "checkpoint_ns": SEARCH}, 3)
        told = (await http.get("/api/threads/trip/namespaces")).json()
        assert [(each["namespace"], each["checkpoints"]) for each in told["namespaces"]] == [(SEARCH, 3), ("", 2)]

    served(test)


def test_a_thread_without_checkpoints_has_no_namespaces():
    async def test(memory, http):
        await memory.aput_messages("talk", [{"role": "user", "content": "Hello"}])
        for thread_id in ("talk", "nobody"):
            told = (await http.get(f"/api/threads/{thread_id}/namespaces")).json()
            assert told == {"namespaces": [], "complete": True}

    served(test)


def test_an_id_in_two_namespaces_counts_in_both():
    async def test(memory, http):
        for namespace in ("", "a", "b"):
            await memory.aput_checkpoint({"thread_id": "t", "checkpoint_ns": namespace}, namespace, new_id="same")
        told = (await http.get("/api/threads/t/namespaces")).json()["namespaces"]
        assert [(each["namespace"], each["checkpoints"]) for each in told] == [("b", 1), ("a", 1), ("", 1)]
        assert {each["head"]["checkpoint_id"] for each in told} == {"same"}

    served(test)


def test_a_very_long_thread_names_the_namespaces_of_its_newest_checkpoints_and_the_main_one(
    monkeypatch: pytest.MonkeyPatch,
):
    async def test(memory, http):
        await memory.aput_state("t", 0)
        for number in range(6):
            await memory.aput_state({"thread_id": "t", "checkpoint_ns": f"n{number // 2}"}, number)
        told = (await http.get("/api/threads/t/namespaces")).json()
        assert told["complete"] is False
        assert [(each["namespace"], each["checkpoints"]) for each in told["namespaces"]] == [
            ("n2", 2),
            ("n1", 1),
            ("", 1),
        ]
        assert told["namespaces"][-1]["head"]["sequence"] == 1
        monkeypatch.setattr(states, "COUNTED", 7)
        assert (await http.get("/api/threads/t/namespaces")).json()["complete"] is True

    monkeypatch.setattr(states, "COUNTED", 3)
    served(test)


def test_namespaces_of_another_user_are_not_told():
    async def test(memory, _):
        await filled(memory, user_id="ana")
        for token, many in (("ana", 2), ("reader", 2), ("operator", 2), ("bob", 0)):
            async with client(memory, token) as http:
                told = (await http.get("/api/threads/trip/namespaces")).json()
                assert len(told["namespaces"]) == many, token

    served(test)


def test_the_conversation_as_of_a_checkpoint_of_a_namespace_is_listed():
    async def test(memory, http):
        made = await filled(memory)
        asked = {"namespace": SEARCH, "checkpoint_id": made["chosen"].checkpoint_id}
        assert said(await http.get("/api/threads/trip/messages", params=asked)) == ["To Lyon!"]
        # The thread has one conversation: a namespace has none of its own.
        whole = ["To Lyon!", "Book it!"]
        assert said(await http.get("/api/threads/trip/messages", params={"namespace": SEARCH})) == whole
        assert said(await http.get("/api/threads/trip/messages")) == whole
        del asked["namespace"]
        assert said(await http.get("/api/threads/trip/messages", params=asked)) == []

    served(test)


def test_a_namespace_goes_back_by_itself():
    async def test(memory, http):
        made = await filled(memory)
        inner = {"thread_id": "trip", "checkpoint_ns": SEARCH}
        body = {"to": made["found"].checkpoint_id, "namespace": SEARCH}
        back = await http.post("/api/threads/trip/rewind", json=body)
        assert back.status_code == 201
        assert (back.json()["namespace"], back.json()["parent_id"]) == (SEARCH, made["found"].checkpoint_id)
        assert await memory.aget_state(inner) == {"hotels": ["Rio"]}
        assert await memory.aget_state("trip") == {"n": 2}
        assert said(await http.get("/api/threads/trip/messages")) == ["To Lyon!", "Book it!"]
        # In the main namespace, there is no such checkpoint, and turns are counted there only.
        assert (await http.post("/api/threads/trip/rewind", json={"to": body["to"]})).status_code == 409
        refused = await http.post("/api/threads/trip/rewind", json={"turns": 1, "namespace": SEARCH})
        assert refused.status_code == 400
        assert "main namespace" in refused.json()["detail"]

    served(test)


def test_a_fork_of_a_namespace_has_that_namespace_alone():
    async def test(memory, http):
        made = await filled(memory)
        body = {"thread_id": "other", "namespace": SEARCH, "checkpoint_id": made["found"].checkpoint_id}
        forked = await http.post("/api/threads/trip/fork", json=body)
        assert forked.status_code == 201
        assert forked.json()["head"]["namespace"] == SEARCH
        told = (await http.get("/api/threads/other/namespaces")).json()["namespaces"]
        assert [(each["namespace"], each["checkpoints"]) for each in told] == [(SEARCH, 1)]
        assert await memory.aget_state({"thread_id": "other", "checkpoint_ns": SEARCH}) == {"hotels": ["Rio"]}

    served(test)

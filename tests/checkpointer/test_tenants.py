"""Other tenants: every public method, drawn from the class, is called by a stranger, who sees and changes nothing."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager
from datetime import timedelta
from itertools import islice
from typing import Any

import pytest

import clew

SECRET = "tangerine"
"""A word that is in everything of Alice's."""
ALICE = {"thread_id": "t", "user_id": "alice"}
BOB = {"thread_id": "t", "user_id": "bob"}
STRANGERS = [pytest.param(BOB, id="another user"), pytest.param({"thread_id": "t"}, id="no user")]
OPERATORS = {"clear_all", "ping", "setup", "status"}
"""Methods for operators, who act for everybody. They name neither a thread nor a user."""
LIFE = {"release", "close", "setup"}
ARGUMENTS: dict[str, Any] = {
    "append": {"m": ["x"]},
    "as_": None,
    "attachments": {"a": "changed"},
    "info": clew.ThreadInfo(thread_id="t", thread_name="stolen"),
    "message_id": "m1",
    "message_ids": ["m1"],
    "messages": [clew.Message(message_id="m1", role="user", content="changed")],
    "node_name": "n",
    "policy": clew.RetentionPolicy(max_history=1, max_bytes=0, message_ttl=timedelta(microseconds=1)),
    "run_ids": ["r"],
    "search": SECRET,
    "state": {"m": ["changed"]},
    "text": SECRET,
}
"""Arguments by the parameter's name. `config…`, `user_id` and `thread_id` (of a copy) are the stranger's."""


def methods() -> list[str]:
    """The sync methods of a checkpointer that have an async version."""
    cls = clew.BaseCheckpointer
    found = [name for name in dir(cls) if not name.startswith("_") and hasattr(cls, f"a{name}")]
    return sorted(set(found) - LIFE)


def required(name: str) -> list[str]:
    parameters = list(inspect.signature(getattr(clew.BaseCheckpointer, name)).parameters.values())[1:]
    return [
        each.name
        for each in parameters
        if each.default is inspect.Parameter.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]


def arguments_of(name: str, stranger: dict[str, Any], checkpoint_id: str | None) -> dict[str, Any]:
    config = {**stranger, **({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}
    parameters = list(inspect.signature(getattr(clew.BaseCheckpointer, name)).parameters)
    given: dict[str, Any] = {}
    for each in parameters[1:]:
        if each.startswith("config"):
            given[each] = config
        elif each == "user_id":
            given[each] = stranger.get("user_id")
        elif each == "thread_id":
            given[each] = "stolen"
        elif each in ("search", "text", "policy") or each in required(name):
            assert each in ARGUMENTS, (
                f"{name}() has the parameter {each!r}, which this test does not know: add a value for it to ARGUMENTS, so "
                f"that the method is called as another tenant; if the method is for operators only, add it to OPERATORS"
            )
            given[each] = ARGUMENTS[each]
    return given


@pytest.fixture
def alices(checkpointer):
    """Alice's thread with everything in it, read and written by this very checkpointer."""
    checkpointer.put_state({**ALICE, "run_id": "r"}, {"m": [SECRET]})
    made = checkpointer.put_checkpoint(
        {**ALICE, "run_id": "r"},
        {"m": [f"{SECRET} {number} " + "x" * 300 for number in range(5)]},
        messages=[clew.Message(message_id="m1", role="user", content=f"a {SECRET}")],
        metadata={"note": SECRET},
    )
    checkpointer.put_attachments({**made.config, **ALICE}, {"a": SECRET})
    checkpointer.put_thread(ALICE, clew.ThreadInfo(thread_id="t", thread_name=SECRET, metadata={"note": SECRET}))
    checkpointer.put_state_cache(ALICE, {"cached": SECRET})
    return checkpointer


def seen_by_alice(checkpointer: clew.BaseCheckpointer) -> list[object]:
    return [
        checkpointer.get_checkpoint(ALICE),
        checkpointer.list_checkpoints(ALICE),
        checkpointer.list_messages(ALICE),
        checkpointer.get_thread(ALICE),
        checkpointer.list_attachments(ALICE),
        checkpointer.get_state_cache(ALICE),
        checkpointer.list_threads({"user_id": "alice"}),
    ]


def call(checkpointer: clew.BaseCheckpointer, name: str, given: dict[str, Any]) -> object:
    """The result, without what the stranger himself passed."""
    result = getattr(checkpointer, name)(**given)
    if isinstance(result, AbstractContextManager):
        with result as entered:
            return entered
    return result


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("name", [each for each in methods() if each not in OPERATORS])
def test_a_stranger_sees_and_changes_nothing_with(name, stranger, alices):
    before = seen_by_alice(alices)
    head = alices.get_checkpoint(ALICE).checkpoint_id
    for checkpoint_id in (None, head):
        given = arguments_of(name, stranger, checkpoint_id)
        try:
            result = call(alices, name, given)
        except clew.ClewError as error:
            result = error
        assert SECRET not in repr(result), f"{name}() shows a stranger what is Alice's"
    assert seen_by_alice(alices) == before, f"{name}() lets a stranger change what is Alice's"
    assert alices.get_thread({"thread_id": "stolen", "user_id": clew.ANY_USER}) is None


@pytest.mark.parametrize("name", ["get_state", "list_messages", "get_thread", "list_attachments", "search"])
def test_the_owner_sees_what_strangers_must_not(name, alices):
    assert SECRET in repr(call(alices, name, arguments_of(name, ALICE, None)))


def test_methods_that_take_a_config_or_user_are_called_as_a_stranger():
    called = set(methods()) - OPERATORS
    for name in called:
        parameters = set(inspect.signature(getattr(clew.BaseCheckpointer, name)).parameters)
        assert {"config", "config_a", "user_id"} & parameters, (
            f"{name}() takes neither a config nor a user_id, so any tenant may call it: add it to OPERATORS, or give it an "
            f"owner"
        )
    assert {"get_state", "search", "fork", "turn", "put_messages"} <= called
    assert set(methods()) >= OPERATORS - LIFE, "remove methods that are gone from OPERATORS"


@pytest.mark.parametrize("name", sorted(OPERATORS - LIFE - {"clear_all"}))
def test_what_operators_see_without_naming_a_user_shows_no_content(name, alices):
    assert SECRET not in repr(getattr(alices, name)())


@pytest.mark.parametrize("name", ["cleanup", "compact", "delete_runs"])
def test_an_operator_changes_with_any_user_what_a_stranger_could_not(name, alices):
    before = seen_by_alice(alices)
    call(alices, name, arguments_of(name, {"thread_id": "t", "user_id": clew.ANY_USER}, None))
    assert name == "compact" or seen_by_alice(alices) != before


@pytest.mark.parametrize("whose", [BOB, {"user_id": "bob"}, {"thread_id": "t"}, {"user_id": None}], ids=str)
def test_a_stranger_who_watches_is_told_nothing(whose, alices):
    with alices.watch(ALICE) as watched:
        start = watched.position
    with alices.watch(whose, timeout=0) as live, alices.watch(ALICE, timeout=60) as owners:
        alices.put_state(ALICE, {"m": [SECRET]})
        alices.put_messages(ALICE, [clew.Message(role="user", content=SECRET)])
        alices.delete_message(ALICE, "m1")
        # The owner's events come first, so that the stranger's would be there.
        assert [event.kind for event in islice(owners, 2)] == ["checkpoint", "messages"]
        told = [event.kind for event in live]
    later = [event.kind for event in alices.watch(whose, since=start, timeout=0)]
    assert (told, later) == ([], [])

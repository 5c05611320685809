"""Agentflow's contract in detail: results, refusals and errors of its own checkpointers."""

from __future__ import annotations

import asyncio
import pickle

import pytest

import clew
from clew.adapters.agentflow import ClewCheckpointer, errors
from clew.adapters.agentflow.framework import AgentState, ThreadInfo
from tests.adapters.agentflow.support import exceptions, said
from tests.checkpointer.support import run

ANN = {"thread_id": "trip", "user_id": "ann"}
BOB = {"thread_id": "trip", "user_id": "bob"}


def test_the_first_result_of_a_tool_stays(store):
    one, other = ClewCheckpointer(store.open()), ClewCheckpointer(store.open())

    async def go():
        await one.aput_state(dict(ANN), AgentState())
        assert await one.aput_tool_result(ANN, "m:c", {"paid": 1}) is True
        for again in (one, other):
            assert await again.aput_tool_result(ANN, "m:c", {"paid": 2}) is True
            assert await again.aget_tool_result(ANN, "m:c") == {"paid": 1}
        await asyncio.gather(*(each.aput_tool_result(ANN, "m:d", {"n": n}) for n, each in enumerate([one, other] * 4)))
        first = await one.aget_tool_result(ANN, "m:d")
        await one.aput_tool_result(ANN, "m:d", {"n": "late"})
        assert await other.aget_tool_result(ANN, "m:d") == first
        assert await one.aget_tool_result(ANN, "m:c") == {"paid": 1}

    run(go())


@pytest.mark.parametrize("again", [False, True])
def test_a_result_does_not_bring_a_deleted_thread_back(store, again):
    memory, elsewhere = store.open(), store.open()
    adapter = ClewCheckpointer(memory)

    async def go():
        config = dict(ANN)
        await adapter.aput_state(config, AgentState())
        if again:
            await adapter.aput_tool_result(config, "m:c", {"paid": 1})
        await elsewhere.adelete_thread(ANN)
        with pytest.raises(clew.ThreadDeletedError):
            await adapter.aput_tool_result(config, "m:d", {"paid": 1})
        assert await elsewhere.aget_thread(ANN) is None

    run(go())


def test_a_value_that_is_cleared_is_returned(store, clock):
    adapter = ClewCheckpointer(store.open(), clock=clock)

    async def go():
        await adapter.aput_cache_value("urls", "a", {"url": 1}, ttl_seconds=60)
        assert await adapter.aclear_cache_value("urls", "a") == {"url": 1}
        assert await adapter.aclear_cache_value("urls", "a") is None
        await adapter.aput_cache_value("urls", "a", 2, ttl_seconds=60)
        clock.advance(61)
        assert await adapter.aclear_cache_value("urls", "a") is None
        await adapter.arequest_stop(ANN)
        assert await adapter.aclear_stop_request(ANN) is True
        assert await adapter.aclear_stop_request(ANN) is None

    run(go())


def test_cleaning_says_whether_the_thread_was_there(store):
    adapter = ClewCheckpointer(store.open())

    async def go():
        assert await adapter.aclean_thread(ANN) is False
        await adapter.aput_messages(ANN, [said("hello")])
        with pytest.raises(clew.PermissionDeniedError):
            await adapter.aclean_thread(BOB)
        assert await adapter.aclean_thread(ANN) is True
        assert await adapter.aclean_thread(ANN) is False

    run(go())


def test_a_description_of_another_thread_is_refused(store):
    adapter = ClewCheckpointer(store.open())

    async def go():
        with pytest.raises(ValueError, match=r"'other'.*'trip'"):
            await adapter.aput_thread(ANN, ThreadInfo(thread_id="other", thread_name="Wien"))
        assert await adapter.alist_threads(ANN) == []
        await adapter.aput_thread({"thread_id": 5, "user_id": "ann"}, ThreadInfo(thread_id="5"))
        await adapter.aput_thread({"thread_id": "5", "user_id": "ann"}, ThreadInfo(thread_id=5, thread_name="five"))
        # Like in Agentflow's own checkpointers, the description names the thread if the config does
        # not.
        await adapter.aput_thread({"user_id": "ann"}, ThreadInfo(thread_id="trip", thread_name="Wien"))
        assert [each.thread_name for each in await adapter.alist_threads(ANN)] == ["Wien", "five"]

    run(go())


def test_release_returns_true(store, tmp_path):
    async def go():
        assert await ClewCheckpointer(store.open()).arelease() is True
        assert await ClewCheckpointer(f"sqlite:///{tmp_path}/own.db").arelease() is True

    run(go())


def answer_of_the_rest_server(error: BaseException) -> int:
    """The status of agentflow-cli 0.6: that of the first class in the error's MRO that has a
    handler.
    """
    handlers = {
        ValueError: 422,
        exceptions.StaleStateError: 409,
        exceptions.StorageError: 500,
        exceptions.TransientStorageError: 503,
        exceptions.SchemaVersionError: 422,
        exceptions.SerializationError: 500,
    }
    return next((handlers[cls] for cls in type(error).__mro__ if cls in handlers), 500)


def test_a_missing_message_is_an_index_error_and_a_value_error(store):
    adapter = ClewCheckpointer(store.open())

    async def go():
        await adapter.aput_messages(ANN, [said("hello", message_id="m")])
        for config, message_id in (ANN, "none"), (ANN, 7), ({**ANN, "thread_id": "none"}, "m"), (BOB, "m"):
            with pytest.raises(IndexError, match="no message") as missing:
                await adapter.aget_message(config, message_id)
            assert answer_of_the_rest_server(missing.value) == 422
        with pytest.raises(IndexError, match="no message") as missing:
            await adapter.adelete_message(ANN, "none")
        assert answer_of_the_rest_server(missing.value) == 422

    run(go())


@pytest.mark.parametrize(
    ("error", "theirs", "status"),
    [
        (clew.ConflictError, exceptions.StaleStateError, 409),
        (clew.ThreadDeletedError, exceptions.StaleStateError, 409),
        (clew.LeaseError, exceptions.StaleStateError, 409),
        (clew.StorageError, exceptions.StorageError, 500),
        (clew.TransientStorageError, exceptions.TransientStorageError, 503),
        (clew.TransientStorageError, ConnectionError, 503),
        (clew.PermissionDeniedError, exceptions.StorageError, 500),
        (clew.StateTooLargeError, exceptions.StorageError, 500),
        (clew.CorruptRecordError, exceptions.SerializationError, 500),
        (clew.EncryptionError, exceptions.SerializationError, 500),
        (clew.UnsupportedTypeError, exceptions.SerializationError, 500),
        (clew.UnsupportedTypeError, TypeError, 500),
        (clew.SchemaVersionError, exceptions.SchemaVersionError, 422),
        (clew.ConfigError, ValueError, 422),
    ],
)
def test_an_error_is_clews_and_agentflows_at_once(error, theirs, status):
    cause = error("what happened", thread_id="t")
    both = errors.both(cause)
    assert isinstance(both, error)
    assert isinstance(both, theirs)
    assert str(both) == "what happened"
    assert both.thread_id == "t"
    assert answer_of_the_rest_server(both) == status
    assert errors.both(both) is both
    again = pickle.loads(pickle.dumps(both))
    assert (type(again), str(again), again.facts) == (type(both), str(both), both.facts)
    if isinstance(both, exceptions.StorageError):
        told = {"message": "what happened", "error_code": both.error_code, "context": {"thread_id": "t"}}
        assert both.to_dict() == {"error_type": error.__name__, **told}


def test_every_error_that_a_store_raises_is_agentflows_too():
    left = {clew.ConfigError, clew.MissingExtraError, clew.BlockingCallError, clew.ClewError}
    known = {getattr(clew, name) for name in clew.__all__ if name.endswith("Error")} - left
    assert {each for each in known if not isinstance(errors.both(each("x")), exceptions.StorageError)} == set()


def test_a_store_that_fails_is_caught_by_handlers_of_agentflow(tmp_path):
    adapter = ClewCheckpointer(f"sqlite:///{tmp_path}/own.db")

    async def go():
        await adapter.aput_state(ANN, AgentState())
        with pytest.raises(exceptions.StorageError) as refused:
            await adapter.aput_state(BOB, AgentState())
        assert isinstance(refused.value, clew.PermissionDeniedError)
        assert isinstance(refused.value.__cause__, clew.PermissionDeniedError)
        await adapter.arelease()
        with pytest.raises(exceptions.StorageError):
            await adapter.alist_messages(ANN)

    run(go())


def test_an_unreachable_server_is_a_connection_error():
    adapter = ClewCheckpointer("redis://127.0.0.1:1/0")
    with pytest.raises(ConnectionError) as refused:
        run(adapter.aget_state(dict(ANN)))
    assert isinstance(refused.value, exceptions.TransientStorageError)

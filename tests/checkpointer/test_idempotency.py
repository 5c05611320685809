"""Calls with an idempotency key: a repeated one changes nothing, and returns what the first one saved."""

from __future__ import annotations

import asyncio

import pytest

import clew
from clew.errors import ConfigError, StateTooLargeError, ThreadDeletedError
from tests.checkpointer.support import run, text


def test_a_repeated_change_is_made_once(checkpointer):
    checkpointer.put_state("t", {"log": []})
    first = checkpointer.update_state("t", append={"log": [1]}, metadata={"by": "first"}, idempotency_key="k")
    checkpointer.update_state("t", append={"log": [2]})
    again = checkpointer.update_state("t", append={"log": [3]}, metadata={"by": "again"}, idempotency_key="k")
    assert checkpointer.get_state("t") == {"log": [1, 2]}
    assert again.metadata == first.metadata
    assert again.version == first.version
    assert again.state is clew.NOT_LOADED


def test_a_repeated_save_is_made_once(checkpointer):
    said = [{"role": "user", "content": "hi"}]
    first = checkpointer.put_checkpoint("t", {"n": 1}, messages=said, idempotency_key="k")
    again = checkpointer.put_checkpoint("t", {"n": 2}, messages=said, idempotency_key="k")
    assert again.metadata == first.metadata
    assert checkpointer.get_state("t") == {"n": 1}
    assert len(checkpointer.list_messages("t")) == 1


def test_a_key_belongs_to_its_thread_its_namespace_and_its_method(checkpointer):
    in_search = {"thread_id": "t", "checkpoint_ns": "search"}
    for config in ("t", in_search, "u"):
        for _ in range(2):
            checkpointer.put_checkpoint(config, {"log": []}, idempotency_key="k")
            checkpointer.update_state(config, append={"log": [1]}, idempotency_key="k")
    checkpointer.fork("t", "fork")
    checkpointer.update_state("fork", append={"log": [2]}, idempotency_key="k")
    assert [checkpointer.get_state(each) for each in ("t", in_search, "u")] == [{"log": [1]}] * 3
    assert checkpointer.get_state("fork") == {"log": [1, 2]}


def test_a_key_is_remembered_while_its_checkpoint_exists(checkpointer):
    in_search = {"thread_id": "t", "checkpoint_ns": "search"}
    for config in ("t", in_search):
        checkpointer.put_checkpoint(config, {"log": []}, idempotency_key="k")
    checkpointer.update_state(in_search, append={"log": [1]})
    # More commits than a thread keeps receipts of.
    for number in range(400):
        checkpointer.put_messages("t", [{"role": "user", "content": str(number)}])
    for config in ("t", in_search):
        checkpointer.put_checkpoint(config, {"log": ["again"]}, idempotency_key="k")
    assert checkpointer.get_state("t") == {"log": []}
    assert checkpointer.get_state(in_search) == {"log": [1]}


def test_a_repeated_change_brings_back_no_deleted_checkpoint(checkpointer):
    checkpointer.put_state("t", {"log": []})
    made = checkpointer.update_state("t", append={"log": [1]}, idempotency_key="k")
    checkpointer.delete_checkpoint(made.config)
    again = checkpointer.update_state("t", append={"log": [1]}, idempotency_key="k")
    assert again.checkpoint_id == made.checkpoint_id
    assert checkpointer.get_state("t") == {"log": []}


def test_a_change_that_fits_once_is_not_refused_when_several_make_it_at_once(store):
    async def main():
        memories = [store.open(max_state_bytes=1000) for _ in range(2)]
        for number in range(10):
            await memories[0].aput_state("t", {"log": [text(1, 400)]})
            more = {"append": {"log": [text(2, 400)]}, "idempotency_key": str(number)}
            made = await asyncio.gather(*[memory.aupdate_state("t", **more) for memory in (*memories, memories[0])])
            assert len({each.checkpoint_id for each in made}) == 1
            assert len((await memories[0].aget_state("t"))["log"]) == 2
        with pytest.raises(StateTooLargeError):
            await memories[0].aupdate_state("t", append={"log": [text(3, 400)]}, idempotency_key="more")

    run(main())


def test_a_keyed_write_to_a_thread_that_was_deleted_since_is_refused(store):
    mine, theirs = store.open(), store.open()
    mine.put_state("t", {"log": []})
    theirs.get_state("t")
    theirs.delete_thread("t")
    for write in (
        lambda: mine.update_state("t", append={"log": [1]}, idempotency_key="k"),
        lambda: mine.put_messages("t", [{"role": "user", "content": "late"}], idempotency_key="k"),
    ):
        with pytest.raises(ThreadDeletedError):
            write()


def test_repeated_messages_are_appended_once(checkpointer):
    for content in ("first", "again"):
        checkpointer.put_messages("t", [{"role": "user", "content": content}], idempotency_key="k")
    checkpointer.put_messages("t", [{"role": "user", "content": "other"}], idempotency_key="l")
    assert [each.text() for each in checkpointer.list_messages("t")] == ["first", "other"]


@pytest.mark.parametrize("key", ["", 7, b"k", "\ud800"])
def test_a_key_that_is_no_text_is_refused(local, key):
    memory = local.open()
    for call in (
        lambda: memory.put_checkpoint("t", {}, idempotency_key=key),
        lambda: memory.update_state("t", set={"a": 1}, idempotency_key=key),
        lambda: memory.put_messages("t", [{"role": "user", "content": "x"}], idempotency_key=key),
    ):
        with pytest.raises(ConfigError, match="idempotency_key"):
            call()


def test_a_key_and_an_id_exclude_each_other(local):
    memory = local.open()
    with pytest.raises(ConfigError, match="either new_id or idempotency_key"):
        memory.put_checkpoint("t", {}, new_id="c", idempotency_key="k")
    with pytest.raises(ConfigError, match="either new_id or idempotency_key"):
        memory.update_state("t", set={"a": 1}, new_id="c", idempotency_key="k")

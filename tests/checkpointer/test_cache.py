"""The in-process cache of volatile states."""

from __future__ import annotations

import pytest

import clew
from clew.storage.wrapper import StorageWrapper
from tests.checkpointer.support import run


def test_a_cached_state_is_volatile_and_comes_back_as_it_was(store):
    checkpointer = store.open()
    checkpointer.put_state_cache("t", {"n": (1, {2})})
    assert checkpointer.get_state_cache("t") == {"n": (1, {2})}
    assert checkpointer.get_state("t") is None
    assert store.open().get_state_cache("t") is None


def test_the_async_twins_do_the_same(store):
    async def go():
        checkpointer = store.open()
        await checkpointer.aput_state_cache("t", 1)
        assert await checkpointer.aget_state_cache("t") == 1

    run(go())


def test_at_most_so_many_threads_are_cached_and_the_least_recently_used_goes(store):
    checkpointer = store.open(max_cached_threads=3)
    for number in range(3):
        checkpointer.put_state_cache(f"t{number}", number)
    assert checkpointer.get_state_cache("t0") == 0
    checkpointer.put_state_cache("t3", 3)
    assert [checkpointer.get_state_cache(f"t{number}") for number in range(4)] == [0, None, 2, 3]


def test_no_threads_are_cached_if_none_may_be(store):
    checkpointer = store.open(max_cached_threads=0)
    checkpointer.put_state_cache("t", 1)
    assert checkpointer.get_state_cache("t") is None


def test_a_cached_state_lives_as_long_as_cache_ttl_says(store, clock):
    checkpointer = store.open(cache_ttl=60, clock=clock)
    checkpointer.put_state_cache("t", 1)
    clock.advance(59.9)
    assert checkpointer.get_state_cache("t") == 1
    clock.advance(0.2)
    assert checkpointer.get_state_cache("t") is None
    default = store.open(clock=clock)
    default.put_state_cache("t", 1)
    clock.advance(86_399)
    assert default.get_state_cache("t") == 1
    clock.advance(2)
    assert default.get_state_cache("t") is None


@pytest.mark.parametrize(
    "write",
    [
        lambda other: other.put_state("t", {"n": 2}),
        lambda other: other.update_state("t", set={"n": 2}),
        lambda other: other.clear_state("t"),
        lambda other: other.delete_thread("t"),
    ],
    ids=["put", "update", "clear", "delete"],
)
def test_a_write_of_any_process_outdates_what_is_cached(store, write):
    mine, other = store.open(), store.open()
    mine.put_state("t", {"n": 1})
    mine.put_state_cache("t", {"n": "cached"})
    assert mine.get_state_cache("t") == {"n": "cached"}
    write(other)
    assert mine.get_state_cache("t") is None
    assert mine.get_state_cache("t") is None


def test_no_two_threads_users_and_namespaces_are_mistaken_for_each_other(store):
    checkpointer = store.open()
    configs = [
        {"thread_id": "a", "user_id": "b:c"},
        {"thread_id": "a:b", "user_id": "c"},
        {"thread_id": "a:b:c"},
        {"thread_id": "a", "user_id": "b", "checkpoint_ns": "c"},
        {"thread_id": "a", "user_id": "b"},
    ]
    for number, config in enumerate(configs):
        checkpointer.put_state_cache(config, number)
    assert [checkpointer.get_state_cache(config) for config in configs] == [0, 1, 2, 3, 4]


def test_no_two_threads_are_mistaken_for_each_other_in_the_store(store):
    checkpointer = store.open()
    names = [
        "a",
        "a:b",
        "lock:a",
        "a\0b",
        "a/b",
        "A",
        "á",
        "a ",
        "🧵",
        "a%",
        "a_",
        "' OR 1=1 --",
        "{a}",
        "a*",
        "x" * 2000,
    ]
    for number, name in enumerate(names):
        checkpointer.put_state(name, number)
    assert [store.open().get_state(name) for name in names] == list(range(len(names)))
    assert {each.thread_id for each in checkpointer.list_threads({}, limit=None)} == set(names)


def test_warming_loads_the_last_active_threads_of_a_user(store, clock):
    checkpointer = store.open(clock=clock)
    for number in range(5):
        clock.advance(1)
        checkpointer.put_state({"thread_id": f"t{number}", "user_id": "alice"}, {"n": number})
    checkpointer.put_state({"thread_id": "b", "user_id": "bob"}, {"n": "bob's"})
    checkpointer.put_messages({"thread_id": "stateless", "user_id": "alice"}, [clew.Message(role="user")])
    cold = store.open()
    assert cold.warm("alice", limit=3) == 2  # one of the last three has no state
    assert cold.warm("alice", limit=4) == 3
    found = [cold.get_state_cache({"thread_id": f"t{number}", "user_id": "alice"}) for number in range(5)]
    assert found == [None, None, {"n": 2}, {"n": 3}, {"n": 4}]
    assert cold.get_state_cache({"thread_id": "b", "user_id": "bob"}) is None
    assert cold.warm("nobody") == 0


def test_warming_for_everybody_serves_each_owner(store):
    store.open().put_state({"thread_id": "t", "user_id": "alice"}, 1)
    cold = store.open()
    assert cold.warm(clew.ANY_USER) == 1
    assert cold.get_state_cache({"thread_id": "t", "user_id": "alice"}) == 1
    assert cold.get_state_cache({"thread_id": "t", "user_id": "bob"}) is None


def test_a_save_while_a_thread_is_warmed_is_not_hidden(store):
    config = {"thread_id": "t", "user_id": "alice"}
    other = store.open()
    other.put_state(config, {"n": 1})

    class Overtaken(StorageWrapper):
        """Saves as another process after each read of a state."""

        async def checkpoints(self, query):
            page = await self.inner.checkpoints(query)
            if query.detail == "state":
                await other.aput_state(config, {"n": 2})
            return page

    cold = store.open(Overtaken)

    async def go():
        await cold.awarm("alice")
        assert await cold.aget_state_cache(config) in (None, {"n": 2})

    run(go())

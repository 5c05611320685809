"""Searches find the same in an encrypted store as in a plain one, page by page."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.storage.encrypted import storage
from tests.encryption.support import ENCRYPTION, opened

words = st.text(st.sampled_from("abé%_İß京"), max_size=6)
bounds = st.tuples(st.integers(0, 6), st.none() | st.integers(0, 6))


@settings(max_examples=150, deadline=None)
@given(said=st.lists(words, max_size=12), needle=words, page=bounds, size=st.integers(1, 5))
def test_a_search_finds_the_same_with_any_page_size(said, needle, page, size):
    offset, limit = page
    before = storage.FIRST_PAGE, storage.LARGEST_PAGE
    storage.FIRST_PAGE, storage.LARGEST_PAGE = size, 2 * size
    try:
        found = []
        for encryption in (None, ENCRYPTION):
            with clew.InMemoryCheckpointer(encryption=encryption) as memory:
                many = [clew.Message(message_id=f"{at}", role="user", content=each) for at, each in enumerate(said)]
                memory.put_messages("all", many)
                for at, each in enumerate(said):
                    memory.put_thread(f"t{at}", clew.ThreadInfo(thread_id=f"t{at}", thread_name=each))
                messages = memory.list_messages("all", search=needle, offset=offset, limit=limit)
                threads = memory.list_threads({}, search=needle, offset=offset, limit=limit)
                found.append(([each.message_id for each in messages], [each.thread_id for each in threads]))
    finally:
        storage.FIRST_PAGE, storage.LARGEST_PAGE = before
    assert found[1] == found[0]


def test_threads_are_found_by_their_ids_too(store):
    memory = opened(store)
    memory.put_state("The-Café", 1)
    assert [each.thread_id for each in memory.list_threads({}, search="CAFÉ")] == ["The-Café"]


def test_a_search_stops_when_it_has_enough(sqlite):
    memory = opened(sqlite)
    memory.put_messages("t", [clew.Message(role="user", content=f"word {number}") for number in range(2000)])
    asked: list[int] = []
    inner = memory.storage.inner  # type: ignore[attr-defined]
    messages = inner.messages

    async def counted(query):
        found = await messages(query)
        asked.append(len(found))
        return found

    inner.messages = counted
    assert len(memory.list_messages("t", search="WORD", limit=10)) == 10
    assert asked == [500]
    assert len(memory.list_messages("t", search="word 1999", limit=10)) == 1

"""Keys of the Redis storage: no two ids share one, and a thread's keys hash to one slot."""

from __future__ import annotations

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from clew.errors import ConfigError
from clew.model.config import ANY_USER
from clew.storage.protocol import Own
from clew.storage.redis.keys import Keys, escaped, slot_of
from clew.testing.servers import shared_cluster

KEYS = Keys("clew")
ids = st.text(st.one_of(st.sampled_from("{}%:a0"), st.characters()), max_size=12)
"""Ids with characters that are special in keys, and with lone surrogates."""


@given(st.lists(ids, unique=True, max_size=8))
def test_different_ids_have_different_keys(names):
    keys = [KEYS.thread(name) for name in names]
    keys += [KEYS.of_user(name) for name in [None, *names]]
    keys += [*KEYS.indexes(ANY_USER), *KEYS.journals(), KEYS.meta, KEYS.token]
    assert len(set(keys)) == len(keys)


def test_no_id_leads_to_clews_own_records():
    keys = [*map(KEYS.own, Own), KEYS.meta, KEYS.token, KEYS.feed]
    assert len(set(keys)) == len(keys)
    assert [KEYS.thread_of(key) for key in keys] == [None] * len(keys)


@given(ids, ids)
def test_escaped_ids_are_equal_only_if_the_ids_are(one, other):
    assert (escaped(one) == escaped(other)) == (one == other)


@given(ids)
def test_the_hash_tag_is_exactly_the_escaped_id(name):
    key, tag = KEYS.thread(name), escaped(name)
    assert tag
    assert b"{" not in tag
    assert b"}" not in tag
    assert key.index(b"{") == len("clew:")
    assert key[key.index(b"{") + 1 : key.index(b"}")] == tag


@given(ids)
def test_an_id_can_be_read_from_its_key(name):
    assert KEYS.thread_of(KEYS.thread(name)) == name
    assert KEYS.thread_of(KEYS.of_user(name)) is None
    assert KEYS.user_of(KEYS.of_user(name)) == name
    assert KEYS.user_of(KEYS.of_user(None)) is None
    assert KEYS.user_of(KEYS.bucket(name)) is ANY_USER
    assert KEYS.bucket(name) in KEYS.indexes(ANY_USER)
    assert KEYS.journal(name) in KEYS.journals()
    assert KEYS.thread_of(KEYS.journal(name)) is None
    assert not KEYS.is_index(KEYS.journal(name))


def test_slots_are_what_redis_says():
    client = redis.Redis.from_url(shared_cluster())
    keys = [b"", b"a", b"{}a", b"a{b}c{d}", b"{a", b"a}{b}", "clew:{é🧵}:t".encode(), *KEYS.indexes(ANY_USER)]
    keys += [KEYS.thread(name) for name in ("t", "a:b", "{t}", "{}", "100%", "nul\0", "", "}{", "🧵")]
    with client:
        assert [slot_of(key) for key in keys] == [client.execute_command("CLUSTER KEYSLOT", key) for key in keys]


def test_a_thread_lies_in_one_slot_whatever_its_id():
    assert slot_of(KEYS.thread("}{")) == slot_of(b"%7D%7B")


@pytest.mark.parametrize("prefix", ["", "a{b", "a}b", "{}"])
def test_a_prefix_with_braces_is_refused(prefix):
    with pytest.raises(ConfigError, match="prefix"):
        Keys(prefix)

"""Clew's own records have no names that a thread or user could have."""

from __future__ import annotations

import pytest

import clew
from clew.checkpointer.leases import StoreLease
from clew.storage.protocol import COPYING, UNFINISHED, Own
from tests.encryption.support import ENCRYPTION, dump, opened

NAMES = ("clew:replication", "clew:cleanup")
BOB = {"user_id": "bob"}


@pytest.mark.parametrize("name", NAMES)
def test_a_thread_with_a_name_like_clews_own_is_sealed_listed_owned_and_deleted(store, name):
    memory = opened(store)
    config = {"thread_id": name, **BOB}
    made = memory.put_checkpoint(config, {"pin": "secret pin"}, metadata={"is": "secret too"})
    memory.put_attachments({**config, "checkpoint_id": made.checkpoint_id}, {"roles": "secret roles"})
    memory.put_state({"thread_id": "other", "user_id": "ann"}, {"n": 1})
    assert b"secret" not in dump(store)
    assert memory.get_state(config) == {"pin": "secret pin"}
    assert [each.thread_id for each in memory.list_threads(BOB)] == [name]
    assert memory.get_state({"thread_id": name, "user_id": "ann"}) is None
    with pytest.raises(clew.PermissionDeniedError):
        memory.put_state({"thread_id": name, "user_id": "ann"}, {"n": 1})
    assert memory.verify() == clew.VerifyReport(threads=2, checkpoints=2, attachments=1)
    assert memory.cleanup(clew.RetentionPolicy(max_history=1)).threads == 0
    assert memory.compact().threads == 2
    assert memory.reseal().left == ()
    memory.delete_thread(config)
    assert memory.list_threads(BOB) == []


def test_no_thread_of_a_user_decides_which_store_serves(tmp_path):
    first, second = (f"sqlite:///{tmp_path}/{name}.db" for name in ("first", "second"))
    name = {"thread_id": "clew:replication", "user_id": "clew:replication"}
    for url in (first, second):
        with clew.connect(url, encryption=ENCRYPTION) as alone:
            alone.put_attachments({**name, "checkpoint_id": "roles"}, {"roles": "nonsense"})
    with clew.connect(first, secondary=second, encryption=ENCRYPTION) as both:
        both.put_state({"thread_id": "t", "user_id": "clew:replication"}, {"n": 1})
        both.put_state(name, {"n": 2})
        assert both.get_state(name) == {"n": 2}
        assert {each.thread_id for each in both.list_threads({"user_id": "clew:replication"})} == {
            "t",
            name["thread_id"],
        }
    with clew.connect(second, encryption=ENCRYPTION) as alone:
        assert alone.get_state({"thread_id": "t", "user_id": "clew:replication"}) == {"n": 1}


def test_no_lease_on_a_thread_prevents_a_cleanup(tmp_path):
    with clew.connect(f"sqlite:///{tmp_path}/clew.db") as memory:
        memory.put_state("t", {"n": 1})
        memory.put_state("t", {"n": 2})
        with (
            memory.lease({"thread_id": "clew:cleanup", "user_id": clew.ANY_USER}, ttl=86400),
            StoreLease(memory._engine, Own.CLEANUP, ttl=1),
        ):
            pass


@pytest.mark.parametrize("user", [UNFINISHED, COPYING])
def test_a_reserved_user_id_is_refused(store, user):
    memory = opened(store)
    for call in (
        lambda: memory.put_state({"thread_id": "t", "user_id": user}, {"n": 1}),
        lambda: memory.list_threads({"user_id": user}),
        lambda: memory.erase_user(user),
        lambda: memory.stats(user),
    ):
        with pytest.raises(clew.ConfigError, match="user_id"):
            call()

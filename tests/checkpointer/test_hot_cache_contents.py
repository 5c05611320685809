"""Contents of PostgreSQL's cache in Redis: values, and the volatile states that processes share."""

from __future__ import annotations

from itertools import pairwise

import pytest
import redis

import clew
from clew.testing.servers import Proxy, shared_redis
from clew.testing.servers.redis import wait_until
from tests.checkpointer.cached_support import settled, status
from tests.checkpointer.support import text


def test_a_save_sends_to_redis_what_is_new_and_not_the_state(both):
    said = [text(number, 500) for number in range(400)]
    with Proxy.before(shared_redis()) as proxy:
        checkpointer = both.open(proxy.url(shared_redis()))
        sent = []
        for number in range(1, 401):
            checkpointer.put_state("t", {"messages": said[:number]})
            settled(checkpointer)
            sent.append(proxy.bytes_asked)
        late = sorted(after - before for before, after in pairwise(sent[300:]))
        # The median, because merges of rows occasionally send those again.
        assert late[len(late) // 2] < 2_500
        # How many rows are merged, and so sent again, depends on timing. All states would be 40 MB.
        assert sent[-1] < 5 * 400 * 500
        assert both.open().get_state("t") == {"messages": said}
        checkpointer.release()


def test_what_a_thread_leaves_in_redis_ends_with_it_and_with_cache_ttl(both):
    checkpointer = both.open(cache_ttl=1000)
    for name, user in (("a", "ann"), ("b", "bob"), ("c", None)):
        checkpointer.put_state({"thread_id": name, "user_id": user}, {"text": text(name, 5_000)})
    settled(checkpointer)
    assert both.threads() == ["a", "b", "c"]
    with redis.Redis.from_url(shared_redis()) as client:
        assert 900_000 < client.pttl(f"{both.redis.prefix}:{{a}}:t") <= 1_000_000
    checkpointer.erase_user("ann")
    assert both.threads() == ["b", "c"]
    checkpointer.clear_state("c")
    assert both.threads() == ["b"]
    checkpointer.clear_all()
    assert both.threads() == []


def test_at_most_max_cached_threads_are_kept_in_redis(both):
    checkpointer = both.open(max_cached_threads=8)
    for number in range(24):
        checkpointer.put_state(f"t{number}", {"text": text(number, 3_000)})
        settled(checkpointer)
    assert both.threads() == sorted(f"t{number}" for number in range(16, 24))
    assert status(checkpointer).evicted == 16
    assert checkpointer.get_state("t3") == {"text": text(3, 3_000)}


def test_warming_brings_a_users_threads_into_redis(both):
    plain = both.plain()
    for number in range(4):
        plain.put_state({"thread_id": f"t{number}", "user_id": "ann"}, {"text": text(number, 5_000)})
    warm = both.open()
    assert warm.warm("ann", limit=2) == 2
    settled(warm)
    assert both.threads() == ["t2", "t3"]
    fresh = both.open()
    assert fresh.get_state({"thread_id": "t3", "user_id": "ann"}) == {"text": text(3, 5_000)}
    assert (status(fresh).hits, status(fresh).misses) == (1, 0)
    # Also values that this process knows already.
    with redis.Redis.from_url(shared_redis()) as client:
        client.delete(f"{both.redis.prefix}:{{t3}}:t")
    assert warm.warm("ann", limit=1) == 1
    settled(warm)
    assert "t3" in both.threads()


# Volatile states


def test_volatile_states_are_shared_and_never_older_than_the_durable_head(both):
    mine, other = both.open(), both.open()
    mine.put_state("t", {"n": 1})
    mine.put_state_cache("t", {"n": (1, {2})})
    assert other.get_state_cache("t") == {"n": (1, {2})}
    other.put_state_cache("t", {"n": "newer"})
    assert mine.get_state_cache("t") == {"n": "newer"}
    other.get_state("t")
    other.put_state("t", {"n": 2})
    assert mine.get_state_cache("t") == {"n": 2}
    assert other.get_state_cache("t") == {"n": 2}
    mine.put_state_cache("t", 3)
    other.delete_thread("t")
    assert mine.get_state_cache("t") is None
    assert both.open().get_state_cache("t") is None


def test_volatile_states_are_each_users_own(both):
    mine, other = both.open(), both.open()
    ann, bob, anybody = ({"thread_id": "t", "user_id": user} for user in ("ann", "bob", clew.ANY_USER))
    mine.put_state(ann, 1)
    mine.put_state_cache(ann, "ann's")
    mine.put_state_cache({**ann, "checkpoint_ns": "sub"}, "ann's sub")
    assert other.get_state_cache(bob) is None
    assert other.get_state_cache("t") is None
    assert other.get_state_cache(anybody) == 1, "the head, and not what Ann put"
    assert other.get_state_cache(ann) == "ann's"
    assert other.get_state_cache({**ann, "checkpoint_ns": "sub"}) == "ann's sub"


def test_a_volatile_state_lives_as_long_as_cache_ttl_says(both, clock):
    mine, other = both.open(cache_ttl=60, clock=clock), both.open(cache_ttl=60, clock=clock)
    mine.put_state("t", 1)
    mine.put_state_cache("t", 2)
    clock.advance(59)
    assert other.get_state_cache("t") == 2
    clock.advance(2)
    assert other.get_state_cache("t") == 1, "the head"


@pytest.mark.usefixtures("tried_again_soon")
def test_volatile_states_stay_in_the_process_while_redis_is_away_or_the_thread_is_not_there(both, server):
    mine, other = both.open(server.url), both.open(server.url)
    mine.put_state_cache("new", 1)
    assert (mine.get_state_cache("new"), other.get_state_cache("new")) == (1, None)
    mine.put_state("t", 1)
    server.kill()
    mine.put_state_cache("t", 2)
    assert (mine.get_state_cache("t"), other.get_state_cache("t")) == (2, 1)
    server.start()
    wait_until(lambda: status(mine).available and status(other).available)
    assert mine.get_state_cache("t") == 2
    mine.put_state_cache("t", 3)
    assert (mine.get_state_cache("t"), other.get_state_cache("t")) == (3, 3)

"""The public surface under wrong use: errors that say what to do, users that must be named, releases."""

from __future__ import annotations

import asyncio
import inspect
import logging
import socket
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

import clew
from clew.storage.memory import MemoryStorage
from tests.checkpointer.support import run

ANA = {"thread_id": "t", "user_id": "ana"}


# Options


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: clew.connect("memory://", foo=1), r"unknown option 'foo'; memory:// takes cache, .*require_user"),  # type: ignore[call-overload]
        (lambda: clew.connect("memory://", cache_tll=1), "unknown option 'cache_tll'; did you mean 'cache_ttl'"),  # type: ignore[call-overload]
        (lambda: clew.connect("sqlite:///x.db?prefix=a"), "unknown option 'prefix'; sqlite:///x.db takes synchronous"),
        (lambda: clew.connect("memory://?cache_tll=1"), "'cache_tll'; did you mean 'cache_ttl'"),
        (lambda: clew.connect("memory://", secondary="memory://", foo=1), "unknown option 'foo'; connect with a sec"),  # type: ignore[call-overload]
        (lambda: clew.InMemoryCheckpointer(foo=1), "unknown option 'foo'; InMemoryCheckpointer takes"),  # type: ignore[call-arg]
        (lambda: clew.SQLiteCheckpointer("x.db", busy_timout=1), "did you mean 'busy_timeout'"),  # type: ignore[call-arg]
        (lambda: clew.PgCheckpointer("postgresql://x", shema="a"), "did you mean 'schema'"),  # type: ignore[call-arg]
        (lambda: clew.RedisCheckpointer("redis://x", prefx="a"), "did you mean 'prefix'"),  # type: ignore[call-arg]
        (lambda: clew.RedisCheckpointer.from_client(None, prefx="a"), "did you mean 'prefix'"),  # type: ignore[call-arg]
        (lambda: clew.DistributedCheckpointer("memory://", "memory://", mode="sync"), "unknown option 'mode'"),  # type: ignore[call-arg]
        (lambda: clew.connect("sqlite:///x.db?cache_ttl=3", cache_ttl=4), "'cache_ttl' is given in the URL and as an"),
    ],
)
def test_an_unknown_option_is_a_config_error_that_lists_the_known_ones(make: Any, said: str) -> None:
    with pytest.raises(clew.ConfigError, match=said):
        make()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: clew.connect("sqlite:///:memory:"), "use memory://"),
        (lambda: clew.connect("sqlite://:memory:"), "use memory://"),
        (lambda: clew.SQLiteCheckpointer(":memory:"), "use clew.connect\\('memory://'\\)"),
        (lambda: clew.connect("postgresql+asyncpg://u:secret@h/d"), "write postgresql://$"),
        (lambda: clew.connect("postgres+psycopg://h/d"), "write postgres://$"),
        (lambda: clew.connect("sqlite+aiosqlite:///x.db"), "write sqlite://$"),
        (lambda: clew.PgCheckpointer("postgresql+asyncpg://u:secret@h/d"), "write postgresql://$"),
    ],
)
def test_urls_of_other_libraries_are_refused_with_the_right_one(make: Any, said: str) -> None:
    with pytest.raises(clew.ConfigError, match=said) as refused:
        make()
    assert "secret" not in str(refused.value)


# Arguments


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: c.list_messages("t", foo=1), r"^list_messages\(\) got an unexpected keyword argument 'foo'"),
        (lambda c: c.get_messages("t", foo=1), r"^get_messages\(\) got an unexpected"),
        (lambda c: c.alist_messages("t", foo=1), r"^alist_messages\(\) got an unexpected"),
        (lambda c: c.put_state("t"), r"^put_state\(\) missing 1 required positional argument: 'state'"),
        (lambda c: c.aput_state("t"), r"^aput_state\(\) missing"),
        (lambda c: c.turn("t", foo=1), r"^turn\(\) got an unexpected"),
        (lambda c: c.lease("t", 1, 2, 3), r"^lease\(\) takes from 2 to 3 positional arguments"),
    ],
)
def test_a_wrong_argument_is_a_type_error_that_names_the_public_method(call: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call(clew.InMemoryCheckpointer())


def test_a_type_error_inside_a_users_function_keeps_its_text() -> None:
    memory = clew.InMemoryCheckpointer()
    memory.put_state("t", {"n": 1})

    def rebuild(state: Any, messages: Any) -> Any:
        raise TypeError("arepair( is not the matter")

    with pytest.raises(TypeError, match=r"^arepair\( is not the matter$"):
        memory.repair("t", rebuild=rebuild)


@pytest.mark.parametrize("cls", [clew.BaseCheckpointer, clew.SQLiteCheckpointer])
def test_help_shows_the_signature_and_the_docstring_of_a_sync_method(cls: Any) -> None:
    assert str(inspect.signature(cls.put_state)) == str(inspect.signature(cls.aput_state))
    assert list(inspect.signature(clew.InMemoryCheckpointer().put_state).parameters) == ["config", "state"]
    assert (inspect.getdoc(cls.put_state) or "").startswith("Save `state` as the thread's new head and return it.")
    assert cls.put_state.__name__ == "put_state"
    assert not inspect.iscoroutinefunction(cls.put_state)


def test_a_sync_method_calls_the_async_one_of_a_subclass() -> None:
    class Loud(clew.InMemoryCheckpointer):
        async def aput_state(self, config: Any, state: Any) -> Any:
            return await super().aput_state(config, {**state, "loud": True})

    memory = Loud()
    assert memory.put_state("t", {}) == {"loud": True}
    assert clew.BaseCheckpointer.put_state(memory, "t", {"n": 1}) == {"n": 1, "loud": True}  # type: ignore[misc]


# Users


def test_a_number_is_a_thread_id_as_its_text(checkpointer):
    checkpointer.put_state({"thread_id": 7}, {"n": 1})
    assert checkpointer.get_state("7") == checkpointer.get_state(7) == {"n": 1}
    assert [each.thread_id for each in checkpointer.list_threads({})] == ["7"]
    assert checkpointer.fork(7, 8) == {"thread_id": "8"}
    with checkpointer.turn(7) as turn:
        turn.state["n"] += 1
    assert checkpointer.get_state(7) == {"n": 2}


def test_a_write_without_a_user_to_an_owned_thread_says_so(checkpointer):
    checkpointer.put_state(ANA, {"n": 1})
    for write in (
        lambda: checkpointer.put_state("t", {}),
        lambda: checkpointer.put_messages("t", [{"role": "user", "content": "x"}]),
        lambda: checkpointer.delete_thread("t"),
        lambda: checkpointer.lease("t").__enter__(),
    ):
        with pytest.raises(clew.PermissionDeniedError, match="thread 't' has an owner; pass user_id"):
            write()
    with pytest.raises(clew.PermissionDeniedError, match="belongs to another user than 'bob'"):
        checkpointer.put_state({"thread_id": "t", "user_id": "bob"}, {})


WHOLE_STORE = {
    "acleanup",
    "aclear_all",
    "acompact",
    "adelete_runs",
    "aping",
    "arelease",
    "areseal",
    "asetup",
    "asize",
    "astats",
    "astatus",
    "averify",
}
"""Maintenance, which names no user."""
NEEDED: dict[str, Any] = {
    "state": {"n": 1},
    "messages": [{"role": "user", "content": "x"}],
    "message_id": "m",
    "attachments": {"k": 1},
    "info": {"thread_name": "n"},
    "policy": None,
    "thread_id": "new",
    "config_b": {"thread_id": "t"},
    "user_id": None,
}
PUBLIC = sorted(
    name for name in dir(clew.BaseCheckpointer) if name.startswith("a") and hasattr(clew.BaseCheckpointer, name[1:])
)


@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in WHOLE_STORE])
def test_every_call_must_name_a_user_if_that_is_required(name: str) -> None:
    memory = clew.BaseCheckpointer(MemoryStorage(), require_user=True)
    method = getattr(memory, name[1:])
    parameters = inspect.signature(method).parameters
    given = {
        each: NEEDED.get(each, "x")
        for each, parameter in parameters.items()
        if each not in ("config", "config_a")
        and parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_KEYWORD
    }
    first = next(iter(parameters))
    if first in ("config", "config_a"):
        given[first] = {} if name.endswith("_threads") else {"thread_id": "t", "checkpoint_id": "c"}
    wanted = "needs the id of one user" if name == "aerase_user" else "require_user=True: put 'user_id' into the config"

    def call() -> None:
        for _ in method(**given):  # some give their answers one by one
            break

    with pytest.raises(clew.ConfigError, match=wanted):
        call()
    assert memory.list_threads({"user_id": clew.ANY_USER}) == []


def test_a_named_user_and_any_user_satisfy_the_requirement(store):
    memory = store.open(require_user=True)
    memory.put_state(ANA, {"n": 1})
    with memory.turn(ANA) as turn:
        turn.state["n"] += 1
    assert memory.get_state(ANA) == {"n": 2}
    assert memory.get_state({"thread_id": "t", "user_id": clew.ANY_USER}) == {"n": 2}
    assert memory.get_state({"thread_id": "t", "user_id": "bob"}) is None
    assert memory.warm(clew.ANY_USER) == 1
    assert memory.stats().total_sessions == 1
    memory.cleanup(clew.RetentionPolicy(max_history=1))
    assert memory.erase_user("ana") == 1


# Releases


def test_a_released_checkpointer_says_so_and_is_not_opened_again(store):
    memory = store.open()
    memory.put_state("t", {"n": 1})
    with memory.lease("t") as lease:
        memory.release()
    memory.release()
    for call in (
        lambda: memory.get_state("t"),
        lambda: memory.put_state("t", {}),
        lambda: memory.put_messages("t", [{"role": "user", "content": "x"}]),
        lambda: memory.list_threads({}),
        lambda: memory.stats(),
        lambda: memory.setup(),
        lambda: memory.ping(),
        lambda: memory.__enter__(),
        lambda: lease.__enter__(),
        lambda: run(memory.aget_state("t")),
    ):
        with pytest.raises(clew.StorageError, match=r"this checkpointer was released; call clew.connect\(\) again"):
            call()
    assert memory.status().last_error == "this checkpointer was released; call clew.connect() again"
    assert store.open().get_state("t") == {"n": 1}


def test_an_async_release_ends_it_too(store):
    async def go() -> None:
        memory = store.open()
        await memory.aput_state("t", {"n": 1})
        await memory.arelease()
        await memory.arelease()
        with pytest.raises(clew.StorageError, match="was released"):
            await memory.aget_state("t")

    run(go())


# What the seed systems do


def test_a_saved_state_is_in_the_cache(checkpointer):
    checkpointer.put_state("t", {"n": 1})
    assert checkpointer.get_state_cache("t") == {"n": 1}
    checkpointer.put_state_cache("t", {"n": "volatile"})
    assert checkpointer.get_state_cache("t") == {"n": "volatile"}
    checkpointer.put_checkpoint("t", {"n": 2})
    assert checkpointer.get_state_cache("t") == {"n": 2}
    checkpointer.clear_state("t")
    assert checkpointer.get_state_cache("t") is None


def test_a_saved_state_in_the_cache_is_never_older_than_the_head(store):
    mine, other = store.open(), store.open()
    mine.put_state(ANA, {"n": 1})
    other.put_state(ANA, {"n": 2})
    assert mine.get_state_cache(ANA) is None
    assert mine.get_state_cache({"thread_id": "t", "user_id": "bob"}) is None
    other.delete_thread(ANA)
    other.get_state(ANA)
    other.put_state(ANA, {"n": 3})
    assert mine.get_state_cache(ANA) is None


def test_a_list_without_a_limit_is_whole(checkpointer):
    for number in range(60):
        checkpointer.put_messages(f"t{number}", [{"role": "user", "content": "x"}])
    assert len(checkpointer.list_threads({})) == len(checkpointer.get_threads({})) == 60
    assert len(checkpointer.list_threads({}, limit=50)) == 50


def test_a_session_id_is_another_name_of_a_thread_id():
    now = datetime.now(UTC)
    made = clew.CheckpointMetadata(checkpoint_id="c", session_id="s", timestamp=now)
    assert made == clew.CheckpointMetadata(checkpoint_id="c", thread_id="s", timestamp=now)
    assert made.session_id == "s"
    assert replace(made, thread_id="u").session_id == "u"
    assert clew.CheckpointInfo(checkpoint_id="c", session_id="s", timestamp=now, size=3).thread_id == "s"
    with pytest.raises(clew.ConfigError, match="another name"):
        clew.CheckpointMetadata(checkpoint_id="c", session_id="s", thread_id="t", timestamp=now)
    with pytest.raises(TypeError, match="thread_id"):
        clew.CheckpointMetadata(checkpoint_id="c", timestamp=now)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("scheme", ["postgresql", "redis"])
def test_an_unreachable_store_is_a_connection_error(scheme):
    memory = clew.connect(f"{scheme}://127.0.0.1:{free_port()}", retry_for=0)
    with pytest.raises(ConnectionError) as refused:
        memory.get_state("t")
    memory.release()
    assert isinstance(refused.value, clew.StoreUnreachableError)
    assert isinstance(refused.value, clew.TransientStorageError)


def test_a_pair_without_a_secondary_is_its_primary(caplog):
    with caplog.at_level(logging.WARNING), clew.DistributedCheckpointer("memory://") as alone:
        alone.put_state("t", {"n": 1})
        assert alone.get_state("t") == {"n": 1}
        status = alone.status()
        assert (status.enable_replication, status.secondary_healthy, status.active_backend) == (False, None, "primary")
        with pytest.raises(clew.ConfigError, match="give a secondary"):
            alone.resync()


def test_a_pair_that_does_not_replicate_leaves_the_secondary_alone():
    one, other = clew.InMemoryCheckpointer(), clew.InMemoryCheckpointer()
    with clew.DistributedCheckpointer(one, other, enable_replication=False) as pair:
        pair.put_state("t", {"n": 1})
        status = pair.status()
        assert (status.enable_replication, status.secondary_healthy) == (False, True)
        assert other.get_state("t") is None
        assert one.get_state("t") == {"n": 1}
    with clew.DistributedCheckpointer("memory://", "memory://") as pair:
        assert pair.status().enable_replication is True
    with pytest.raises(clew.ConfigError, match="replication_mode"):
        clew.DistributedCheckpointer("memory://", replication_mode="later")  # type: ignore[arg-type]


def test_replication_that_was_off_is_made_up_for_by_a_resync(tmp_path):
    one, other = f"sqlite:///{tmp_path}/one.db", f"sqlite:///{tmp_path}/other.db"
    with clew.DistributedCheckpointer(one, other) as pair:
        pair.put_state("t", {"n": 1})
    with clew.DistributedCheckpointer(one, other, enable_replication=False) as pair:
        pair.put_state("t", {"n": 2})
        pair.put_state("u", {"n": 3})
    with clew.DistributedCheckpointer(one, other) as pair:
        pair.resync()
    with clew.connect(other) as second:
        assert (second.get_state("t"), second.get_state("u")) == ({"n": 2}, {"n": 3})


def test_a_secondary_over_a_network_is_watched_and_closed_without_replication(remote):
    with clew.DistributedCheckpointer("memory://", remote.url, enable_replication=False) as pair:
        pair.put_state("t", {"n": 1})
        assert pair.status().secondary_healthy is True

    async def go() -> None:
        async with clew.DistributedCheckpointer("memory://", remote.url, enable_replication=False) as pair:
            await pair.aput_state("t", {"n": 1})
            assert (await pair.astatus()).secondary_healthy is True

    asyncio.run(go())

"""The public surface: names, types, and a sync twin for every async method."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import clew
from tests.checkpointer.support import run

ASYNC_METHODS = sorted(
    name
    for name in dir(clew.BaseCheckpointer)
    if name.startswith("a") and callable(getattr(clew.BaseCheckpointer, name)) and not name.startswith("__")
)
PUBLIC = [
    "ANY_USER",
    "AutoCleanup",
    "BackgroundStatus",
    "BaseCheckpointer",
    "BlockingCallError",
    "CacheStatus",
    "Change",
    "Checkpoint",
    "CheckpointInfo",
    "CheckpointMetadata",
    "Checkpointer",
    "CleanupReport",
    "CleanupStatus",
    "ClewError",
    "CompactReport",
    "Config",
    "ConfigError",
    "ConflictError",
    "Conversation",
    "CorruptRecordError",
    "Damage",
    "Diff",
    "DistributedCheckpointer",
    "Encryption",
    "EncryptionError",
    "Event",
    "InMemoryCheckpointer",
    "IndexStats",
    "Lease",
    "LeaseError",
    "Message",
    "MissingExtraError",
    "NOT_LOADED",
    "PermissionDeniedError",
    "PgCheckpointer",
    "Record",
    "RedisCheckpointer",
    "ResealReport",
    "ResyncReport",
    "RetentionPolicy",
    "SQLiteCheckpointer",
    "SchemaVersionError",
    "SearchHit",
    "StateTooLargeError",
    "Stats",
    "Status",
    "StorageError",
    "StoreUnreachableError",
    "Telemetry",
    "ThreadDeletedError",
    "ThreadInfo",
    "ThreadPart",
    "Totals",
    "TransientStorageError",
    "Turn",
    "UnsupportedTypeError",
    "VerifyReport",
    "connect",
    "register",
]
SECTION_4 = [
    "acleanup",
    "aclear_all",
    "aclear_state",
    "acompact",
    "acopy_thread",
    "adelete_checkpoint",
    "adelete_message",
    "adelete_runs",
    "adelete_thread",
    "adiff",
    "aerase_user",
    "aexists",
    "afork",
    "aget_checkpoint",
    "aget_history",
    "aget_message",
    "aget_messages",
    "aget_state",
    "aget_state_cache",
    "aget_thread",
    "aget_threads",
    "alease",
    "alist_attachments",
    "alist_checkpoints",
    "alist_messages",
    "alist_threads",
    "aping",
    "aput_attachments",
    "aput_checkpoint",
    "aput_messages",
    "aput_retention",
    "aput_state",
    "aput_state_cache",
    "aput_thread",
    "arelease",
    "arepair",
    "arewind",
    "areseal",
    "asearch",
    "asetup",
    "ashared_messages",
    "asize",
    "astats",
    "astatus",
    "aturn",
    "aupdate_state",
    "averify",
    "awarm",
    "awatch",
]


def test_the_public_names_are_these():
    assert sorted(clew.__all__) == PUBLIC
    assert all(hasattr(clew, name) for name in clew.__all__)


def test_every_error_is_a_clew_error_with_its_place_in_the_tree():
    errors = [value for name in clew.__all__ if name.endswith("Error") for value in [getattr(clew, name)]]
    assert all(issubclass(error, clew.ClewError) for error in errors)
    assert issubclass(clew.TransientStorageError, clew.StorageError)
    assert issubclass(clew.ThreadDeletedError, clew.ConflictError)
    assert issubclass(clew.LeaseError, clew.ConflictError)


def test_the_async_methods_are_those_of_the_contract():
    assert sorted(SECTION_4) == ASYNC_METHODS


@pytest.mark.parametrize("name", ASYNC_METHODS)
def test_every_async_method_has_a_twin_with_the_same_signature_and_a_docstring(name):
    checkpointer = clew.InMemoryCheckpointer()
    method, twin = getattr(checkpointer, name), getattr(checkpointer, name[1:])
    assert inspect.signature(twin).parameters == inspect.signature(method).parameters
    if name != "awatch":  # An iterator in the place of an async one.
        assert inspect.signature(twin) == inspect.signature(method)
    assert not inspect.iscoroutinefunction(twin)
    assert (method.__doc__ or "").strip()
    assert (twin.__doc__ or "").strip()
    assert twin.__name__ == name[1:]


# Construction


def test_connect_makes_the_checkpointer_that_the_url_names(tmp_path, monkeypatch):
    assert isinstance(clew.connect("memory://"), clew.InMemoryCheckpointer)
    absolute = clew.connect(f"sqlite:///{tmp_path}/a%20b.db?synchronous=normal&busy_timeout=2")
    absolute.put_state("t", {"a": 1})
    assert (tmp_path / "a b.db").exists()
    absolute.release()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLEW_URL", raising=False)
    with clew.connect() as default:
        default.put_state("t", 1)
    assert (tmp_path / "clew.db").exists()
    monkeypatch.setenv("CLEW_URL", "sqlite:///from_env.db")
    with clew.connect() as from_env:
        from_env.put_state("t", 1)
    assert (tmp_path / "from_env.db").exists()


@pytest.mark.parametrize(
    "url",
    [
        "clew.db",
        "mysql://x",
        "sqlite://clew.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///x.db?nope=1",
        "sqlite:///x.db?busy_timeout=soon",
        "sqlite:///x.db?max_state_bytes=-1",
        pytest.param(
            "sqlite:///x.db?synchronous=sometimes",
        ),
    ],
)
def test_a_url_that_can_t_be_used_says_why(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(clew.ConfigError):
        clew.connect(url)


def test_an_unknown_option_is_a_config_error():
    with pytest.raises(clew.ConfigError, match="colour"):
        clew.connect("memory://", colour="red")  # type: ignore[call-overload]
    with pytest.raises(clew.ConfigError, match="max_state_bytes"):
        clew.connect("memory://", max_state_bytes="big")  # type: ignore[call-overload]


# Lifecycle


def test_it_is_set_up_by_itself_and_may_be_set_up_and_released_again(store):
    checkpointer = store.open()
    checkpointer.put_state("t", 1)
    checkpointer.setup()
    checkpointer.setup()
    checkpointer.ping()
    checkpointer.release()
    checkpointer.release()


def test_it_is_an_async_and_a_sync_context_manager(store):
    with store.open() as first:
        first.put_state("t", {"a": 1})

    async def go():
        async with store.open() as second:
            await second.aping()
            return await second.aget_state("t")

    assert run(go()) == {"a": 1}


# The model as dicts


def full_thread(checkpointer):
    checkpointer.put_checkpoint(
        {"thread_id": "t", "run_id": "r"},
        {"a": (1, 2)},
        node_name="plan",
        step=3,
        metadata={"k": [1]},
        messages=[clew.Message(role="user", content=[{"type": "text", "text": "hi"}], tool_calls=({"id": 1},))],
    )
    checkpointer.put_thread("t", clew.ThreadInfo(thread_id="t", thread_name="n", tags=("x", "y"), metadata={"m": 1}))


def test_everything_that_is_read_round_trips_through_dicts_exactly(checkpointer):
    full_thread(checkpointer)
    read = [
        checkpointer.get_checkpoint("t"),
        checkpointer.get_checkpoint("t").metadata,
        checkpointer.list_checkpoints("t")[0],
        checkpointer.list_messages("t")[0],
        checkpointer.get_thread("t"),
        checkpointer.stats(),
        checkpointer.verify(),
        checkpointer.compact(),
        checkpointer.cleanup(clew.RetentionPolicy(max_history=1)),
        clew.VerifyReport(damage=(clew.Damage(thread_id="t", problem="p"),)),
        checkpointer.diff("t", "t"),
    ]
    for record in read:
        assert type(record).from_dict(record.to_dict()) == record, type(record)


@pytest.mark.parametrize("state", [(1, 2), b"raw", {"when": (1,)}, clew.Message(role="user", content="x")])
def test_a_checkpoint_keeps_its_state_as_it_is_in_a_dict(state):
    cls: Any = type(state) if isinstance(state, clew.Message) else None
    made: clew.Checkpoint[Any] = clew.InMemoryCheckpointer(state_type=cls).put_checkpoint("t", state)
    assert clew.Checkpoint.from_dict(made.to_dict()).state == state
    assert type(clew.Checkpoint.from_dict(made.to_dict()).state) is type(state)


def test_what_describes_a_thread_is_json(checkpointer):
    full_thread(checkpointer)
    for record in (checkpointer.get_thread("t"), checkpointer.stats(), checkpointer.list_messages("t")[0]):
        back = type(record).from_dict(json.loads(json.dumps(record.to_dict())))
        assert back == record


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(0)), timezone(timedelta(seconds=561))])
@pytest.mark.parametrize(
    "text", ["0001-01-01T12:00", "2026-01-31T12:00:05", "2026-01-31T12:00:05.000070", "9999-12-31"]
)
def test_times_are_written_as_isoformat_writes_them(text, zone):
    moment = datetime.fromisoformat(text).replace(tzinfo=zone)
    assert clew.Message(role="user", created_at=moment).to_dict()["created_at"] == moment.isoformat()


def test_a_checkpoint_answers_to_session_id_too(checkpointer):
    metadata = checkpointer.put_checkpoint("t", 1).metadata
    assert metadata.session_id == "t"
    renamed = {("session_id" if key == "thread_id" else key): value for key, value in metadata.to_dict().items()}
    assert clew.CheckpointMetadata.from_dict(renamed) == metadata
    assert checkpointer.get_state({"session_id": "t"}) == 1


@pytest.mark.parametrize(
    "data", [{"rle": "user"}, {"role": "user", 5: 1}, {"role": "user", "created_at": "yesterday"}, {}, None, []]
)
def test_a_dict_that_is_no_message_is_a_config_error(data):
    with pytest.raises(clew.ConfigError):
        clew.Message.from_dict(data)


def test_run_runs_a_coroutine_as_the_sync_twins_do(checkpointer):
    async def work() -> int:
        await checkpointer.aput_state("t", {"n": 1})
        return int((await checkpointer.aget_state("t"))["n"])

    assert checkpointer.run(work(), "work") == 1


def test_classes_can_be_registered_with_one_checkpointer(checkpointer):
    @dataclass
    class Plan:
        steps: list[str]

    checkpointer.registry.register(Plan)
    checkpointer.put_state("t", {"plan": Plan(["a"])})
    assert checkpointer.get_state("t") == {"plan": Plan(["a"])}
    with pytest.raises(clew.UnsupportedTypeError):
        clew.InMemoryCheckpointer().put_state("t", {"plan": Plan(["a"])})

"""Bad input is refused with a ClewError that says what to do, and nothing is written."""

# mypy: disable-error-code="arg-type"
from __future__ import annotations

import subprocess
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest

import clew
import clew.testing
from clew import Message, ThreadInfo
from tests.checkpointer.support import python, text

BAD_CONFIGS: list[Any] = [
    None,
    "",
    {},
    {"thread_id": None},
    {"thread_id": ""},
    {"thread_id": 5.0},
    {"thread_id": True},
    {"thread_id": 1 << 200},
    {"thread_id": ["t"]},
    {"thread_id": b"t"},
    {"thread_id": "\ud800"},
    {"user_id": "alice"},
    [],
    5.0,
    True,
    {"thread_id": "t", "user_id": ""},
    {"thread_id": "t", "user_id": True},
    {"thread_id": "t", "user_id": 1.5},
    {"thread_id": "t", "user_id": "\udfff"},
    {"thread_id": "t", "run_id": 5},
    {"thread_id": "t", "run_id": ""},
    {"thread_id": "t", "checkpoint_id": 5},
    {"thread_id": "t", "checkpoint_id": ""},
    {"thread_id": "t", "checkpoint_id": "\ud800"},
    {"thread_id": "t", "checkpoint_ns": 5},
]
CALLS: dict[str, Any] = {
    "put_state": lambda c, config: c.put_state(config, {}),
    "get_state": lambda c, config: c.get_state(config),
    "clear_state": lambda c, config: c.clear_state(config),
    "update_state": lambda c, config: c.update_state(config, set={"a": 1}),
    "put_checkpoint": lambda c, config: c.put_checkpoint(config, {}),
    "get_checkpoint": lambda c, config: c.get_checkpoint(config),
    "list_checkpoints": lambda c, config: c.list_checkpoints(config),
    "get_history": lambda c, config: c.get_history(config),
    "delete_checkpoint": lambda c, config: c.delete_checkpoint(config),
    "exists": lambda c, config: c.exists(config),
    "fork": lambda c, config: c.fork(config),
    "diff": lambda c, config: c.diff(config, config),
    "put_state_cache": lambda c, config: c.put_state_cache(config, {}),
    "get_state_cache": lambda c, config: c.get_state_cache(config),
    "put_messages": lambda c, config: c.put_messages(config, [Message(role="user")]),
    "get_message": lambda c, config: c.get_message(config, "m"),
    "list_messages": lambda c, config: c.list_messages(config),
    "delete_message": lambda c, config: c.delete_message(config, "m"),
    "put_thread": lambda c, config: c.put_thread(config, {"thread_name": "n"}),
    "get_thread": lambda c, config: c.get_thread(config),
    "delete_thread": lambda c, config: c.delete_thread(config),
    "lease": lambda c, config: c.lease(config),
    "repair": lambda c, config: c.repair(config),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_config_that_names_no_thread_or_holds_a_wrong_type_is_refused(name):
    checkpointer = clew.InMemoryCheckpointer()
    for config in BAD_CONFIGS:
        with pytest.raises(clew.ConfigError):
            CALLS[name](checkpointer, config)
    assert checkpointer.stats().total_sessions == 0


def test_the_error_says_what_the_config_had_instead(checkpointer):
    with pytest.raises(clew.ConfigError, match=r"'thread_id'.*'thread', 'user_id'"):
        checkpointer.get_state({"thread": "t", "user_id": "u"})
    with pytest.raises(clew.ConfigError, match=r"config\['thread_id'\] must be text or a whole number, not float: 5.0"):
        checkpointer.get_state({"thread_id": 5.0})
    for name in ("thread_id", "session_id"):
        with pytest.raises(clew.ConfigError, match=rf"config\['{name}'\] is None"):
            checkpointer.put_state({name: None}, {})
    with pytest.raises(ValueError, match="empty"):
        checkpointer.get_state("")


def test_two_names_of_a_thread_must_agree(checkpointer):
    with pytest.raises(clew.ConfigError, match=r"'session_id'.*give one"):
        checkpointer.put_state({"thread_id": "a", "session_id": "b"}, {})
    assert checkpointer.size() == 0
    checkpointer.put_state({"thread_id": 5, "session_id": "5"}, {"n": 1})
    assert checkpointer.get_state({"thread_id": None, "session_id": 5}) == {"n": 1}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda memory: memory.search("x", user_id=""), "^user_id is empty"),
        (lambda memory: memory.search("x", user_id=1.5), "^user_id must be text or a whole number"),
        (lambda memory: memory.erase_user(""), "^user_id is empty"),
        (lambda memory: memory.get_state(""), "^thread_id is empty"),
        (lambda memory: memory.get_state({"thread_id": ""}), r"^config\['thread_id'\] is empty"),
        (lambda memory: memory.get_state({"thread_id": "t", "user_id": ""}), r"^config\['user_id'\] is empty"),
        (lambda memory: memory.get_state("\0x"), "^thread_id begins with a NUL"),
    ],
)
def test_an_error_names_the_config_only_if_there_is_one(call, said):
    with clew.connect("memory://") as memory, pytest.raises(clew.ConfigError, match=said):
        call(memory)


FAR = datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))
"""After the last datetime in UTC."""


class NoOffset(tzinfo):
    """A time zone without an offset from UTC."""

    def utcoffset(self, when: datetime | None) -> None:
        return None

    dst = tzname = utcoffset


BAD_CALLS: list[Any] = [
    lambda c: c.list_checkpoints("t", limit=-1),
    lambda c: c.list_checkpoints("t", limit="5"),
    lambda c: c.list_checkpoints("t", limit=True),
    lambda c: c.list_checkpoints("t", limit=2**70),
    lambda c: c.list_checkpoints("t", before=5),
    lambda c: c.list_checkpoints("t", before="\ud800"),
    lambda c: c.list_checkpoints("t", run_id="\ud800"),
    lambda c: c.get_history("t", limit=-1),
    lambda c: c.delete_checkpoint("t"),
    lambda c: c.put_checkpoint("t", {}, node_name=5),
    lambda c: c.put_checkpoint("t", {}, node_name="\ud800"),
    lambda c: c.put_checkpoint("t", {}, step="1"),
    lambda c: c.put_checkpoint("t", {}, step=1.0),
    lambda c: c.put_checkpoint("t", {}, step=True),
    lambda c: c.put_checkpoint("t", {}, step=2**63),
    lambda c: c.put_checkpoint("t", {}, metadata=[1]),
    lambda c: c.put_checkpoint("t", {}, metadata="x"),
    lambda c: c.put_checkpoint("t", {}, messages=Message(role="user")),
    lambda c: c.put_checkpoint("t", {}, messages=[5]),
    lambda c: c.put_checkpoint("t", {}, messages=5),
    lambda c: c.put_checkpoint("t", {}, remove_messages="m1"),
    lambda c: c.put_checkpoint("t", {}, remove_messages=5),
    lambda c: c.put_checkpoint("t", {}, remove_messages=[""]),
    lambda c: c.update_state("t", messages={"role": "user"}),
    lambda c: c.put_state({"thread_id": "t", "userid": "ana"}, {}),
    lambda c: c.put_state({"thread_id": "t", 5: "ana"}, {}),
    lambda c: c.repair("t", rebuild=5),
    lambda c: c.lease("t", wait=10**5000),
    lambda c: c.turn("t", wait=10**5000),
    lambda c: c.put_messages("t", None),
    lambda c: c.put_messages("t", "hello"),
    lambda c: c.put_messages("t", {"role": "user"}),
    lambda c: c.put_messages("t", [{"rolle": "user"}]),
    lambda c: c.put_messages("t", [{"content": "x"}]),
    lambda c: c.put_messages("t", [{"role": "user", 5: 1}]),
    lambda c: c.put_messages("t", [Message(role="user")], metadata=[1]),
    lambda c: c.put_messages("t", [Message(role="user", message_id="")]),
    lambda c: c.put_messages("t", [Message(role="user", message_id="\ud800")]),
    lambda c: c.put_messages("t", [Message(role="user", message_id=5)]),
    lambda c: c.put_messages("t", [Message(role=5)]),
    lambda c: c.put_messages("t", [Message(role="user", content=None)]),
    lambda c: c.put_messages("t", [Message(role="user", content=5)]),
    lambda c: c.put_messages("t", [Message(role="user", tool_calls=None)]),
    lambda c: c.put_messages("t", [Message(role="user", metadata=None)]),
    lambda c: c.put_messages("t", [Message(role="user", run_id=5)]),
    lambda c: c.put_messages("t", [Message(role="user", created_at="2026-01-01")]),
    lambda c: c.put_messages("t", [Message(role="user", created_at=datetime(2026, 1, 1))]),  # noqa: DTZ001
    lambda c: c.put_messages("t", [{"role": "user", "created_at": "yesterday"}]),
    lambda c: c.put_messages("t", [{"role": "user", "created_at": None}]),
    lambda c: c.list_messages("t", search=5),
    lambda c: c.list_messages("t", offset=-1),
    lambda c: c.list_messages("t", offset=2**70),
    lambda c: c.list_messages("t", limit=-1),
    lambda c: c.get_message("t", 5),
    lambda c: c.get_message("t", "\ud800"),
    lambda c: c.delete_message("t", None),
    lambda c: c.put_thread("t", 5),
    lambda c: c.put_thread("t", name="x"),
    lambda c: c.put_thread("t", tags="abc"),
    lambda c: c.put_thread("t", metadata=[1]),
    lambda c: c.put_thread("t", ttl=0),
    lambda c: c.put_thread("t", ttl="60"),
    lambda c: c.put_thread("t", ttl=float("nan")),
    lambda c: c.put_thread("t", retention={"max_history": 1}),
    lambda c: c.put_thread("t", {"name": "x"}),
    lambda c: c.put_thread("t", ThreadInfo(thread_id="t", thread_name=5)),
    lambda c: c.put_thread("t", ThreadInfo(thread_id="t", tags="abc")),
    lambda c: c.put_thread("t", ThreadInfo(thread_id="t", tags=(1,))),
    lambda c: c.put_thread("t", ThreadInfo(thread_id="t", metadata=[1])),
    lambda c: c.put_thread("t", ThreadInfo(thread_id="t", run_id="\ud800")),
    lambda c: c.put_thread("t", ThreadInfo(thread_id="t", user_id=1.5)),
    lambda c: c.list_threads("t"),
    lambda c: c.list_threads(None),
    lambda c: c.list_threads({}, search=5),
    lambda c: c.list_threads({"user_id": 1.5}),
    lambda c: c.update_state("t", set=[("a", 1)]),
    lambda c: c.update_state("t", set={5: 1}),
    lambda c: c.update_state("t", append={"m": "abc"}),
    lambda c: c.update_state("t", append={"m": {"role": "user"}}),
    lambda c: c.update_state("t", append={"m": 5}),
    lambda c: c.update_state("t", remove=[5]),
    lambda c: c.verify(progress=5),
    lambda c: c.compact(progress=5),
    lambda c: c.clear_all(progress=5),
    lambda c: c.update_state("t", remove=[bytearray(b"city")]),
    lambda c: c.update_state("t", set={"n": 1}, remove=[["n"]]),
    lambda c: c.fork("t", 5.0),
    lambda c: c.fork("t", "\ud800"),
    lambda c: c.lease("t", ttl=0),
    lambda c: c.lease("t", ttl="soon"),
    lambda c: c.lease("t", wait=-1),
    lambda c: c.lease("t", wait=float("nan")),
    lambda c: c.lease("t", ttl=float("inf")),
    lambda c: c.lease("t", ttl=float("nan")),
    lambda c: c.lease("t", ttl=1e12),
    lambda c: c.put_messages("t", [Message(role="user", created_at=FAR)]),
    lambda c: c.put_checkpoint("t", {}, messages=[Message(role="user", created_at=FAR)]),
    lambda c: c.put_messages("t", [{"role": "user", "content": "x", "created_at": "9999-12-31T23:59:59-05:00"}]),
    lambda c: c.put_messages("t", [{"role": "user", "content": "x", "created_at": "0001-01-01T00:00:00+05:00"}]),
    lambda c: c.put_messages("t", [Message(role="user", created_at=datetime(2026, 1, 1, tzinfo=NoOffset()))]),
    lambda c: c.lease("t", holder="\ud800").__enter__(),
    lambda c: c.erase_user(None),
    lambda c: c.erase_user(clew.ANY_USER),
    lambda c: c.erase_user(""),
    lambda c: c.stats(1.5),
    lambda c: c.warm("alice", limit=-1),
    lambda c: clew.RetentionPolicy(),
    lambda c: clew.RetentionPolicy(max_history=0),
    lambda c: clew.RetentionPolicy(max_history="2"),
    lambda c: clew.RetentionPolicy(max_age=5),
    lambda c: clew.RetentionPolicy(max_age=timedelta(days=-1)),
    lambda c: clew.RetentionPolicy(max_history=5, keep_every=0),
    lambda c: clew.RetentionPolicy.from_dict({"max_age": float("inf")}),
    lambda c: clew.AutoCleanup(c, clew.RetentionPolicy(max_history=1), interval=float("inf")),
    lambda c: clew.connect("memory://", state_type="x"),  # type: ignore[call-overload]
    lambda c: clew.connect("memory://", state_type=5),  # type: ignore[call-overload]
    lambda c: clew.connect(5),  # type: ignore[call-overload]
    lambda c: c.repair("absent"),
]


def test_an_argument_that_can_t_be_used_is_refused_before_anything_is_written(checkpointer):
    checkpointer.put_state("before", {"n": 1})
    for number, call in enumerate(BAD_CALLS):
        with pytest.raises(clew.ConfigError):  # noqa: PT012
            call(checkpointer)
            pytest.fail(f"BAD_CALLS[{number}] went through")
        assert checkpointer.get_thread("t") is None, number
        assert checkpointer.get_state("before") == {"n": 1}, number
        assert checkpointer.stats().total_checkpoints == 1, number


# Text that is not Unicode


def test_a_lone_surrogate_is_named_by_its_path_with_a_way_to_clean_it(checkpointer):
    writes: list[tuple[Callable[[Any], object], str]] = [
        (lambda c: c.put_state("t", {"a": ["ok", "x\ud800y"]}), "state.a[1]"),
        (lambda c: c.put_state("t", {"a": {"\ud800": 1}}), "state.a"),
        (lambda c: c.put_state("t", {"\ud800": 1}), "state"),
        (lambda c: c.put_state("t", {1: {"b": ("\udc80",)}}), "state[1].b[0]"),
        (lambda c: c.put_state("t", {"s": {"\udc80"}}), "state.s[0]"),
        (lambda c: c.put_state("t", "\ud800"), "state"),
        (lambda c: c.put_state("t", {"long": [text(n) for n in range(50)] + ["\ud800"]}), "state.long[50]"),
        (lambda c: c.put_checkpoint("t", {}, metadata={"m": "\ud800"}), "metadata.m"),
        (lambda c: c.update_state("t", set={"a": ["\ud800"]}), "set['a'][0]"),
        (lambda c: c.update_state("t", append={"a": [1, "\ud800"]}), "append['a'][1]"),
        (lambda c: c.put_state_cache("t", {"a": "\ud800"}), "state.a"),
        (lambda c: c.put_messages("t", [Message(role="user", content="\ud800")]), "messages[0].content"),
        (lambda c: c.put_messages("t", [Message(role="u"), Message(role="\ud800")]), "messages[1].role"),
        (lambda c: c.put_thread("t", {"thread_name": "\ud800"}), "thread.thread_name"),
        (lambda c: c.put_thread("t", {"tags": ["\ud800"]}), "thread.tags[0]"),
    ]
    for write, path in writes:
        with pytest.raises(clew.UnsupportedTypeError, match=r"surrogate.*replace") as caught:
            write(checkpointer)
        assert caught.value.path == path
        assert checkpointer.get_thread("t") is None
        assert checkpointer.get_state_cache("t") is None


def test_looking_for_a_lone_surrogate_finds_nothing(checkpointer):
    checkpointer.put_messages("t", [Message(role="user", content="text")])
    assert checkpointer.list_messages("t", search="\ud800") == []
    assert checkpointer.list_threads({}, search="\ud800") == []


# Shapes that can't be saved


def circular_list():
    one: list[object] = []
    one.append(one)
    return {"a": one}


def circular_dict():
    one: dict[str, object] = {"b": [1]}
    one["b"] = [one]
    return one


def circular_keys():
    one: dict[object, object] = {1: 2}
    one[3] = {"x": one}
    return {"k": one}


def circular_tuple():
    inner: list[object] = []
    inner.append((inner,))
    return {"t": inner}


@pytest.mark.parametrize("make", [circular_list, circular_dict, circular_keys, circular_tuple])
def test_a_circular_state_is_refused_with_its_path(checkpointer, make):
    with pytest.raises(clew.UnsupportedTypeError, match=r"circular|deeper") as caught:
        checkpointer.put_state("t", make())
    assert caught.value.path.startswith("state")
    assert not checkpointer.exists("t")


def test_the_same_object_twice_is_not_circular(checkpointer):
    shared = [1, {"a": 2}]
    checkpointer.put_state("t", {"one": shared, "two": [shared, shared], 5: shared})
    assert checkpointer.get_state("t")["two"] == [shared, shared]


def nested(depth, wrap):
    value: object = 1
    for _ in range(depth):
        value = wrap(value)
    return value


WRAPS = {
    "list": lambda value: [value],
    "dict": lambda value: {"a": value},
    "keys": lambda value: {1: value},
    "tuple": lambda value: (value,),
    "ordered": lambda value: OrderedDict(a=value),
    "deque": lambda value: deque([value]),
    "mixed": lambda value: {"a": [(value, {2: 3})]},
}


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_state_may_nest_a_hundred_levels(checkpointer, wrap):
    state = {"deep": nested(30 if wrap == "mixed" else 100, WRAPS[wrap])}
    checkpointer.put_state("t", state)
    assert checkpointer.get_state("t") == state


@pytest.mark.parametrize(
    ("wrap", "depth"),
    [
        pytest.param(
            wrap,
            depth,
        )
        for wrap in WRAPS
        for depth in (260, 400, 5000)
    ],
)
def test_a_state_that_nests_too_deep_is_refused_and_whatever_is_taken_loads(wrap, depth):
    checkpointer = clew.InMemoryCheckpointer()
    state = {"deep": nested(depth, WRAPS[wrap])}
    refused = None
    try:
        checkpointer.put_state("t", state)
    except clew.UnsupportedTypeError as error:
        refused = str(error)
    assert refused is None or "levels" in refused
    assert (checkpointer.get_state("t") is None) == (refused is not None)


def test_nested_frozensets_are_saved_in_reasonable_time():
    script = """
import clew
value = frozenset({1})
for _ in range(40):
    value = frozenset({value})
checkpointer = clew.InMemoryCheckpointer()
checkpointer.put_state("t", {"s": value})
assert checkpointer.get_state("t") == {"s": value}
"""
    try:
        python(script, timeout=60)
    except subprocess.TimeoutExpired:
        pytest.fail("40 levels of frozensets took more than a minute")


def test_a_state_over_the_limit_is_refused_and_one_at_the_limit_is_not(store):
    checkpointer = store.open(max_state_bytes=10_000)
    checkpointer.put_state("t", {"m": "x" * 9_900})
    with pytest.raises(clew.StateTooLargeError, match="max_state_bytes=10,000") as caught:
        checkpointer.put_checkpoint("t", {"m": "x" * 10_100}, messages=[Message(role="user")])
    assert caught.value.limit == 10_000
    assert caught.value.size > 10_000
    with pytest.raises(clew.StateTooLargeError):
        checkpointer.put_state("t", ["x" * 100] * 200)
    with pytest.raises(clew.StateTooLargeError):
        checkpointer.update_state("t", append={"list": ["y" * 5_000]})
    assert checkpointer.get_state("t") == {"m": "x" * 9_900}
    assert len(checkpointer.list_checkpoints("t")) == 1
    assert checkpointer.list_messages("t") == []


def test_a_hostile_state_of_equal_parts_takes_no_longer_than_its_size():
    checkpointer = clew.InMemoryCheckpointer()
    state = {"m": [{"a": "same"}] * 50_000}
    began = time.process_time()
    for _ in range(3):
        state["m"].append({"a": "same"})
        checkpointer.put_state("t", state)
    assert checkpointer.get_state("t") == state
    assert time.process_time() - began < 20


HUGE = 10**5000
"""An integer that Python refuses to convert to text."""
HUGE_CALLS: dict[str, Any] = {
    "thread_id": lambda c: c.get_state({"thread_id": HUGE}),
    "user_id": lambda c: c.get_state({"thread_id": "t", "user_id": HUGE}),
    "checkpoint_id": lambda c: c.get_state({"thread_id": "t", "checkpoint_id": HUGE}),
    "checkpoint_ns": lambda c: c.get_state({"thread_id": "t", "checkpoint_ns": HUGE}),
    "run_id": lambda c: c.put_state({"thread_id": "t", "run_id": HUGE}, {}),
    "step": lambda c: c.put_checkpoint("t", {}, step=HUGE),
    "node_name": lambda c: c.put_checkpoint("t", {}, node_name=HUGE),
    "on_conflict": lambda c: c.put_checkpoint("t", {}, on_conflict=HUGE),
    "new_id": lambda c: c.put_checkpoint("t", {}, new_id=HUGE),
    "remove_messages": lambda c: c.put_checkpoint("t", {}, remove_messages=[HUGE]),
    "limit": lambda c: c.list_checkpoints("t", limit=HUGE),
    "before": lambda c: c.list_checkpoints("t", before=HUGE),
    "history": lambda c: c.get_history("t", limit=HUGE),
    "offset": lambda c: c.list_messages("t", offset=HUGE),
    "message": lambda c: c.get_message("t", HUGE),
    "fork": lambda c: c.fork("t", HUGE),
    "copy": lambda c: c.copy_thread("t", HUGE),
    "runs": lambda c: c.delete_runs([HUGE]),
    "tags": lambda c: c.put_thread("t", {"tags": [HUGE]}),
    "warm": lambda c: c.warm("u", limit=HUGE),
    "erase": lambda c: c.erase_user(HUGE),
    "stats": lambda c: c.stats(user_id=HUGE),
    "lease": lambda c: c.lease("t", ttl=HUGE),
    "max_age": lambda c: clew.RetentionPolicy(max_age=HUGE),
    "retry_for": lambda c: clew.connect("memory://", retry_for=-HUGE),
    "timeout": lambda c: clew.connect("memory://", secondary="memory://", timeout=-HUGE),
}


def test_an_integer_of_thousands_of_digits_is_refused_like_any_other_value(checkpointer):
    for name, call in HUGE_CALLS.items():
        with pytest.raises(clew.ClewError):  # noqa: PT012
            call(checkpointer)
            pytest.fail(f"{name} went through")


def test_arguments_of_the_wrong_kind_are_refused_with_their_names(checkpointer):
    checkpointer.put_state("t", {"a": 1})
    wrong: dict[str, Any] = {
        "known": lambda: checkpointer.get_checkpoint("t", known="x"),
        "remove": lambda: checkpointer.update_state("t", remove=None),
        "run_ids": lambda: checkpointer.delete_runs(5),
        "rebuild": lambda: checkpointer.repair("t", rebuild=5),
        "keep": lambda: checkpointer.put_attachments({"thread_id": "t", "checkpoint_id": "c"}, {"a": 1}, keep=[HUGE]),
        "touch": lambda: checkpointer.put_attachments({"thread_id": "t", "checkpoint_id": "c"}, {"a": 1}, touch=5),
    }
    for name, call in wrong.items():
        with pytest.raises(clew.ConfigError, match=name):
            call()


def test_a_lease_on_the_last_day_of_the_calendar_is_refused():
    clock = clew.testing.FakeClock(datetime(9999, 12, 31, tzinfo=timezone(timedelta())))
    with clew.connect("memory://", clock=clock) as memory, pytest.raises(clew.ConfigError, match="9999"):
        memory.lease("t").__enter__()


@pytest.mark.parametrize("url", ["sqlite:///a%00b.db", "redis://[/x", "postgresql://[/x", "memory://[", "sqlite://[/x"])
def test_a_url_that_cannot_be_read_is_refused_at_once(url):
    with pytest.raises(clew.ConfigError):
        clew.connect(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://u:hunter#2@h",
        "redis://u:hunter/2@h",
        "rediss://u:hunter?2@h",
        "redis://u:hunter2@h:port",
        "redis+cluster://u:hunter#2@h",
        "redis+sentinel://u:hunter#2@h/x",
        "unix://u:hunter#2@/x",
        "postgresql://u:hunter#2@h/db",
        "postgresql://u:hunter/2@h/db",
        "sqlite://u:hunter2@h/x",
        "host=db password=hunter2",
    ],
)
def test_no_password_is_in_the_error_of_a_bad_url(url):
    with pytest.raises(clew.ConfigError) as error, clew.connect(url, retry_for=0) as memory:
        memory.get_state("t")
    # A traceback prints the causes, too.
    printed: BaseException | None = error.value
    while printed is not None:
        assert "hunter" not in str(printed)
        printed = printed.__cause__ or (None if printed.__suppress_context__ else printed.__context__)

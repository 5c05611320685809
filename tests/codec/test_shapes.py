"""Every kind of change is cheap, and every saved state loads."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.codec.cuts import LARGE
from clew.codec.registry import Registry
from tests.codec.thread_log import ThreadLog, message
from tests.rings import rounds

MESSAGE = 700
"""Maximum cost of storing a message of 500 bytes, in bytes."""


def test_a_growing_list_costs_what_is_appended_at_any_length() -> None:
    log = ThreadLog()
    for count in range(1, 400):
        log.save({"messages": [message(n) for n in range(count)], "step": count})
    assert max(log.written) <= MESSAGE
    assert len(log.saved[-1][0].body) < 60
    log.check_all()


def test_a_list_three_levels_down_costs_as_little_as_one_at_the_top() -> None:
    log = ThreadLog()
    for count in range(1, 200):
        log.save({"a": {"b": {"messages": [message(n) for n in range(count)]}}})
    assert max(log.written) <= MESSAGE
    log.check_all()


def test_a_list_inside_an_element_of_a_list_costs_at_most_a_middling_value() -> None:
    log = ThreadLog()
    for count in range(1, 150):
        log.save(
            {"runs": [{"log": [message(n) for n in range(40)]}, {"log": [message(100 + n) for n in range(count)]}]}
        )
    assert max(log.written[1:]) <= LARGE
    assert max(log.written[20:]) <= 2 * MESSAGE
    log.check_all()


def test_a_sliding_window_writes_only_what_comes_in() -> None:
    log = ThreadLog()
    for end in range(1, 300):
        log.save({"messages": [message(n) for n in range(max(0, end - 50), end)]})
    assert max(log.written) <= MESSAGE
    assert log.saved[-1][0].covers == ((249, 299),)
    log.check_all()


def test_an_edit_in_the_middle_writes_the_edited_element() -> None:
    log = ThreadLog()
    messages = [message(n) for n in range(200)]
    log.save({"messages": messages})
    for at in range(0, 200, 5):
        messages[at] = message(10_000 + at)
        log.save({"messages": messages})
    assert max(log.written[1:]) <= 2 * MESSAGE
    log.check_all()


def test_a_deletion_in_the_middle_writes_no_value() -> None:
    log = ThreadLog()
    messages = [message(n) for n in range(200)]
    log.save({"messages": messages})
    for at in range(50):
        del messages[at * 2]
        log.save({"messages": messages})
    assert all(encoded.row is None for encoded, _ in log.saved[1:])
    log.check_all()


def test_a_summary_that_replaces_a_prefix_writes_the_summary() -> None:
    log = ThreadLog()
    messages = [message(n) for n in range(200)]
    log.save({"messages": messages})
    for turn in range(10):
        messages = [message(5_000 + turn), *messages[12:]]
        log.save({"messages": messages})
    assert max(log.written[1:]) <= MESSAGE
    log.check_all()


def test_one_changed_file_of_many_writes_that_file_and_not_the_directory() -> None:
    log = ThreadLog()
    files = {f"src/module_{n}.py": message(n, 4000)["content"] for n in range(1000)}
    log.save({"files": files})
    for n in range(0, 1000, 97):
        files[f"src/module_{n}.py"] = message(20_000 + n, 4000)["content"]
        log.save({"files": files})
    assert max(log.written[1:]) <= 2.5 * 4000
    log.check_all()


def test_two_lists_that_share_elements_store_them_once() -> None:
    log = ThreadLog()
    messages = [message(n) for n in range(100)]
    log.save({"messages": messages})
    log.save({"messages": messages, "recent": messages[40:60]})
    assert log.saved[-1][0].row is None
    log.check_all()


def test_several_lists_that_grow_in_turn_keep_the_body_small() -> None:
    log = ThreadLog()
    for count in range(1, rounds(250, 500)):
        log.save(
            {
                "a": [message(n) for n in range(count)],
                "b": [message(9_000 + n) for n in range(count)],
                "c": [*range(count)],
            }
        )
    assert max(len(encoded.body) for encoded, _ in log.saved) < 2500
    assert sum(log.written[-100:]) / 100 <= 4 * MESSAGE
    log.check_all()


def test_an_insertion_into_a_long_text_moves_one_cut() -> None:
    log = ThreadLog()
    text = " ".join(message(n)["content"] for n in range(400))
    log.save({"document": text})
    place = random.Random(7)
    for _ in range(20):
        at = place.randrange(len(text))
        text = text[:at] + "INSERTED" + text[at:]
        log.save({"document": text})
    assert sum(log.written[1:]) / 20 <= 8000
    log.check_all()


def test_large_elements_are_cut_and_still_found_again() -> None:
    log = ThreadLog()
    outputs = [message(n, 9000) for n in range(60)]
    for count in range(1, 60):
        log.save({"messages": outputs[:count]})
    assert max(log.written) <= 11_000
    log.save({"messages": [*outputs[:20], message(999), *outputs[20:59]]})
    assert log.written[-1] <= 3 * MESSAGE
    log.reload()
    log.save({"messages": outputs})
    assert log.written[-1] <= 12_000
    log.check_all()


def test_a_cold_writer_finds_everything_by_its_digests() -> None:
    log = ThreadLog()
    for count in range(1, 100):
        log.become_cold()
        log.save({"messages": [message(n) for n in range(count)]})
    assert max(log.written) <= MESSAGE
    log.check_all()


def test_a_writer_that_loaded_first_goes_on_where_the_last_one_stopped() -> None:
    log = ThreadLog()
    log.save({"messages": [message(n, 60) for n in range(300)]})
    for count in range(301, 340):
        assert log.reload() == {"messages": [message(n, 60) for n in range(count - 1)]}
        log.save({"messages": [message(n, 60) for n in range(count)]})
    assert max(log.written[1:]) <= 250
    log.check_all()


def test_a_state_of_many_keys_rewrites_a_few_of_them() -> None:
    log = ThreadLog()
    state = {f"key {n}": f"value {n}" * 3 for n in range(2000)}
    log.save(state)
    for n in range(0, 2000, 111):
        state[f"key {n}"] = f"changed {n}"
        log.save(state)
    assert max(log.written[1:]) <= 4000
    log.check_all()


def test_an_edit_costs_the_same_whatever_the_size() -> None:
    costs = {}
    for size in (10, 10_000):
        log = ThreadLog()
        state: dict[str, Any] = {"messages": [message(n, 300) for n in range(size)], "step": 0}
        log.save(state)
        for turn in range(30):
            added = message(50_000 + turn, 300)
            state = {"messages": [*state["messages"], added], "step": turn}
            encoded = log.edit(state, set={"step": turn}, append={"messages": [added]})
            assert encoded.size == len(log.codec._packer.pack(state))
        assert log.load() == state
        costs[size] = max(log.written[1:])
    assert costs[10_000] <= costs[10] + 20


def test_edits_of_a_state_with_many_keys_and_fragmented_lists_are_right() -> None:
    log = ThreadLog()
    state: dict[str, Any] = {f"key {n}": n for n in range(500)} | {"a": [], "b": []}
    log.save(state)
    for turn in range(rounds(150, 300)):
        state = {**state, "a": [*state["a"], message(turn)], "b": [*state["b"], message(1000 + turn)]}
        state.pop(f"key {turn}")
        log.edit(state, append={"a": [message(turn)], "b": [message(1000 + turn)]}, remove=[f"key {turn}", "absent"])
    assert sum(log.written[-50:]) / 50 <= 4 * MESSAGE
    log.check_all()
    log.reload()
    log.save({**state, "a": [*state["a"], message(7777)]})
    log.check_all()


@dataclass
class Plan:
    steps: list[Any] = field(default_factory=list)
    owner: str = ""


def test_the_fields_of_a_registered_class_grow_as_cheaply_as_those_of_a_dict() -> None:
    registry = Registry()
    registry.register(Plan)
    log = ThreadLog(registry)
    for count in range(1, 120):
        log.save(Plan(steps=[message(n) for n in range(count)], owner="me"))
    assert max(log.written) <= MESSAGE
    log.edit(
        Plan(steps=[message(n) for n in range(120)], owner="you"),
        set={"owner": "you"},
        append={"steps": [message(119)]},
    )
    log.check_all()


@pytest.mark.parametrize("kind", [tuple, set, frozenset, deque])
def test_other_containers_come_back_as_what_they_are_when_they_are_cut(kind: Any) -> None:
    log = ThreadLog()
    for count in (10, 500, 2000):
        log.save({"things": kind([f"thing {n:08d}" for n in range(count)])})
    log.check_all()
    assert type(log.load()["things"]) is kind


KINDS = {
    "text": "x" * 300,
    "long text": "x" * 10_000,
    "bytes": b"x" * 300,
    "int": 1 << 4_000,
    "list": list(range(300)),
    "long list": list(range(3_000)),
    "list of the text": ["x" * 300],
    "list with more": ["x" * 300, "y" * 400],
    "tuple": tuple(range(300)),
    "long tuple": tuple(range(3_000)),
    "set": set(range(300)),
    "dict": {f"k{number}": number for number in range(60)},
    "dict of the text": {"k": "x" * 300},
    "long dict": {f"k{number}": "x" * 60 for number in range(100)},
    "list of the dict": [{f"k{number}": "x" * 60 for number in range(100)}],
    "numbered dict": {number: number for number in range(100)},
    "chunked list": [message(number) for number in range(400)],
    "nothing": None,
}


@pytest.mark.parametrize("first", KINDS)
def test_a_field_may_become_something_of_any_other_kind(first: str) -> None:
    for second in KINDS:
        log = ThreadLog()
        for kind in (first, second, first, second):
            log.save({"field": KINDS[kind], "nested": {"field": KINDS[kind], "large": "z" * 5_000}})
        log.check_all()


def test_a_dict_with_keys_that_are_not_text_is_cut_too() -> None:
    log = ThreadLog()
    for count in range(1, 60):
        log.save({"by_number": {n: message(n) for n in range(count)}})
    assert max(log.written) <= LARGE
    assert max(log.written[20:]) <= 2 * MESSAGE
    log.check_all()


items = st.one_of(
    st.integers(),
    st.text(max_size=400),
    st.builds(lambda n, size: message(n, size), st.integers(0, 50), st.sampled_from([20, 200, 300, 900, 6000])),
    st.lists(st.integers(0, 5), max_size=4).map(tuple),
)
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "insert", "delete", "replace", "drop front", "drop back", "clear", "copy", "reload", "cold"]
        ),
        st.integers(0, 60),
        st.lists(items, max_size=6),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=150)
@given(steps)
def test_any_sequence_of_changes_to_a_list_loads_back_at_every_point(changes: list[tuple[str, int, list[Any]]]) -> None:
    log = ThreadLog()
    current: list[Any] = []
    for what, at, new in changes:
        current = list(current)
        at = min(at, len(current))
        match what:
            case "append":
                current += new
            case "insert":
                current[at:at] = new
            case "delete":
                del current[at : at + 3]
            case "replace":
                current[at : at + len(new)] = new
            case "drop front":
                del current[:at]
            case "drop back":
                del current[at:]
            case "clear":
                current = []
            case "copy":
                current = current * 2 if len(current) < 100 else current
            case "reload" if log.saved:
                assert log.reload() == log.saved[-1][1]
            case "cold":
                log.become_cold()
        log.save({"list": current, "nested": {"again": current[:7]}})
    log.check_all()


sizes = st.sampled_from([0, 10, 255, 300, 5_000, 20_000])
leaves = st.one_of(
    st.none(),
    st.integers(-(1 << 70), 1 << 70),
    st.builds(lambda letter, size: letter * size, st.sampled_from("xyé"), sizes),
    st.builds(lambda letter, size: letter * size, st.sampled_from([b"x", b"\0"]), sizes),
    # Many items only at this level, or nested ones would take gigabytes.
    st.builds(lambda item, count: [item] * count, st.sampled_from(["x" * 300, 7]), st.sampled_from([17, 70, 300])),
    st.builds(
        lambda item, count: {f"k{at}": item for at in range(count)}, st.just("y" * 60), st.sampled_from([17, 70])
    ),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(st.sampled_from("abcdefgh"), inner, max_size=5),
        st.dictionaries(st.integers(0, 9), inner, max_size=5),
    ),
    max_leaves=6,
)


@settings(max_examples=100)
@given(st.lists(st.tuples(values, st.sampled_from(["save", "save", "reload", "cold"])), min_size=2, max_size=6))
def test_any_sequence_of_states_loads_back_at_every_point(states: list[tuple[Any, str]]) -> None:
    log = ThreadLog()
    kept: Any = None
    for value, what in states:
        if what == "reload" and log.saved:
            assert log.reload() == log.saved[-1][1]
        elif what == "cold":
            log.become_cold()
        log.save({"field": value, "wrapped": [value, kept], "large": "z" * 5_000})
        kept = value
    log.check_all()

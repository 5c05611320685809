"""Differences between states: their content, their format, and their completeness."""

from __future__ import annotations

import copy
import math
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from io import StringIO
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from clew.codec.diff import diff
from clew.codec.registry import Record
from clew.model.diff import Change, Diff


def message(number: int, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": f"message {number}", **more}


def lines(before: Any, after: Any) -> list[str]:
    return str(diff(before, after)).splitlines()


# --- Format


def test_a_turn_of_a_conversation_reads_as_what_happened():
    before = {"step": 3, "plan": {"owner": "a"}, "messages": [message(n) for n in range(12)]}
    after = {"step": 4, "plan": {"owner": "b"}, "messages": [message(n) for n in range(14)]}
    assert lines(before, after) == [
        "step changed: 3 -> 4",
        "plan.owner changed: 'a' -> 'b'",
        "messages[12..13] added: {'role': 'user', 'content': 'message 12'}, {'role': 'user',…",
    ]


def test_one_added_element_has_a_single_index():
    assert lines({"log": ["a"]}, {"log": ["a", "b"]}) == ["log[1] added: 'b'"]


def test_keys_that_are_no_names_are_quoted():
    before = {"odd key": {"a.txt": 1, 7: 1, (1, 2): 1}}
    after = {"odd key": {"a.txt": 2, 7: 2, (1, 2): 2}}
    assert lines(before, after) == [
        "['odd key']['a.txt'] changed: 1 -> 2",
        "['odd key'][7] changed: 1 -> 2",
        "['odd key'][(1, 2)] changed: 1 -> 2",
    ]


def test_the_root_has_a_name_of_its_own():
    assert lines(1, "x") == ["state changed: 1 -> 'x'"]
    assert lines([1], [1, 2, 3]) == ["[1..2] added: 2, 3"]
    assert lines({1}, {2}) == ["state member removed: 1", "state member added: 2"]


def test_the_members_of_a_set_are_named():
    assert lines({"tags": {"a", "b"}}, {"tags": {"b", "d", "c"}}) == [
        "tags member removed: 'a'",
        "tags members added: 'c', 'd'",
    ]


def test_long_values_are_shortened_and_stay_on_one_line():
    [line] = lines({"text": "short"}, {"text": "line\n" * 1000})
    assert len(line) < 160
    assert line.endswith("…")


def test_long_texts_are_cut_to_show_where_they_differ():
    [line] = lines("lorem " * 100 + "one", "lorem " * 100 + "two")
    assert line == "state changed: …'m lorem lorem lorem one' -> …'m lorem lorem lorem two'"


def test_an_empty_difference_says_so():
    assert str(diff({}, {})) == "no changes"
    assert not diff({}, {})
    assert len(diff({}, {})) == 0


def test_a_difference_prints_in_colour_and_takes_no_markup_from_the_state():
    out = StringIO()
    Console(file=out, width=200).print(diff({"a": 1}, {"a": "[bold]x[/bold]"}), diff(1, 1))
    assert "a changed: 1 -> '[bold]x[/bold]'" in out.getvalue()
    assert "no changes" in out.getvalue()


def test_a_difference_goes_to_a_dict_and_back():
    found = diff({"m": [1], "s": {1}}, {"m": [1, 2], "s": {2}, "n": None})
    assert found.to_dict()["changes"][0] == {
        "path": ["m", 1],
        "kind": "added",
        "before": None,
        "after": [2],
        "count": 1,
    }
    assert Diff.from_dict(found.to_dict()) == found


# --- Lists


def test_added_elements_are_one_change_with_all_of_them():
    assert [*diff({"m": [1, 2]}, {"m": [1, 2, 3, 4]})] == [
        Change(path=("m", 2), kind="added", after=[3, 4], count=2),
    ]


def test_a_sliding_window_is_a_removal_and_an_addition():
    assert lines([*range(100)], [*range(3, 102)]) == ["[0..2] removed: 0, 1, 2", "[97..98] added: 100, 101"]


def test_a_summary_in_the_place_of_a_prefix():
    before = [message(n) for n in range(50)]
    after = [{"role": "system", "content": "summary"}, *before[40:]]
    assert [(change.kind, change.place) for change in diff(before, after)] == [
        ("removed", "[0..39]"),
        ("added", "[0]"),
    ]


def test_an_edit_in_the_middle_is_descended_into():
    before = [message(n) for n in range(9)]
    after = copy.deepcopy(before)
    after[4]["content"] = "edited"
    assert lines({"messages": before}, {"messages": after}) == [
        "messages[4].content changed: 'message 4' -> 'edited'",
    ]


@pytest.mark.parametrize("name", ["id", "message_id"])
def test_an_element_with_an_id_is_followed_when_it_moves_and_changes(name):
    before = [message(n, **{name: f"m{n}"}) for n in range(9)]
    after = [message(100, **{name: "new"}), *copy.deepcopy(before)]
    after[5]["content"] = "edited"
    assert [(change.kind, change.place) for change in diff(before, after)] == [
        ("added", "[0]"),
        ("changed", "[5].content"),
    ]


def test_elements_with_other_ids_are_other_elements():
    before, after = [message(1, id="a"), message(2, id="b")], [message(3, id="c"), message(4, id="d")]
    assert [(change.kind, change.place) for change in diff(before, after)] == [
        ("removed", "[0..1]"),
        ("added", "[0..1]"),
    ]


def test_an_id_that_all_elements_share_does_not_mislead():
    before = [message(n, id="same") for n in range(5)]
    assert lines(before, [message(9, id="same"), *before]) == [
        "[0] added: {'role': 'user', 'content': 'message 9', 'id': 'same'}",
    ]


def test_tuples_and_deques_are_aligned_like_lists():
    assert lines((1, 2, 3), (1, 3)) == ["[1] removed: 2"]
    assert lines(deque([1, 2, 3]), deque([2, 3, 4])) == ["[0] removed: 1", "[2] added: 4"]


# --- Types


@dataclass
class Plan:
    owner: str
    steps: list[str]


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    owner: str
    steps: list[str]


class Struct(msgspec.Struct):
    owner: str
    steps: list[str]


@attrs.define
class Attrs:
    owner: str
    steps: list[str]


class Named(NamedTuple):
    owner: str
    steps: list[str]


class Colour(Enum):
    RED = 1
    BLUE = 2


def record(owner: str, steps: list[str]) -> Record:
    return Record("Plan", {"owner": owner, "steps": steps})


@pytest.mark.parametrize(
    "make", [Plan, Attrs, Struct, Named, record, lambda owner, steps: Model(owner=owner, steps=steps)]
)
def test_objects_are_compared_by_their_fields(make):
    assert not diff(make("a", ["x"]), make("a", ["x"]))
    assert lines({"plan": make("a", ["x"])}, {"plan": make("b", ["x", "y"])}) == [
        "plan.owner changed: 'a' -> 'b'",
        "plan.steps[1] added: 'y'",
    ]


def test_what_a_model_holds_beyond_its_fields_counts():
    before, after = Model(owner="a", steps=[]), Model.model_validate({"owner": "a", "steps": [], "more": 1})
    assert lines(before, after) == ["more added: 1"]


def test_records_of_two_classes_differ():
    assert [change.kind for change in diff(Record("A", {"x": 1}), Record("B", {"x": 1}))] == ["changed"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ([1], (1,)),
        ({1}, frozenset({1})),
        ({1: "x"}, {True: "x"}),
        ({1}, {True}),
        ({(1, 2)}, {(1, 2.0)}),
        ({"a": None}, {}),
        (b"x", "x"),
        (Colour.RED, Colour.BLUE),
        (Decimal("1.0"), Decimal("1.00")),
        (datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))),
        (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
        pytest.param(10**5000, 10**5000 + 1, id="more digits than print"),
    ],
)
def test_values_that_differ_only_in_type_or_spelling_are_a_difference(before, after):
    assert diff(before, after)
    assert diff({"deep": [before]}, {"deep": [after]})
    assert str(diff(before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (math.nan, float("nan")),
        ({math.nan}, {float("nan")}),
        ({float("nan"): 1}, {float("nan"): 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Decimal("sNaN"), Decimal("sNaN")),
        pytest.param("\ud800", "\ud800", id="lone surrogate"),
    ],
)
def test_equal_values_are_no_difference(before, after):
    assert not diff(before, after)
    assert not diff({"deep": [before]}, {"deep": [after]})


# --- Weird objects


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Simple:
    def __init__(self, value: int) -> None:
        self.value = value


def test_objects_that_raise_are_survived():
    assert str(diff([Hostile()], [1])) == "[0] changed: <Hostile> -> 1"
    assert diff({"a": Hostile(), "b": 1}, {"a": Hostile(), "b": 2})


class Array:
    """Compares element by element, like a numpy array."""

    def __init__(self, *items: int) -> None:
        self.items = items

    def __eq__(self, other: Any) -> Any:
        return Array(*(one == another for one, another in zip(self.items, other.items, strict=True)))

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")

    def all(self) -> bool:
        return all(self.items)


def test_arrays_are_the_same_if_all_their_elements_are():
    assert not diff([Array(1, 2)], [Array(1, 2)])
    assert diff([Array(1, 2)], [Array(1, 3)])
    assert diff([Array(1, 2)], [Array(1, 2, 3)])


def test_objects_without_an_equality_are_compared_by_what_they_hold():
    assert not diff(Simple(1), Simple(1))
    assert diff(Simple(1), Simple(2))


def nested(depth: int, leaf: Any) -> Any:
    for _ in range(depth):
        leaf = {"in": [leaf]}
    return leaf


def test_nesting_as_deep_as_a_state_may_be_is_looked_through():
    [change] = diff(nested(124, 1), nested(124, True))
    assert len(change.path) == 248
    assert (change.before, change.after) == (1, True)


def test_nesting_beyond_that_does_not_break_it():
    found = diff(nested(2_000, 1), nested(2_000, 2))
    assert len(found) == 1
    assert str(found)


# --- Anything at all

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(width=16)
    | st.text("ab", max_size=2)
    | st.binary(max_size=1)
)
keys = st.text("ab", max_size=2) | st.integers(0, 2) | st.booleans() | st.floats(width=16)
values = st.recursive(
    scalars | st.sets(keys, max_size=3) | st.frozensets(keys, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.fixed_dictionaries({"id": st.integers(0, 3), "v": inner})
        | st.builds(Plan, owner=st.text("ab", max_size=1), steps=st.lists(inner, max_size=3))
    ),
    max_leaves=12,
)


def canonical(value: Any) -> Any:
    """Return a key that is equal for two values if and only if they are
    equal, including their types."""
    kind = type(value).__name__
    if isinstance(value, dict):
        return kind, sorted((repr((canonical(key), canonical(item))) for key, item in value.items()))
    if isinstance(value, set | frozenset):
        return kind, sorted(repr(canonical(item)) for item in value)
    if isinstance(value, list | tuple):
        return kind, [canonical(item) for item in value]
    if isinstance(value, Plan):
        return kind, canonical(value.owner), canonical(value.steps)
    return kind, repr(value)


@given(values)
def test_a_value_does_not_differ_from_its_copy(value):
    assert not diff(value, value)
    assert not diff(value, copy.deepcopy(value))


@given(values, values)
@example([1, 2], [1, 2.0])
def test_there_is_a_difference_exactly_if_the_values_differ(before, after):
    found = diff(before, after)
    assert bool(found) is (canonical(before) != canonical(after))
    assert len(str(found).splitlines()) == max(1, len(found))
    assert Diff.from_dict(found.to_dict()).to_dict() == found.to_dict()


@given(
    st.lists(st.integers(0, 5) | st.booleans(), max_size=15), st.lists(st.integers(0, 5) | st.booleans(), max_size=15)
)
def test_applied_to_the_older_list_it_gives_the_newer_one(before, after):
    found = diff(before, after)
    result = list(before)
    for change in reversed(found.changes):
        if change.kind == "removed":
            first = change.path[-1]
            assert before[first : first + change.count] == change.before
            del result[first : first + change.count]
    for change in found:
        [index] = change.path
        if change.kind == "added":
            assert change.count == len(change.after)
            result[index:index] = change.after
        elif change.kind == "changed":
            result[index] = change.after
    assert canonical(result) == canonical(after)

"""Every value that a state may hold survives JSON."""

from __future__ import annotations

import json
import math
from collections import OrderedDict, deque
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.server.interchange import TYPE, from_json, to_json

BERLIN = ZoneInfo("Europe/Berlin")
SCALARS: list[Any] = [
    None,
    True,
    0,
    -1.5,
    "text",
    2**53,
    -(2**200),
    math.inf,
    -math.inf,
    b"\x00\xff",
    datetime(2026, 1, 31, 12, tzinfo=UTC),
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN),
    datetime(2026, 1, 1),  # noqa: DTZ001
    date(2026, 1, 31),
    time(1, 2, 3, tzinfo=BERLIN),
    time(1, 2),
    timedelta(days=-1, microseconds=7),
    UUID(int=7),
    Decimal("1.10"),
    complex(1, -2),
]
hashable = st.sampled_from([each for each in SCALARS if each is not None]) | st.text() | st.integers()
values = st.recursive(
    st.sampled_from(SCALARS) | st.text() | st.integers() | st.floats(allow_nan=False) | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.lists(inner).map(deque)
        | st.sets(hashable)
        | st.frozensets(hashable)
        | st.dictionaries(st.text(), inner)
        | st.dictionaries(hashable, inner)
        | st.dictionaries(st.text(), inner).map(OrderedDict)
        | st.dictionaries(st.text(), inner).map(lambda fields: clew.Record("app.Trip", fields))
        | inner.map(lambda value: {TYPE: value})
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other and repr(one) == repr(other)


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_a_value_of_each_type_comes_back_with_its_type(value):
    assert same(from_json(json.loads(json.dumps(to_json(value)))), value)


def test_nan_comes_back():
    assert math.isnan(from_json(to_json(math.nan)))


@given(values)
def test_any_value_comes_back_as_it_was(value):
    back = from_json(json.loads(json.dumps(to_json(value), allow_nan=False)))
    assert type(back) is type(value)
    assert back == value


def test_the_parts_of_an_object_keep_their_types():
    state = {"a": (1, [2]), 3: {b"x"}}
    assert from_json(to_json(state)) == state


def test_an_object_without_an_exact_form_is_shown_and_not_read_back():
    shown = to_json(object())
    assert shown[TYPE] == "text"
    with pytest.raises(clew.ConfigError, match="can't be read back"):
        from_json(shown)


@pytest.mark.parametrize(
    "crafted",
    [
        {TYPE: "nothing"},
        {TYPE: ["tuple"]},
        {TYPE: "tuple"},
        {TYPE: "tuple", "value": 5},
        {TYPE: "set", "value": [[1]]},
        {TYPE: "dict", "value": [[1]]},
        {TYPE: "dict", "value": [[[1], 2]]},
        {TYPE: "int", "value": "9" * 10_000},
        {TYPE: "int", "value": "x"},
        {TYPE: "float", "value": 1},
        {TYPE: "bytes", "value": "?"},
        {TYPE: "datetime", "value": "yesterday"},
        {TYPE: "datetime", "value": "2026-01-01T00:00:00", "zone": "../../etc/passwd"},
        {TYPE: "datetime", "value": "2026-01-01T00:00:00", "zone": 5},
        {TYPE: "timedelta", "value": [10**30]},
        {TYPE: "decimal", "value": "much"},
        {TYPE: "uuid", "value": "7"},
        {TYPE: "record", "class": 5, "value": {}},
        {TYPE: "record", "class": "x", "value": [1]},
        {TYPE: "complex", "value": [1, 2, 3]},
    ],
    ids=str,
)
def test_a_crafted_value_is_refused_by_name(crafted):
    with pytest.raises(clew.ConfigError, match="not a value of type"):
        from_json({"deep": [crafted]})


def test_values_that_nest_too_deep_are_refused():
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(clew.ConfigError, match="nests deeper"):
        from_json(deep)

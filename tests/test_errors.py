"""Values in messages of errors."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any

import pytest

from clew.errors import nearest, shown


@pytest.mark.parametrize("value", [7, "text", None, ["a", 1], {"b": 1, "a": (2,)}, {1.5}, b"x", (), {}])
def test_a_short_value_is_shown_as_python_does(value):
    assert shown(value) == repr(value)


def test_a_long_text_is_cut_at_its_end():
    assert shown("x" * 5000) == "'" + "x" * 58 + "…"


def test_an_integer_of_thousands_of_digits_is_described():
    assert shown(10**5000) == f"an int of {(10**5000).bit_length()} bits"


@pytest.mark.parametrize("around", [lambda inner: [inner] * 4000, lambda inner: OrderedDict.fromkeys(range(99), inner)])
def test_a_value_that_contains_itself_many_times_over_takes_no_time(around):
    value: Any = "x"
    for _ in range(30):
        value = around(value)
    began = time.process_time()
    assert len(shown(value)) == 60
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("name", "found"), [("theads", "threads"), ("thread", "threads"), ("x", None), ("", None), (7, None), (None, None)]
)
def test_the_nearest_known_name_is_found_if_one_is_similar(name, found):
    assert nearest(name, {"checkpoints", "threads", "user_id"}) == found


def test_the_caller_decides_how_similar_the_nearest_name_must_be():
    assert nearest("tags", ["flags"], cutoff=0.5) == "flags"
    assert nearest("tags", ["flags"], cutoff=0.9) is None

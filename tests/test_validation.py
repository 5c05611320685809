"""Validation of numeric options."""

from __future__ import annotations

import math

import pytest

from clew.errors import ConfigError
from clew.validation import checked_number


@pytest.mark.parametrize("value", [0, 1, 2.5, math.inf, 1 << 53])
def test_numbers_within_the_bounds_are_returned(value):
    assert checked_number("n", value, at_least=0) is value


@pytest.mark.parametrize("value", [True, "1", None, math.nan, -1, -0.5, [1], 1j])
def test_anything_else_is_refused(value):
    with pytest.raises(ConfigError, match=r"^n must be a number, 0 or more; got "):
        checked_number("n", value, at_least=0)


def test_the_error_names_the_kind_and_the_bounds():
    with pytest.raises(ConfigError, match=r"^n must be a whole number, 1 or more; got 1.0$"):
        checked_number("n", 1.0, "whole number", at_least=1)
    with pytest.raises(ConfigError, match=r"^n must be a number of seconds, more than 0 and at most 1,000; got inf$"):
        checked_number("n", math.inf, "number of seconds", more_than=0, at_most=1000)
    with pytest.raises(ConfigError, match=r"^n must be a number; got 'x'$"):
        checked_number("n", "x")


def test_every_number_has_an_upper_bound():
    with pytest.raises(
        ConfigError, match=r"^n must be a whole number, 0 or more and at most 9,007,199,254,740,992; got "
    ):
        checked_number("n", 10**5000, "whole number", at_least=0)
    with pytest.raises(ConfigError, match=r"^n must be a number of seconds, at most 3,162,240,000; got 1e\+300$"):
        checked_number("n", 1e300, "number of seconds")

"""Validation of options. Every numeric option has an upper bound, so that no timer or column overflows."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

from clew.errors import ConfigError, shown

Kind = Literal["number", "whole number", "number of seconds"]

MOST_SECONDS: Final = 100 * 366 * 86_400
"""A century. The system's timers accept it, and now plus a century is a valid datetime."""
MOST: Final = 1 << 53
"""The greatest count or number of bytes. As a float it is still exact."""


def checked_flag(name: str, value: Any) -> bool:
    """Return `value` if it is true or false: a text such as "no" would count as true."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False, not {shown(value)}")
    return value


def checked_clock(clock: Any) -> Any:
    """Return `clock` if it has the methods of a Clock; otherwise raise ConfigError."""
    if not all(callable(getattr(clock, method, None)) for method in ("now", "monotonic")):
        raise ConfigError(
            "clock needs the methods now(), which returns a datetime with a time zone, and monotonic(), which returns "
            f"seconds; got {shown(clock)}"
        )
    return clock


def checked_number(
    name: str,
    value: Any,
    kind: Kind = "number",
    *,
    at_least: float | None = None,
    more_than: float | None = None,
    at_most: float | None = None,
) -> Any:
    """Return `value` if it is a number of this kind within the bounds; otherwise raise ConfigError.

    `bool` and NaN are no numbers here. Infinity is one, unless `at_most` excludes it. Other numbers
    have an upper bound even without `at_most`: `MOST_SECONDS` or `MOST`.
    """
    is_number = (
        isinstance(value, int if kind == "whole number" else (int, float))
        and not isinstance(value, bool)
        and value == value  # NaN is unequal to itself
    )
    if is_number and at_most is None and value != math.inf:
        most = MOST_SECONDS if kind == "number of seconds" else MOST
        # The error names this bound only for a number that is too large.
        at_most = most if value > most else None
    valid = (
        is_number
        and (at_least is None or value >= at_least)
        and (more_than is None or value > more_than)
        and (at_most is None or value <= at_most)
    )
    if valid:
        return value
    bounds = [f"more than {more_than:,}"] if more_than is not None else []
    bounds += [f"{at_least:,} or more"] if at_least is not None else []
    bounds += [f"at most {at_most:,}"] if at_most is not None else []
    wanted = ", ".join([kind, " and ".join(bounds)] if bounds else [kind])
    raise ConfigError(f"{name} must be a {wanted}; got {shown(value)}")

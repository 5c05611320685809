"""Validation of numeric options."""

from __future__ import annotations

from typing import Any, Literal

from clew.errors import ConfigError, shown

Kind = Literal["number", "whole number", "number of seconds"]


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

    `bool` and NaN are no numbers here. Infinity is one, unless `at_most` excludes it.
    """
    valid = (
        isinstance(value, int if kind == "whole number" else (int, float))
        and not isinstance(value, bool)
        and value == value  # NaN is unequal to itself
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

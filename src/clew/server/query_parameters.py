"""Names in queries: a parameter that the route does not know is refused, as an unknown field of a body is.

A filter with a typo would filter nothing, and `userid=ana` would return the threads of everybody.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl

from litestar.enums import ParamType
from litestar.params import ParameterKwarg

from clew.server.problems import Problem

_LONGEST: Final = 100
"""How many characters of an unknown name an error shows."""


def checked(app: Any) -> Any:
    """Return `app` behind a check of the query: a middleware for routes that know all their parameters."""
    known: dict[Any, dict[str, bool]] = {}

    async def layer(scope: Any, receive: Any, send: Any) -> None:
        if scope["query_string"] and scope["method"] != "OPTIONS":
            handler = scope["route_handler"]
            if handler not in known:
                known[handler] = parameters(handler)
            _check(scope["query_string"], known[handler])
        await app(scope, receive, send)

    return layer


def parameters(handler: Any) -> dict[str, bool]:
    """Return the query parameters of a route by name, and whether each may be repeated."""
    found = {}
    for name, field in handler.parsed_fn_signature.parameters.items():
        described = field.kwarg_definition
        if isinstance(described, ParameterKwarg) and described.param_type is ParamType.QUERY:
            found[described.name or name] = field.is_non_string_sequence
    return found


def _check(query: bytes, known: dict[str, bool]) -> None:
    """Raise Problem 400 if the query has an unknown name, or one twice that may be given once."""
    seen = set()
    for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            raise Problem(400, "InvalidRequest", _unknown(name[:_LONGEST], sorted(known)))
        if name in seen and not known[name]:
            raise Problem(400, "InvalidRequest", f"parameter {name!r} is given more than once")
        seen.add(name)


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches  # Slow to import, and only needed here.

    near = get_close_matches(name, known, n=1)
    if near:
        return f"unknown parameter {name!r}; did you mean {near[0]!r}?"
    return f"unknown parameter {name!r}; this route takes {', '.join(known) or 'no parameters'}"

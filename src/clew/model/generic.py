"""The type of a checkpointer's states, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Type checkers know it without an installation. `typing` has defaults from Python 3.13 on.
    from typing_extensions import TypeVar

    StateT = TypeVar("StateT", default=Any)
else:
    from typing import TypeVar

    StateT = TypeVar("StateT")


class Untyped:
    """Selects, in overloads, the checkpointers whose states may be anything: only `Any` matches it.

    Their `get_state` returns `Any`, and not `Any | None`, which would need a check at every use.
    """

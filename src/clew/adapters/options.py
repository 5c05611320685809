"""Options that several adapters have in common."""

from __future__ import annotations

from clew.checkpointer.base import BaseCheckpointer
from clew.factory import connect


def open_store(checkpointer: BaseCheckpointer | str | None) -> tuple[BaseCheckpointer, bool]:
    """Return the checkpointer, and whether this call opened it, so that the adapter has to close it.

    A URL is opened, and so is `$CLEW_URL` for `None`.
    """
    if isinstance(checkpointer, BaseCheckpointer):
        return checkpointer, False
    return connect(checkpointer), True

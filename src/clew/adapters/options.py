"""Options that several adapters have in common."""

from __future__ import annotations

from clew.checkpointer.base import BaseCheckpointer
from clew.errors import ConfigError
from clew.factory import connect
from clew.model.commit import OnConflict


def open_store(checkpointer: BaseCheckpointer | str | None) -> tuple[BaseCheckpointer, bool]:
    """Return the checkpointer, and whether this call opened it, so that the adapter has to close it.

    A URL is opened, and so is `$CLEW_URL` for `None`.
    """
    if isinstance(checkpointer, BaseCheckpointer):
        return checkpointer, False
    return connect(checkpointer), True


def check_on_conflict(on_conflict: OnConflict) -> None:
    """Raise ConfigError unless `on_conflict` is one of the choices."""
    if on_conflict not in ("branch", "reject"):
        raise ConfigError(f'on_conflict must be "branch" or "reject", not {on_conflict!r}')

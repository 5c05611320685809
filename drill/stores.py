"""How a writer opens its checkpointer, by name: a plan says which, because it goes to another process."""

from __future__ import annotations

from typing import Any

import clew

PATIENCE = 60.0
"""For how many seconds a call is tried again: longer than any fault lasts, so that writers go on through all of them."""


def plain(url: str) -> clew.BaseCheckpointer:
    """One server."""
    return clew.connect(url, retry_for=PATIENCE)


def cached(url: str, cache: str) -> clew.BaseCheckpointer:
    """PostgreSQL behind a hot cache in Redis."""
    return clew.connect(url, cache=cache, retry_for=PATIENCE)


def replicated(primary: str, secondary: str, **settings: Any) -> clew.BaseCheckpointer:
    """Two servers that hold the same."""
    return clew.DistributedCheckpointer(primary, secondary, retry_for=PATIENCE, **settings)

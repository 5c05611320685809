"""Openers of the writers' checkpointers. A plan names one, because it goes to another process."""

from __future__ import annotations

from typing import Any

import clew

PATIENCE = 60.0
"""Seconds that a call is retried: longer than any fault, so that writers survive all of them."""


def plain(url: str) -> clew.BaseCheckpointer:
    """Open one server."""
    return clew.connect(url, retry_for=PATIENCE)


def cached(url: str, cache: str) -> clew.BaseCheckpointer:
    """Open PostgreSQL with a hot cache in Redis."""
    return clew.connect(url, cache=cache, retry_for=PATIENCE)


def replicated(primary: str, secondary: str, **settings: Any) -> clew.BaseCheckpointer:
    """Open two replicated servers."""
    return clew.DistributedCheckpointer(primary, secondary, retry_for=PATIENCE, **settings)

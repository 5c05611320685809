"""The interface through which the engine reports what only it knows. Telemetry implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from clew.errors import TransientStorageError


class Observer(Protocol):
    """Receives reports of retries and batches. Its methods don't raise and don't wait."""

    def retrying(self, doing: str, error: TransientStorageError) -> None:
        """A storage call failed and is about to be tried again."""

    def origin(self) -> Any:
        """The call that the current task is in, to be named in `batched_with`; `None` if nobody records it."""

    def batched_with(self, origins: Sequence[Any]) -> None:
        """The next commits of the current task also write saves of these other calls."""

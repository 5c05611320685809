"""Telemetry of a checkpointer, switched on by `telemetry=`. OpenTelemetry is imported here and not before."""

from __future__ import annotations

from clew.checkpointer.background import SettledStorage
from clew.checkpointer.engine import Engine
from clew.errors import MissingExtraError
from clew.model.telemetry import Telemetry


def observe(checkpointer: object, engine: Engine, settings: Telemetry) -> None:
    """Record the calls of `checkpointer` and the operations of its engine's storage."""
    try:
        from clew.telemetry import ObservedStorage, Recorder, observe_calls
    except ModuleNotFoundError as error:
        raise MissingExtraError("telemetry needs opentelemetry-api: pip install 'clew[otel]'", extra="otel") from error
    settled, background = engine.storage, engine.background
    # Below the waits for background saves, which are not the storage's time.
    storage = settled.inner if isinstance(settled, SettledStorage) else settled
    recorder = Recorder(settings, storage)
    observed = ObservedStorage(storage, recorder)
    if isinstance(settled, SettledStorage):
        settled.inner = observed
    else:
        engine.storage = observed
    if background is not None:
        observed.pending = lambda: background.status.pending
    engine.observer = engine.retries.observer = recorder
    observe_calls(checkpointer, recorder)

"""Telemetry: spans and metrics of a checkpointer, by OpenTelemetry's conventions for database clients.

Imported only if `telemetry=` asks for it, because it imports OpenTelemetry's API. Public calls are
wrapped in one place (`calls`), storage operations in another (`storage`).
"""

from clew.telemetry.calls import observe_calls
from clew.telemetry.recorder import Recorder
from clew.telemetry.storage import ObservedStorage

__all__ = ["ObservedStorage", "Recorder", "observe_calls"]

"""Settings of telemetry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clew.errors import ConfigError, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """Spans and metrics: `connect(url, telemetry=clew.Telemetry(…))`. `telemetry=True` is `Telemetry()`.

    `tracer_provider` and `meter_provider` are OpenTelemetry's; the default are the global ones. With
    `thread_ids`, spans have the id of their thread. Metrics never have one.
    """

    tracer_provider: Any = None
    meter_provider: Any = None
    thread_ids: bool = False

    def __post_init__(self) -> None:
        for name, method in (("tracer_provider", "get_tracer"), ("meter_provider", "get_meter")):
            given = getattr(self, name)
            if given is not None and not callable(getattr(given, method, None)):
                raise ConfigError(f"{name} must be an OpenTelemetry provider with {method}(), not {shown(given)}")


def checked_telemetry(given: Telemetry | bool | None) -> Telemetry | None:
    """The settings that `telemetry=` gives; `None` if it is off."""
    if given is None or given is False:
        return None
    if given is True:
        return Telemetry()
    if not isinstance(given, Telemetry):
        raise ConfigError(f"telemetry must be True, False or a clew.Telemetry(…), not {shown(given)}")
    return given

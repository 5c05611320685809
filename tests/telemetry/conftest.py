"""Fixtures: OpenTelemetry's SDK with exporters in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Sampler

import clew


class Seen:
    """Everything that was exported."""

    def __init__(self, sampler: Sampler = DEFAULT_ON) -> None:
        self._spans, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracer_provider = TracerProvider(sampler=sampler)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meter_provider = MeterProvider([self._reader])
        self.tracer = self.tracer_provider.get_tracer("test")

    def telemetry(self, **settings: Any) -> clew.Telemetry:
        return clew.Telemetry(tracer_provider=self.tracer_provider, meter_provider=self.meter_provider, **settings)

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        return [each for each in self._spans.get_finished_spans() if name in (None, each.name)]

    def span(self, name: str) -> ReadableSpan:
        (found,) = self.spans(name)
        return found

    def points(self) -> Iterator[tuple[str, dict[str, Any], Any]]:
        """Yield each metric's name, the attributes of a series, and its value or count."""
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        value = getattr(point, "value", None)
                        yield metric.name, dict(point.attributes or {}), point.count if value is None else value  # type: ignore[union-attr]

    def metric(self, name: str, **attributes: str) -> Any:
        """The sum of the metric's series with these attributes (`_` for `.` in their names)."""
        wanted = {key.replace("_", "."): value for key, value in attributes.items()}
        found = [value for named, of, value in self.points() if named == name and wanted.items() <= of.items()]
        return sum(found) if found else None


@pytest.fixture
def seen():
    return Seen()

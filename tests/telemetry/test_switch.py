"""Telemetry is off, and OpenTelemetry is not imported, unless it is asked for."""

from __future__ import annotations

import pytest

import clew
from tests.checkpointer.support import python
from tests.test_import import loaded_after


def test_without_telemetry_nothing_of_opentelemetry_is_imported():
    loaded = loaded_after("import clew\nclew.connect('memory://').put_state('t', {'n': 1})")
    assert not [name for name in loaded if name.startswith(("opentelemetry", "clew.telemetry"))]


def test_only_the_api_is_imported_and_without_an_sdk_nothing_happens():
    loaded = loaded_after("import clew\nclew.connect('memory://', telemetry=True).put_state('t', {'n': 1})")
    assert "opentelemetry.trace" in loaded
    assert not [name for name in loaded if name.startswith(("opentelemetry.sdk", "opentelemetry.semconv"))]


def test_without_the_extra_the_error_names_it():
    script = (
        "import sys\nsys.modules['opentelemetry'] = None\nimport clew\n"
        "try:\n    clew.connect('memory://', telemetry=True)\nexcept clew.MissingExtraError as error:\n    print(error)"
    )
    assert python(script).strip() == "telemetry needs opentelemetry-api: pip install 'clew[otel]'"


def test_providers_that_are_set_after_connecting_are_used():
    script = """
import clew
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

memory = clew.connect("memory://?telemetry=true")
memory.put_state("t", {"n": 1})
spans, reader, provider = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([reader]))
memory.put_state("t", {"n": 2})
clew.connect("memory://", telemetry=True).get_state("t")
print([each.name for each in spans.get_finished_spans() if "." not in each.name])
(resource,) = reader.get_metrics_data().resource_metrics
print(sorted({metric.name for scope in resource.scope_metrics for metric in scope.metrics}))
"""
    spans, metrics = python(script).splitlines()
    assert spans == "['put_state', 'get_state']"
    assert "clew.storage.written" in metrics
    assert "db.client.operation.duration" in metrics


@pytest.mark.parametrize("wrong", ["yes", 1, object()])
def test_anything_but_a_switch_or_settings_is_refused(wrong):
    with pytest.raises(clew.ConfigError, match="telemetry must be True, False or a clew"):
        clew.connect("memory://", telemetry=wrong)


def test_a_provider_of_the_wrong_kind_is_refused():
    with pytest.raises(clew.ConfigError, match="tracer_provider must be an OpenTelemetry provider"):
        clew.Telemetry(tracer_provider="otlp")


def test_the_url_takes_the_switch():
    with pytest.raises(clew.ConfigError, match="true or false"):
        clew.connect("memory://?telemetry=yes")
    assert clew.connect("memory://?telemetry=false").get_state("t") is None

"""The recorder of one checkpointer: makes its spans, counts for its metrics, and observes its engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal

from opentelemetry import trace
from opentelemetry.trace import (
    Link,
    NoOpTracer,
    ProxyTracerProvider,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
)

from clew.errors import ClewError, TransientStorageError
from clew.model.telemetry import Telemetry
from clew.storage.protocol import Storage
from clew.storage.wrapper import StorageWrapper
from clew.telemetry import names
from clew.telemetry.metrics import Attributes, Sum, instruments_of

_LOCAL: Final = ("memory", "sqlite")
_USUAL_PORTS: Final = {"postgresql": 5432, "redis": 6379}
"""Ports that the conventions leave out."""
_SAMPLED: Final = trace.TraceFlags.SAMPLED
current_call: ContextVar[SpanContext | None | Literal["outside"]] = ContextVar("clew_call", default="outside")
"""The sampled span of the public call that the current task is in; `None` if that is not sampled.

OpenTelemetry has this too, but reading it there takes ten times as long.
"""
_taken_along: ContextVar[tuple[SpanContext, ...]] = ContextVar("clew_taken_along", default=())
"""Spans of other saves that the next commits of the current task write."""


class Recorder:
    """Records what one checkpointer does."""

    def __init__(self, settings: Telemetry, storage: Storage) -> None:
        self.thread_ids = settings.thread_ids
        self.instruments = instruments_of(settings.meter_provider)
        self.attributes: Attributes = attributes_of(storage)
        """Attributes of every series and span."""
        self.span_attributes: Attributes = {**self.attributes, names.STORAGE: storage.capabilities.name}
        # The conventions allow INTERNAL where no server is called.
        self.kind = SpanKind.INTERNAL if self.attributes[names.SYSTEM] in _LOCAL else SpanKind.CLIENT
        self._provider: TracerProvider | None = None
        self._drops_roots = True
        self.tracer: Tracer
        self._use(settings.tracer_provider or trace.get_tracer_provider())

    def _use(self, provider: TracerProvider) -> None:
        # Until the application sets a provider, nobody records spans; see `is_dropped`.
        self._provider = None if isinstance(provider, ProxyTracerProvider) else provider
        self.tracer = provider.get_tracer(names.SCOPE, names.VERSION, names.SCHEMA)
        self._drops_roots = self._provider is None or drops_roots(self.tracer)

    def is_dropped(self) -> bool:
        """Return whether a span that is started now would not be sampled, as far as that is known in advance.

        Asking the SDK's sampler costs as much as a twentieth of a save.
        """
        if self._provider is None:
            provider = trace.get_tracer_provider()
            if isinstance(provider, ProxyTracerProvider):
                return True
            self._use(provider)
        current = trace.get_current_span().get_span_context()
        return not current.trace_flags & _SAMPLED if current.is_valid else self._drops_roots

    def sum(self, metric: str, **more: str) -> Sum:
        """A series of a counter."""
        return self.instruments.sum(metric, {**self.attributes, **more})

    @contextmanager
    def storage_span(self, operation: str, batch: int = 1) -> Iterator[None]:
        """A span of one storage operation, around the `with` block."""
        attributes: dict[str, Any] = {names.STORAGE_OPERATION: operation}
        if batch > 1:
            attributes[names.BATCH_SIZE] = batch
        links = [Link(each) for each in taken_along()]
        with self.tracer.start_as_current_span(
            f"storage.{operation}",
            attributes=attributes,
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                self.fail(span, error)
                raise

    def fail(self, span: Span, error: BaseException) -> dict[str, str]:
        """Mark the span as failed and return the attributes of the error.

        Not its text, which may contain ids and parts of the content.
        """
        told = error_attributes(error)
        if span.is_recording():
            span.set_attributes(told)
            span.set_status(Status(StatusCode.ERROR))
        return told

    # Observations of the engine

    def retrying(self, doing: str, error: TransientStorageError) -> None:
        told = error_attributes(error)
        series = self.sum(names.RETRIES, **{names.RETRIED: doing, names.ERROR: told[names.ERROR]})
        self.instruments.add(series, 1)
        span = trace.get_current_span()
        if span.is_recording():
            span.add_event(names.RETRY_EVENT, {names.RETRIED: doing, **told})

    def origin(self) -> SpanContext | None:
        return sampled_span()

    def batched_with(self, origins: Sequence[SpanContext | None]) -> None:
        _taken_along.set(tuple(each for each in origins if each is not None))


def sampled_span() -> SpanContext | None:
    """The sampled span that the current task is in, perhaps one that has ended already."""
    span = current_call.get()
    # Outside a public call, as when a lease is taken or renewed, the span is the user's.
    return sampled_context(trace.get_current_span()) if span == "outside" else span


def sampled_context(span: Span) -> SpanContext | None:
    """The context of `span` if it is sampled."""
    context = span.get_span_context()
    return context if context.trace_flags & _SAMPLED else None


def taken_along() -> tuple[SpanContext, ...]:
    """The spans that `Recorder.batched_with` named, once."""
    found = _taken_along.get()
    if found:
        _taken_along.set(())
    return found


def drops_roots(tracer: Tracer) -> bool:
    """Return whether the tracer samples no span without a parent: its sampler is switched off."""
    if isinstance(tracer, NoOpTracer):
        return True
    describe = getattr(getattr(tracer, "sampler", None), "get_description", None)
    # The API has no method for this. Other samplers are called for each span.
    return describe is not None and describe().startswith(("AlwaysOffSampler", "ParentBased{root:AlwaysOffSampler"))


def error_attributes(error: BaseException) -> dict[str, str]:
    """The class of an error, under its public name, and the server's code, if there is one."""
    kind = type(error)
    told = {names.ERROR: f"clew.{kind.__name__}" if isinstance(error, ClewError) else _full_name(kind)}
    code = getattr(error.__cause__, "sqlstate", None) or (
        error.facts.get("code") if isinstance(error, ClewError) else None
    )
    if isinstance(code, str):
        told[names.STATUS_CODE] = code
    return told


def _full_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def attributes_of(storage: Storage) -> dict[str, str | int]:
    """The kind of the store and its server. With several stores, those of the first: the primary, or the
    store behind the cache."""
    while isinstance(storage, StorageWrapper):
        storage = storage.around[0]
    attributes: dict[str, str | int] = {names.SYSTEM: storage.capabilities.name}
    server = getattr(storage, "server", None)
    if isinstance(server, str) and server:
        host, _, port = server.partition(",")[0].rpartition(":")
        has_port = bool(host) and port.isdigit()
        attributes[names.SERVER] = host.strip("[]") if has_port else server.partition(",")[0]
        if has_port and int(port) != _USUAL_PORTS.get(storage.capabilities.name):
            attributes[names.PORT] = int(port)
    return attributes

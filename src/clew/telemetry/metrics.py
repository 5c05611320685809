"""Metrics: one histogram, and counters that are only read when they are exported.

Each value that the SDK is given costs it dozens of function calls. So a save only appends to a queue.
Durations are passed on in batches, so that the SDK's code stays in the CPU cache, and before each export.
Counts are added up here, and the SDK asks for the sums when it exports them.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from clew.os_threads import reset_after_fork
from clew.telemetry import names

Attributes = Mapping[str, str | int]

BATCH: Final = 128
"""How many values are passed to the SDK at a time."""


class Sum:
    """One series of a counter."""

    __slots__ = ("attributes", "total")

    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self.total = 0


class Gauged(Protocol):
    """An open checkpointer, whose gauges are read when they are exported."""

    attributes: Attributes

    def gauges(self) -> Iterator[tuple[str, float]]:
        """Yield names of gauges, and their values now."""


class Instruments:
    """The instruments of one meter provider, for all checkpointers that use it."""

    def __init__(self, provider: MeterProvider | None) -> None:
        meter = metrics.get_meter(names.SCOPE, names.VERSION, provider, names.SCHEMA)
        self._sums: dict[str, dict[tuple[Any, ...], Sum]] = {}
        self._open: weakref.WeakSet[Gauged] = weakref.WeakSet()
        self.reset()
        reset_after_fork(self)
        self.duration = meter.create_histogram(
            names.DURATION,
            unit="s",
            description="Duration of calls to Clew.",
            explicit_bucket_boundaries_advisory=names.DURATION_BOUNDS,
        )
        for name, unit, description in (
            (names.WRITTEN, "By", "Bytes given to the storage: states, values, messages, attachments."),
            (names.READ, "By", "Bytes that the storage returned."),
            (names.CONFLICTS, "{conflict}", "Commits that the storage refused because of another writer."),
            (names.RETRIES, "{retry}", "Storage calls that were repeated after a transient error."),
            (names.CACHE_LOOKUPS, "{lookup}", "Loads that asked the hot cache, with the result."),
        ):
            meter.create_observable_counter(name, [self._sums_of(name)], unit, description)
        for name, unit, description, together in (
            (names.PENDING, "{save}", "Saves that were accepted and are not written yet.", sum),
            (names.LAG, "s", "How long the oldest commit has waited for the other store.", max),
            (names.QUEUE, "{commit}", "Commits that wait for the other store.", max),
        ):
            meter.create_observable_gauge(name, [self._gauges_of(name, together)], unit, description)

    def reset(self) -> None:
        """Empty the queues: at first, and in a forked child, whose parent counts what is in them."""
        self._lock = threading.Lock()
        self._durations: deque[tuple[float, Attributes]] = deque()
        self._counts: deque[tuple[Sum, int]] = deque()

    def sum(self, name: str, attributes: Attributes) -> Sum:
        """The series of the counter `name` with these attributes."""
        with self._lock:
            series = self._sums.setdefault(name, {})
            key = tuple(attributes.items())
            if key not in series:
                series[key] = Sum(attributes)
            return series[key]

    def took(self, seconds: float, attributes: Attributes) -> None:
        """Queue the duration of a call."""
        self._durations.append((seconds, attributes))
        if len(self._durations) >= BATCH:
            self._flush_durations()

    def add(self, to: Sum, amount: int) -> None:
        """Queue an addition to a counter."""
        self._counts.append((to, amount))
        if len(self._counts) >= BATCH:
            self._flush_counts()

    def _flush_durations(self) -> None:
        record, queue = self.duration.record, self._durations
        while queue:
            try:
                seconds, attributes = queue.popleft()
            except IndexError:
                # Another thread took it.
                return
            record(seconds, attributes)

    def _flush_counts(self) -> None:
        queue = self._counts
        with self._lock:
            while queue:
                to, amount = queue.popleft()
                to.total += amount

    def opened(self, each: Gauged) -> None:
        with self._lock:
            self._open.add(each)

    def closed(self, each: Gauged) -> None:
        with self._lock:
            self._open.discard(each)

    def _sums_of(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> list[Observation]:
            # The SDK calls this before it collects the histogram.
            self._flush_durations()
            self._flush_counts()
            with self._lock:
                return [Observation(each.total, dict(each.attributes)) for each in self._sums.get(name, {}).values()]

        return observe

    def _gauges_of(
        self, name: str, together: Callable[[list[float]], float]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> list[Observation]:
            with self._lock:
                now_open = list(self._open)
            # Checkpointers on the same store have the same attributes, and so one series.
            series: dict[tuple[Any, ...], list[float]] = {}
            for each in now_open:
                for gauge, value in each.gauges():
                    if gauge == name:
                        series.setdefault(tuple(each.attributes.items()), []).append(value)
            return [Observation(together(values), dict(of)) for of, values in series.items()]

        return observe


_lock = threading.Lock()
_known: weakref.WeakKeyDictionary[MeterProvider, Instruments] = weakref.WeakKeyDictionary()
_of_default: Instruments | None = None
"""Instruments of the global provider that were made before the application set it; they follow it."""


def instruments_of(provider: MeterProvider | None) -> Instruments:
    """The instruments of `provider`, or of the global one.

    A provider has one set: the SDK ignores the callbacks of a second instrument with the same name.
    """
    global _of_default
    current = metrics.get_meter_provider()
    with _lock:
        if provider is None or provider is current:
            if _of_default is None:
                _of_default = _known.get(current) or Instruments(None)
            return _of_default
        if provider not in _known:
            _known[provider] = Instruments(provider)
        return _known[provider]

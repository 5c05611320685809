"""Metrics and access log: Prometheus metrics, and one line of JSON in the log for each request."""

from __future__ import annotations

import json
import logging
from functools import cache
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

access_log = logging.getLogger("clew.server.access")
"""One line of JSON for each request, at INFO. It has no ids, no query strings and no bodies."""

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
UNKNOWN: Final = "(unknown)"
"""The route of requests that no route answers: their paths are not labels, because anybody can invent them."""


class Telemetry:
    """Metrics of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        requests = Counter("clew_http_requests", "Requests.", labels, registry=self._registry)
        seconds = Histogram(
            "clew_http_request_seconds",
            "Seconds per request.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._open = 0
        in_flight = Gauge("clew_http_requests_in_flight", "Requests in flight.", registry=self._registry)
        in_flight.set_function(lambda: self._open)
        # `labels` takes longer than to count.
        self._counter = cache(requests.labels)
        self._histogram = cache(seconds.labels)

    def began(self) -> None:
        self._open += 1

    def ended(self, scope: Any, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        self._open -= 1
        method = scope["method"] if scope["method"] in _METHODS else UNKNOWN
        route = scope.get("path_template") or UNKNOWN
        self._counter(method, route, status).inc()
        self._histogram(method, route).observe(seconds)
        if access_log.isEnabledFor(logging.INFO):
            caller = scope.get("clew_caller")
            line = {
                "method": method,
                "route": route,
                "status": status,
                "ms": round(seconds * 1000, 1),
                "caller": caller.name if caller else None,
            }
            access_log.info("%s", json.dumps(line))

    def text(self) -> bytes:
        """Return the metrics in Prometheus' format."""
        return generate_latest(self._registry)


_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

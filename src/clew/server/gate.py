"""The gate: an ASGI middleware that every request passes before the application sees it.

It checks the Host and Origin headers (against DNS rebinding and cross-site requests), bounds the body
and the request rate, cuts off slow clients, and adds security headers to every response. HEAD is answered as
GET is, without the content.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from clew.bounded import BoundedMap
from clew.server.problems import MEDIA_TYPE, Problem, document
from clew.server.telemetry import Telemetry

_log = logging.getLogger("clew.server")
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = [
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_NAMES: Final = frozenset(name for name, _ in _HEADERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a request: `rate` requests a second for each client (`None`: any number), in bursts of `burst`."""

    body_bytes: int = 16 << 20
    body_seconds: float = 30.0
    rate: float | None = 200.0
    burst: int = 400


class Gate:
    """An ASGI application around another one."""

    def __init__(
        self,
        inner: Any,
        *,
        hosts: Sequence[str] | None,
        origins: Sequence[str] = (),
        limits: Limits | None = None,
        telemetry: Telemetry,
        end_streams: Callable[[], Awaitable[None]],
        lifespan: Callable[[Any], AbstractAsyncContextManager[None]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self.end_streams: Final = end_streams
        """Ends event streams, which otherwise last until their client leaves. Call it before you stop a
        server without a signal."""
        self.lifespan: Final = lifespan
        """The lifespan for an application that this one is mounted into, because frameworks don't pass theirs on. When
        a signal ends the server, it ends the event streams; at the end, the open turns."""
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origins)
        self._limits = limits or Limits()
        self._telemetry = telemetry
        self._monotonic = monotonic
        self._buckets: BoundedMap[str, tuple[float, float]] = BoundedMap(max_entries=10_000)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        started = self._monotonic()
        status = 0
        method = scope["method"]
        sent = first_headers(scope)
        origin = sent.get("origin")
        allowed = origin if origin in self._origins else None

        async def guarded_send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = _secured(list(message.get("headers", ())))
                if allowed:
                    headers += _cors(allowed)
                await send({**message, "headers": headers})
                if method == "HEAD":
                    # The whole answer. The server now reports a disconnect, which ends an event stream.
                    await send({"type": "http.response.body"})
            elif method != "HEAD":
                await send(message)

        # Litestar does not answer HEAD on GET routes.
        scope = {**scope, "path": _raw_path(scope), "method": "GET" if method == "HEAD" else method}
        self._telemetry.began()
        try:
            self._check(scope, sent, origin)
            if method == "OPTIONS" and allowed and sent.get("access-control-request-method"):
                await _answer(guarded_send, 204, b"", b"text/plain")
                return
            await self._inner(scope, self._bounded(sent, receive), guarded_send)
        except Problem as refusal:
            if not status:
                body = json.dumps(document(refusal.status_code, refusal.name, refusal.detail)).encode()
                await _answer(guarded_send, refusal.status_code, body, MEDIA_TYPE.encode())
        finally:
            self._telemetry.ended({**scope, "method": method}, status, self._monotonic() - started)

    def _check(self, scope: Any, sent: Mapping[str, str], origin: str | None) -> None:
        host = _host(sent.get("host", ""))
        if self._hosts is not None and host not in self._hosts:
            raise Problem(
                421,
                "UnknownHost",
                f"this server does not answer to the host {host!r}; allow it with --allow-host {host}",
            )
        if origin is not None and origin not in self._origins and not _same_origin(origin, sent):
            raise Problem(
                403, "ForeignOrigin", f"requests from {origin} are not allowed; allow it with --allow-origin {origin}"
            )
        if not _is_text(scope["query_string"]):
            raise Problem(400, "InvalidRequest", "the query is not UTF-8; percent-encode it")
        site = sent.get("sec-fetch-site")
        if origin is None and site == "cross-site" and scope["method"] not in ("GET", "HEAD"):
            raise Problem(403, "ForeignOrigin", "cross-site requests are not allowed")
        self._take_turn((scope.get("client") or ("",))[0])

    def _take_turn(self, client: str) -> None:
        rate = self._limits.rate
        if rate is None:
            return
        now = self._monotonic()
        tokens, at = self._buckets.get(client) or (float(self._limits.burst), now)
        tokens = min(float(self._limits.burst), tokens + max(0.0, now - at) * rate)
        if tokens < 1:
            raise Problem(429, "TooManyRequests", f"more than {rate:g} requests a second; slow down")
        self._buckets.put(client, (tokens - 1, now))

    def _bounded(self, sent: Mapping[str, str], receive: Any) -> Any:
        declared = sent.get("content-length", "")
        most = self._limits.body_bytes
        if declared.isascii() and declared.isdigit() and int(declared[:20]) > most:
            raise _too_large(most)
        total = 0
        whole = False
        deadline = self._monotonic() + self._limits.body_seconds

        async def bounded_receive() -> Any:
            nonlocal total, whole
            if whole:
                # Only a disconnect can follow, and waiting for one has no limit.
                return await receive()
            try:
                # `wait_for` would make a task.
                async with asyncio.timeout(max(0.001, deadline - self._monotonic())):
                    message = await receive()
            except TimeoutError:
                raise Problem(
                    408, "BodyTooSlow", f"the body took more than {self._limits.body_seconds:g} seconds"
                ) from None
            if message["type"] == "http.request":
                total += len(message.get("body", b""))
                whole = not message.get("more_body", False)
                if total > most:
                    raise _too_large(most)
            return message

        return bounded_receive


def _is_text(content: bytes) -> bool:
    if content.isascii():
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _raw_path(scope: Any) -> str:
    """The path with its percent-encoding, so that an id in it may contain a slash."""
    raw = scope.get("raw_path")
    return raw.decode("ascii", "replace").partition("?")[0] if raw else str(scope["path"])


def first_headers(scope: Any) -> dict[str, str]:
    """The request's headers. Of a repeated one, the first."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in list(scope["headers"])[::-1]}


def _secured(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Add the security headers that the answer does not set itself."""
    present = _NAMES.intersection([name.lower() for name, _ in headers])
    return headers + ([each for each in _HEADERS if each[0] not in present] if present else _HEADERS)


def _too_large(most: int) -> Problem:
    return Problem(413, "BodyTooLarge", f"the body has more than {most:,} bytes, the limit of this server")


def _host(header: str) -> str:
    """The host without its port."""
    host = header.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _same_origin(origin: str, sent: Mapping[str, str]) -> bool:
    try:
        place = urlsplit(origin).netloc
    except ValueError:  # Brackets that don't hold an address.
        return False
    return place.lower() == sent.get("host", "").strip().lower() != ""


def _cors(origin: str) -> list[tuple[bytes, bytes]]:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
        (
            b"access-control-allow-headers",
            b"authorization, content-type, if-match, if-none-match, idempotency-key, last-event-id",
        ),
        (b"access-control-expose-headers", b"etag, location"),
        (b"access-control-max-age", b"600"),
        (b"vary", b"origin"),
    ]


async def _answer(send: Any, status: int, body: bytes, kind: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

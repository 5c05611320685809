"""Errors as RFC 9457 problem documents: the error's name, its advice, and a status code."""

from __future__ import annotations

import logging
from typing import Any, Final, TypedDict

from litestar import Request, Response
from litestar.exceptions import HTTPException

import clew

_log = logging.getLogger("clew.server")
MEDIA_TYPE: Final = "application/problem+json"

STATUSES: Final[tuple[tuple[type[clew.ClewError], int], ...]] = (
    # Subclasses stand before their base classes.
    (clew.ThreadDeletedError, 410),
    (clew.LeaseError, 423),
    (clew.ConflictError, 409),
    (clew.PermissionDeniedError, 403),
    (clew.UnsupportedTypeError, 422),
    (clew.StateTooLargeError, 413),
    (clew.ConfigError, 400),
    (clew.TransientStorageError, 503),
    (clew.ClewError, 500),
)


class Problem(HTTPException):
    """An error that the server itself raises, with a status code and advice."""

    def __init__(self, status: int, name: str, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail=detail, status_code=status, headers=headers)
        self.name = name


def not_found(what: str) -> Problem:
    return Problem(404, "NotFound", f"{what} does not exist")


def status_of(error: clew.ClewError) -> int:
    """Return the HTTP status for `error`."""
    return next(status for kind, status in STATUSES if isinstance(error, kind))


class ProblemDocument(TypedDict):
    """An error, with advice in `detail` (RFC 9457). `error` is the class that the Python API raises."""

    type: str
    title: str
    status: int
    detail: str
    error: str


def document(status: int, name: str, detail: str) -> ProblemDocument:
    """Return the problem document."""
    return {"type": "about:blank", "title": name, "status": status, "detail": detail, "error": name}


def on_clew_error(request: Request[Any, Any, Any], error: clew.ClewError) -> Response[ProblemDocument]:
    status = status_of(error)
    # A request with If-Match asks for exactly this comparison.
    if status == 409 and request.headers.get("if-match") is not None:
        status = 412
    if status >= 500:
        _log.warning("request failed: %s %s: %s: %s", request.method, request.url.path, type(error).__name__, error)
    headers = {"Retry-After": "1"} if status == 503 else {}
    return _response(status, type(error).__name__, str(error), headers)


def on_http_error(_: Request[Any, Any, Any], error: HTTPException) -> Response[ProblemDocument]:
    name = error.name if isinstance(error, Problem) else _TITLES.get(error.status_code, type(error).__name__)
    detail = error.detail
    if error.extra and isinstance(error.extra, list):
        detail = "; ".join(_said(each) for each in error.extra if isinstance(each, dict))
    return _response(error.status_code, name, detail, dict(error.headers or {}))


def _said(fault: dict[str, Any]) -> str:
    """What is wrong with a parameter or a field. `data` is the Python name of the whole body."""
    place = fault.get("key", "data")
    return f"{'body' if place == 'data' else place}: {fault.get('message', '')}"


def on_any_error(request: Request[Any, Any, Any], error: Exception) -> Response[ProblemDocument]:
    _log.error("request failed: %s %s", request.method, request.url.path, exc_info=error)
    return _response(500, "InternalError", "the server failed; its log says why", {})


def _response(status: int, name: str, detail: str, headers: dict[str, str]) -> Response[ProblemDocument]:
    return Response(document(status, name, detail), status_code=status, media_type=MEDIA_TYPE, headers=headers)


_TITLES: Final = {400: "InvalidRequest", 401: "Unauthorized", 404: "NotFound", 405: "MethodNotAllowed"}

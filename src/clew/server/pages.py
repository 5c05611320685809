"""The studio's files: a page, its scripts and its style. They need nothing from the network."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Any, Final

from litestar import Request, Response, get

from clew.server.calls import Name
from clew.server.problems import not_found

_FOLDER: Final = Path(__file__).parent / "studio"
_TYPES: Final = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8"} | {
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FILES: Final = {
    path.relative_to(_FOLDER).as_posix(): (path.read_bytes(), _TYPES[path.suffix])
    for path in sorted(_FOLDER.rglob("*"))
    if path.suffix in _TYPES
}
"""Read once: no path of a request reaches the file system."""
_PACKED: Final = {name: gzip.compress(content, mtime=0) for name, (content, _) in _FILES.items()}
_TAGS: Final = {name: f'"{hashlib.sha256(content).hexdigest()[:16]}"' for name, (content, _) in _FILES.items()}


@get("/", include_in_schema=False)
async def index(request: Request[Any, Any, Any]) -> Response[Any]:
    """Return the studio's page."""
    return _file(request, "index.html")


@get("/studio/{name:str}", include_in_schema=False)
async def file(request: Request[Any, Any, Any], name: Name) -> Response[Any]:
    """Return one of the studio's files."""
    return _file(request, name)


@get("/studio/vendor/{name:str}", include_in_schema=False)
async def vendored(request: Request[Any, Any, Any], name: Name) -> Response[Any]:
    """Return a file of a library that the studio uses."""
    return _file(request, f"vendor/{name}")


def _file(request: Request[Any, Any, Any], name: str) -> Response[Any]:
    if name not in _FILES:
        raise not_found("the file")
    content, kind = _FILES[name]
    headers = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding", "ETag": _TAGS[name]}
    if request.headers.get("if-none-match") == _TAGS[name]:
        return Response(None, status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        content = _PACKED[name]
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type=kind, headers=headers)


HANDLERS = [index, file, vendored]

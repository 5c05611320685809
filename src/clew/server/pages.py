"""The studio's files: a page, its scripts and its style. They need nothing from the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from litestar import Response, get

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


@get("/", include_in_schema=False)
async def index() -> Response[Any]:
    """Return the studio's page."""
    return _file("index.html")


@get("/studio/{name:str}", include_in_schema=False)
async def file(name: Name) -> Response[Any]:
    """Return one of the studio's files."""
    return _file(name)


@get("/studio/vendor/{name:str}", include_in_schema=False)
async def vendored(name: Name) -> Response[Any]:
    """Return a file of a library that the studio uses."""
    return _file(f"vendor/{name}")


def _file(name: str) -> Response[Any]:
    if name not in _FILES:
        raise not_found("the file")
    content, kind = _FILES[name]
    return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})


HANDLERS = [index, file, vendored]

"""The API's reference: the OpenAPI document with examples, as JSON and as a page. Nothing comes from the network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from litestar import Request
from litestar.enums import MediaType, OpenAPIMediaType
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import OpenAPIRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

import clew
from clew.server.reference.document import completed
from clew.server.reference.page import page

PATH: Final = "/docs"
_STYLE: Final = Path(__file__).with_name("style.css").read_bytes()


class _Document(OpenAPIRenderPlugin):
    def __init__(self) -> None:
        super().__init__(path="/openapi.json", media_type=OpenAPIMediaType.OPENAPI_JSON)

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return json.dumps(completed(openapi_schema, _base(request)), ensure_ascii=False).encode()


class _Page(OpenAPIRenderPlugin):
    def __init__(self) -> None:
        super().__init__(path="/")

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return page(completed(openapi_schema, _base(request))).encode()


class _Style(OpenAPIRenderPlugin):
    def __init__(self) -> None:
        super().__init__(path="/style.css", media_type=MediaType.CSS)

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return _STYLE


def _base(request: Request[Any, Any, Any]) -> str:
    """The path under which the application is mounted."""
    return str(request.scope.get("root_path") or "") or "/"


def openapi_config() -> OpenAPIConfig:
    """Return the configuration of the document and of the routes that show it."""
    return OpenAPIConfig(
        title="Clew",
        version=clew.__version__,
        description="Durable session memory for AI agents: the state, the messages and the history of every thread.",
        path=PATH,
        render_plugins=[_Page(), _Document(), _Style()],
        use_handler_docstrings=True,
        operation_id_creator=lambda handler, _method, _path: handler.handler_name,
        components=Components(
            security_schemes={
                "token": SecurityScheme(
                    type="http", scheme="bearer", description="A token of `clew token create`, or a JWT."
                )
            }
        ),
    )

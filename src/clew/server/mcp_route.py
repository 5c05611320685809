"""`/mcp`: the MCP server over streamable HTTP, for the callers and with the tokens of the HTTP server.

Requests are independent: there are no sessions that have to be kept, that expire or that can be taken over.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from litestar import asgi
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Send
from litestar.types import Scope as ASGIScope

import clew
from clew.server.access import Caller, Scope
from clew.server.problems import Problem

if TYPE_CHECKING:
    from mcp.server import MCPServer

PATH: Final = "/mcp"


def mcp_route(memory: clew.BaseCheckpointer, *, scope: Scope) -> ASGIRouteHandler:
    """Return the route. With the scope `write`, callers that may write get tools to fork and append."""
    made: list[MCPServer[Any]] = []

    def server() -> MCPServer[Any]:
        if not made:
            made.append(_server(memory, scope))
        return made[0]

    @asgi(PATH, copy_scope=True)
    async def mcp(scope: ASGIScope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":  # type: ignore[typeddict-item]
            # There are no sessions: no stream to open with GET, which would stay silent for ever, and none to DELETE.
            raise Problem(
                405, "MethodNotAllowed", "this server speaks MCP by POST, without sessions", {"Allow": "POST"}
            )
        scope["clew_caller"] = _narrowed(scope)  # type: ignore[typeddict-unknown-key]
        manager = _manager(server())
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    return mcp


def _server(memory: clew.BaseCheckpointer, scope: Scope) -> MCPServer[Any]:
    # Late: the SDK takes long to import, and is an extra of its own.
    try:
        from clew.server.mcp import mcp_server
    except clew.MissingExtraError as error:
        raise Problem(501, "MissingExtraError", str(error)) from error

    def acting(request: Any) -> Caller:
        caller: Caller = request.scope["clew_caller"]
        return caller

    return mcp_server(memory, acting, allow_writes=scope == "write")


def _manager(server: MCPServer[Any]) -> Any:
    from mcp.server.transport_security import TransportSecuritySettings

    # The gate has checked the Host and Origin headers already.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    server.streamable_http_app(stateless_http=True, json_response=True, transport_security=unchecked)
    return server.session_manager


def _narrowed(scope: ASGIScope) -> Caller:
    """The caller, bound to the user in `?user_id=`. Raises Problem if it may not act for that user."""
    caller: Caller = scope["clew_caller"]  # type: ignore[typeddict-item]
    named = parse_qs(scope["query_string"].decode("latin-1")).get("user_id")
    return replace(caller, user=caller.acting_for(named[-1])) if named else caller

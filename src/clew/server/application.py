"""The ASGI application: routes, authentication, health checks and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from litestar import Litestar, Request, Response, Router, get
from litestar.config.app import AppConfig
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.openapi import ResponseSpec

import clew
from clew.ids import new_id
from clew.server import conversations, pages
from clew.server.access import Authenticator, Caller, Scope
from clew.server.calls import Asked
from clew.server.gate import LOCAL_HOSTS, Gate, Limits, first_headers
from clew.server.lifetime import lifespan_of
from clew.server.mcp_route import mcp_route
from clew.server.problems import Problem, on_any_error, on_clew_error, on_http_error
from clew.server.query_parameters import checked
from clew.server.reference import openapi_config
from clew.server.reference.schemas import AnswerSchemas
from clew.server.response_types import Health
from clew.server.routes import events, messages, operations, search, states, studio, threads, turns
from clew.server.telemetry import MEDIA_TYPE, Telemetry
from clew.server.turns import Turns

OPEN: Final = Caller(name="local", user=clew.ANY_USER, scope="write")
"""The caller of a server without tokens, which answers to this machine only."""
_GROUPS: Final = (threads, states, messages, search, events, turns, operations, studio)
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="clew"'}


@get("/healthz", tags=["health"], summary="Is the process alive?")
async def healthz() -> Health:
    """Return while the process runs."""
    return {"status": "ok"}


@get(
    "/readyz",
    tags=["health"],
    summary="Is the store available?",
    responses={503: ResponseSpec(Health, description="The store does not answer.", generate_examples=False)},
)
async def readyz(request: Request[Any, Any, Any]) -> Response[Health]:
    """Return 200 if the store answers, and 503 if not."""
    status = await request.app.state.memory.astatus()
    ready = status.primary_healthy or bool(status.secondary_healthy)
    # The reason may name hosts, so it is in `/api/status`, for operators only.
    return Response({"status": "ok" if ready else "unavailable"}, status_code=200 if ready else 503)


@get("/metrics", tags=["health"], summary="Metrics for Prometheus", media_type=MEDIA_TYPE)
async def metrics(request: Request[Any, Any, Any]) -> bytes:
    """Return counts and durations of requests."""
    text: bytes = request.app.state.telemetry.text()
    return text


def app(
    checkpointer: clew.BaseCheckpointer,
    *,
    authenticators: Sequence[Authenticator] = (),
    hosts: Sequence[str] | None = LOCAL_HOSTS,
    origins: Sequence[str] = (),
    limits: Limits | None = None,
    mcp_scope: Scope = "read",
) -> Gate:
    """Return an ASGI application that serves `checkpointer`. Run it with uvicorn, or mount it into another one:
    `api = FastAPI(lifespan=served.lifespan)`, `api.mount("/clew", served)`.

    Callers need a token that one of `authenticators` recognises. Without any, everybody who reaches the
    server may do everything, so it answers to `localhost` only. `hosts` are the names in Host headers that
    it answers to (`None`: any, for servers behind a proxy that checks them). `origins` are web pages that
    may call it from a browser. `/mcp` serves agents over MCP; `mcp_scope="write"` lets those whose token may
    write also fork threads and append messages.
    """
    if not authenticators and hosts is not LOCAL_HOSTS and not set(hosts or ("*",)) <= set(LOCAL_HOSTS):
        raise clew.ConfigError(
            "a server without tokens answers to localhost only; make one with `clew token create NAME`, or pass authenticators"
        )

    def identified(app: Any) -> Any:
        # A middleware, because Litestar copies the route for each guard of each request.
        async def layer(scope: Any, receive: Any, send: Any) -> None:
            scope["clew_caller"] = authenticate(scope, authenticators)
            await app(scope, receive, send)

        return layer

    telemetry = Telemetry()
    streams = events.Streams()
    open_turns = Turns(checkpointer, new_id)
    lifespan = lifespan_of(streams, open_turns)
    handlers = [handler for group in _GROUPS for handler in group.HANDLERS]
    api = Router("/api", route_handlers=handlers, middleware=[checked])
    # Not checked: OpenAI's clients send parameters that Clew doesn't have, such as `include[]`. None of them
    # gives access to conversations of other users.
    openai = Router("/v1", route_handlers=conversations.HANDLERS)
    closed = Router(
        "/",
        route_handlers=[api, openai, mcp_route(checkpointer, scope=mcp_scope)],
        middleware=[identified],
        security=[{"token": []}],
    )
    inner = Litestar(
        [closed, healthz, readyz, metrics, *pages.HANDLERS],
        state=State({"memory": checkpointer, "turns": open_turns, "telemetry": telemetry, "streams": streams}),
        lifespan=[lifespan],
        request_class=Asked,
        openapi_config=openapi_config(),
        plugins=[AnswerSchemas()],
        exception_handlers={
            clew.ClewError: on_clew_error,
            HTTPException: on_http_error,
            Exception: on_any_error,
        },
        on_app_init=[_without_logging],
        request_max_body_size=None,  # The gate bounds it.
    )
    return Gate(
        inner,
        hosts=hosts,
        origins=origins,
        limits=limits,
        telemetry=telemetry,
        end_streams=streams.end,
        lifespan=lifespan,
    )


def authenticate(scope: Any, authenticators: Sequence[Authenticator]) -> Caller:
    """Return the caller. Raises Problem 401 if nobody recognises its token."""
    if not authenticators:
        return OPEN
    kind, _, secret = first_headers(scope).get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not secret.strip():
        raise Problem(401, "Unauthorized", "send a token: Authorization: Bearer clew_…", _CHALLENGE)
    for authenticator in authenticators:
        if (caller := authenticator.caller(secret.strip())) is not None:
            return caller
    raise Problem(401, "Unauthorized", "the token is unknown, expired or revoked", _CHALLENGE)


def _without_logging(config: AppConfig) -> AppConfig:
    """Leave logging to the process. Litestar would configure it anew."""
    config.logging_config = None
    return config

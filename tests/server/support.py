"""Clients of an application in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

import clew
from clew.server import Caller, app


class Known:
    """Callers by fixed tokens."""

    def __init__(self, **callers: Caller) -> None:
        self._callers = callers

    def caller(self, secret: str) -> Caller | None:
        return self._callers.get(secret)


ANA = Caller(name="ana", user="ana", scope="write")
BOB = Caller(name="bob", user="bob", scope="write")
READER = Caller(name="reader", user="ana", scope="read")
OPERATOR = Caller(name="operator", user=clew.ANY_USER, scope="write")
WATCHER = Caller(name="watcher", user=clew.ANY_USER, scope="read")
KNOWN = Known(ana=ANA, bob=BOB, reader=READER, operator=OPERATOR, watcher=WATCHER)


@asynccontextmanager
async def client(
    memory: clew.BaseCheckpointer, token: str | None = None, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """Open a client of a server. With `token`, the server knows the callers above."""
    served = app(memory, authenticators=[KNOWN] if token is not None else (), **options)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    transport = httpx.ASGITransport(app=served, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as opened:
        yield opened

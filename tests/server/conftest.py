"""A test that takes `store` runs on every storage."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

import clew
from tests.checkpointer.conftest import STORES
from tests.server.support import client


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    with closing(request.param(tmp_path)) as opened:
        yield opened


@pytest.fixture(scope="module")
def document():
    """The OpenAPI document."""

    async def read():
        async with client(clew.connect("memory://")) as http:
            return (await http.get("/docs/openapi.json")).json()

    return asyncio.run(read())

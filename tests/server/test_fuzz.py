"""A fuzz of the HTTP API, drawn by schemathesis from the OpenAPI document: no request makes the server fail,
and every answer is what the document says."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core import NotSet

import clew
from tests.checkpointer.support import PostgresStore, SQLiteStore
from tests.rings import rounds
from tests.server.described import closed
from tests.server.support import PATIENCE, listening

EXAMPLES = rounds(2, 15)
"""How many requests of each kind, right and wrong, each operation gets."""
KNOWN = {"thread_id": "trip", "message_id": "m1", "checkpoint_id": "c1", "conversation_id": "conv_1", "item_id": "m1"}
"""Ids that exist, so that requests reach beyond "not found"."""

CONFORMANCE = [
    schemathesis.checks.response_schema_conformance,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_headers_conformance,
]
"""Answers are what the document says, too."""


async def afill(memory: clew.BaseCheckpointer) -> None:
    """Store what KNOWN names."""
    said = [clew.Message(message_id="m1", role="user", content="To Lyon!")]
    await memory.aput_checkpoint("trip", {"city": "Lyon", "log": []}, new_id="c1", messages=said)
    await memory.aput_checkpoint("trip", {"city": "Nice", "log": [1]})
    await memory.aput_messages("conv_1", said)


def aimed(case: Any, known: set[str]) -> Any:
    """Let the request ask for ids that exist, and never wait for another turn."""
    for name, value in KNOWN.items():
        for place in (case.path_parameters, case.query):
            if name in known and isinstance(place, dict) and name in place:
                place[name] = value
    if case.path.endswith("/turns") and isinstance(case.body, dict | NotSet):
        case.body = {**({} if isinstance(case.body, NotSet) else case.body), "wait": 0}
    return case


def fuzzed(operation: Any, mode: GenerationMode, url: str, told: Counter[int]) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode), known=st.sets(st.sampled_from(sorted(KNOWN))))
    def run(case: Any, known: set[str]) -> None:
        answer = aimed(case, known).call(base_url=url, timeout=PATIENCE)
        told[answer.status_code] += 1
        assert answer.status_code < 500, f"{answer.status_code} {answer.text}\n{case.as_curl_command()}"
        case.validate_response(answer, checks=CONFORMANCE)
        if answer.status_code >= 400:
            assert answer.headers["content-type"][0] == "application/problem+json"
            assert answer.json()["detail"]

    run()


@pytest.fixture(params=[pytest.param(SQLiteStore, id="sqlite")])
def store(request, tmp_path):
    with closing(request.param(tmp_path)) as opened:
        yield opened


@pytest.fixture(params=[pytest.param(PostgresStore, id="postgres", marks=pytest.mark.full)])
def remote_store(request, tmp_path):
    with closing(request.param(tmp_path)) as opened:
        yield opened


def fuzz(store: Any) -> None:
    told: Counter[int] = Counter()
    with clew.connect(store.url) as memory, listening(memory) as url:
        memory.run(afill(memory), "fill")
        document = closed(httpx.get(f"{url}/docs/openapi.json", timeout=PATIENCE).json())
        schema: Any = schemathesis.openapi.from_dict(document)
        operations = [each.ok() for each in schema.get_all_operations()]
        assert len(operations) > 40
        for operation in operations:
            if operation.path.endswith("/events"):
                continue  # These never end.
            fuzzed(operation, GenerationMode.POSITIVE, url, told)
            if operation.definition.raw.get("parameters") or operation.body:
                fuzzed(operation, GenerationMode.NEGATIVE, url, told)
        assert httpx.get(f"{url}/readyz", timeout=PATIENCE).status_code == 200
    assert {200, 201, 204, 400, 404} <= told.keys(), told


@pytest.mark.timeout(3600)
def test_no_request_makes_the_server_fail(store):
    fuzz(store)


@pytest.mark.timeout(3600)
def test_no_request_makes_the_server_fail_on_a_remote_store(remote_store):
    fuzz(remote_store)

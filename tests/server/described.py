"""The OpenAPI document as a judge of answers."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

OPEN = {"Item"}
"""Components that have more fields than those that are described."""


def closed(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with answers that may have no other fields than those that are described.

    Clients must be ready for more, so the document itself does not say so.
    """
    strict = copy.deepcopy(document)
    bodies = json.dumps([item[method].get("requestBody") for item in strict["paths"].values() for method in item])
    for name, schema in strict["components"]["schemas"].items():
        if "properties" in schema and name not in OPEN and f'/{name}"' not in bodies:
            schema["additionalProperties"] = False
    return strict


def faults(document: dict[str, Any], schema: dict[str, Any], value: Any) -> list[str]:
    """Return what in `value` contradicts `schema`, which is a part of `document`."""
    whole = {**schema, "components": document["components"]}
    judge = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
    return [f"{'.'.join(map(str, error.instance_path))}: {error.message}" for error in judge.iter_errors(value)]


def answer_faults(document: dict[str, Any], name: str, status: int, kind: str, body: str) -> list[str]:
    """Return what in an answer of the operation `name`, as `GET /api/threads`, contradicts the document."""
    method, _, path = name.partition(" ")
    described = document["paths"][path][method.lower()]["responses"]
    answer = described.get(str(status)) or described.get(f"{status // 100}XX")
    if answer is None:
        return [f"the status {status} is not described"]
    if "$ref" in answer:
        answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    content = answer.get("content", {})
    if not content:
        return ["a body is not described"] if body else []
    kind = kind.partition(";")[0]
    if kind not in content:
        return [f"the type {kind!r} is not described"]
    if kind == "text/event-stream":
        wanted = content[kind]["x-itemSchema"]
        return [fault for data in streamed(body) for fault in faults(document, wanted, data)]
    return faults(document, content[kind]["schema"], body if kind == "text/plain" else json.loads(body))


def streamed(text: str) -> Iterator[Any]:
    """Yield the data of each event in a stream."""
    for line in text.splitlines():
        if line.startswith("data:"):
            yield json.loads(line.removeprefix("data:"))

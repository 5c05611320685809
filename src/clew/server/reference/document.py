"""The OpenAPI document, completed: examples of a real run, and errors as they are."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

EXAMPLES: Final = Path(__file__).with_name("examples.json")
"""Requests and answers by operation, as `GET /api/threads`. `python -m tests.server.story` records them."""
_EXAMPLES: Final[dict[str, Any]] = json.loads(EXAMPLES.read_text(encoding="utf-8"))
_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "What went wrong, and what to do (RFC 9457). `error` is the class that the Python API raises.",
    "required": ["type", "title", "status", "detail", "error"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "error": {"type": "string"},
    },
    "example": {
        "type": "about:blank",
        "title": "NotFound",
        "status": 404,
        "detail": "the thread does not exist",
        "error": "NotFound",
    },
}
_METHODS: Final = ("get", "post", "put", "patch", "delete")


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each operation: its method, path and description."""
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                yield method.upper(), path, item[method]


def completed(schema: dict[str, Any], base: str) -> dict[str, Any]:
    """Return the document for an application at `base`, with examples and with the errors that it really returns."""
    document = copy.deepcopy(schema)
    document["servers"] = [{"url": base}]
    document["components"].setdefault("schemas", {})["Problem"] = _PROBLEM
    document["components"]["responses"] = {
        "Problem": {
            "description": "An error.",
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    }
    for method, path, operation in operations(document):
        # Litestar describes its own form of errors, which this server does not use.
        operation["responses"].pop("400", None)
        operation["responses"]["default"] = {"$ref": "#/components/responses/Problem"}
        for parameter in operation.get("parameters", ()):
            _flatten(parameter)
        _show(operation, _EXAMPLES.get(f"{method} {path}", {}))
    return document


def _flatten(parameter: dict[str, Any]) -> None:
    """Describe an optional parameter by its type alone: a query has no null."""
    schema = parameter.get("schema", {})
    kinds = [each for each in schema.get("oneOf", ()) if each.get("type") != "null"]
    if len(kinds) == 1:
        parameter["schema"] = {key: value for key, value in schema.items() if key != "oneOf"} | kinds[0]
    parameter["schema"].pop("description", None)
    for name in ("deprecated", "allowEmptyValue", "allowReserved"):
        parameter.pop(name, None)


def _show(operation: dict[str, Any], example: dict[str, Any]) -> None:
    for place, name in (("path", "path"), ("query", "query"), ("header", "headers")):
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == place and parameter["name"] in example.get(name, {}):
                parameter["example"] = example[name][parameter["name"]]
    if "request" in example:
        operation["requestBody"]["content"]["application/json"]["example"] = example["request"]
    if "status" not in example:
        return
    response = operation["responses"].setdefault(str(example["status"]), {"description": ""})
    response["description"] = "The answer." if example.get("response") is not None else "Done; there is no content."
    if example.get("response") is not None:
        kind = example.get("type", "application/json")
        schema = {"type": "object"} if kind == "application/json" else {"type": "string"}
        response["content"] = {kind: {"schema": schema, "example": example["response"]}}
    if "etag" in example:
        response["headers"] = {
            "ETag": {"description": "Names the checkpoint, for If-Match.", "schema": {"type": "string"}}
            | {"example": example["etag"]}
        }

"""The OpenAPI document, completed: examples of a real run, and errors as they are."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from clew.server.problems import MEDIA_TYPE, ProblemDocument
from clew.server.problems import document as problem

EXAMPLES: Final = Path(__file__).with_name("examples.json")
"""Requests and answers by operation, as `GET /api/threads`. `python -m tests.server.story` records them."""
_EXAMPLES: Final[dict[str, Any]] = json.loads(EXAMPLES.read_text(encoding="utf-8"))
_EXAMPLE: Final = problem(404, "NotFound", "the thread does not exist")
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
    _, described = msgspec.json.schema_components((ProblemDocument,))
    document["components"]["schemas"]["Problem"] = {**described["ProblemDocument"], "title": "Problem"}
    document["components"]["responses"] = {
        "Problem": {
            "description": "An error.",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": _EXAMPLE}},
        }
    }
    for method, path, operation in operations(document):
        # Litestar describes its own form of errors, which this server does not use.
        operation["responses"].pop("400", None)
        for response in operation["responses"].values():
            _retyped(response)
        for statuses in ("4XX", "5XX"):
            operation["responses"][statuses] = {"$ref": "#/components/responses/Problem"}
        for parameter in operation.get("parameters", ()):
            _flatten(parameter)
        if "requestBody" in operation:
            operation["requestBody"]["required"] = _needs_fields(document, operation["requestBody"])
        _show(operation, _EXAMPLES.get(f"{method} {path}", {}))
    return document


def _retyped(response: dict[str, Any]) -> None:
    """Name the type of the content without parameters. A stream is text; `x-itemSchema` describes its events' data."""
    for kind, content in list(response.get("content", {}).items()):
        del response["content"][kind]
        kind = kind.partition(";")[0]
        if kind == "text/event-stream":
            # OpenAPI 3.2 has `itemSchema` for this, and 3.1 has nothing.
            content = {"schema": {"type": "string"}, "x-itemSchema": content["schema"]}
        response["content"][kind] = content


def _needs_fields(document: dict[str, Any], body: dict[str, Any]) -> bool:
    """Whether a body has required fields. One that is left out is an empty object."""
    schema = body["content"]["application/json"]["schema"]
    names = [each.get("$ref", "").rpartition("/")[2] for each in [schema, *schema.get("oneOf", ())]]
    return any(document["components"]["schemas"].get(name, {}).get("required") for name in names)


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
    response = operation["responses"][str(example["status"])]
    response["description"] = "The answer." if example["response"] is not None else "Done; there is no content."
    if example["response"] is not None:
        ((_, content),) = response["content"].items()
        content["example"] = example["response"]
    if "etag" in example:
        response["headers"] = {
            "ETag": {"description": "Names the checkpoint, for If-Match.", "schema": {"type": "string"}}
            | {"example": example["etag"]}
        }

"""The reference as a page of HTML, without scripts: every operation with its parameters and examples."""

from __future__ import annotations

import json
from html import escape
from typing import Any, Final
from urllib.parse import quote, urlencode

from clew.server.reference.document import operations
from clew.server.reference.words import anchor, code, kind, prose, table, text

_GROUPS: Final = {
    "threads": "Threads",
    "states": "States and checkpoints",
    "messages": "Messages and search",
    "events": "Events",
    "turns": "Turns",
    "operations": "The whole store",
    "conversations": "OpenAI's Conversations API",
    "health": "Health and metrics",
}
_ADDRESS: Final = "http://localhost:8700"


def page(document: dict[str, Any]) -> str:
    """Return the page for `document`."""
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {name: [] for name in _GROUPS}
    for method, path, operation in operations(document):
        groups[operation["tags"][0]].append((method, path, operation))
    menu, sections = [], []
    for tag, title in _GROUPS.items():
        links = "".join(
            f'<li><a href="#{operation["operationId"]}">{text(operation["summary"])}</a></li>'
            for _, _, operation in groups[tag]
        )
        menu.append(f'<h2><a href="#{tag}">{escape(title)}</a></h2><ul>{links}</ul>')
        shown = "".join(_operation(document, *each) for each in groups[tag])
        sections.append(f'<section id="{tag}"><h2>{escape(title)}</h2>{shown}</section>')
    menu.append('<h2><a href="#types">Types of answers</a></h2>')
    sections.append(_types(document))
    info = document["info"]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(info["title"])}: HTTP API</title>
<link rel="icon" href="studio/icon.svg">
<link rel="stylesheet" href="docs/style.css">
</head>
<body>
<nav aria-label="Operations">{"".join(menu)}</nav>
<main>
<header>
<h1>{escape(info["title"])}: HTTP API <small>{escape(info["version"])}</small></h1>
<p>{text(info["description"])}</p>
<p>Callers send a token: <code>Authorization: Bearer clew_…</code>. A server without tokens answers to its own machine only.
Errors are <a href="#{anchor("Problem")}">problem documents</a> (RFC 9457) with the name of the Python error and advice.
The same as <a href="docs/openapi.json">OpenAPI document</a>, for tools.</p>
</header>
{"".join(sections)}
</main>
</body>
</html>
"""


def _operation(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = escape(operation["operationId"])
    return f"""<article id="{name}">
<h3><a href="#{name}">{text(operation["summary"])}</a></h3>
<p class="route"><b class="{method.lower()}">{method}</b> <code>{escape(path)}</code></p>
{prose(operation["description"])}
{_parameters(operation)}{_body(document, body.get("schema", {}))}{_answers(document, operation)}
<h4>Example</h4>
<pre>{escape(_command(method, path, operation, body))}</pre>
{_example(operation)}
</article>
"""


def _parameters(operation: dict[str, Any]) -> str:
    rows = [
        (code(each["name"]), _place(each), kind(each["schema"], null=False), text(each.get("description", "")))
        for each in operation.get("parameters", ())
    ]
    return _titled("Parameters", table(("name", "in", "type", "meaning"), rows))


def _place(parameter: dict[str, Any]) -> str:
    return escape(parameter["in"]) + (", required" if parameter["required"] and parameter["in"] != "path" else "")


def _body(document: dict[str, Any], schema: dict[str, Any]) -> str:
    for each in [schema, *schema.get("oneOf", ())]:
        if "$ref" in each:
            schema = _component(document, each)
            break
    required = schema.get("required", ())
    rows = [
        (
            code(name),
            kind(each, null=False),
            "required" if name in required else "optional",
            text(each.get("description", "")),
        )
        for name, each in schema.get("properties", {}).items()
    ]
    return _titled("Body", table(("field", "type", "presence", "meaning"), rows))


def _answers(document: dict[str, Any], operation: dict[str, Any]) -> str:
    """The statuses with their types, and the fields of the answer if all goes well."""
    rows: dict[tuple[str, str], list[str]] = {}
    fields = ""
    for status, response in operation["responses"].items():
        if "$ref" in response:
            response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
        types = "<br>".join(_typed(*each) for each in response.get("content", {}).items())
        rows.setdefault((types or "no content", text(response["description"])), []).append(status)
        if status[0] == "2":
            fields = _fields_of_answer(document, response)
    shown = table(("status", "type", "meaning"), [(", ".join(statuses), *each) for each, statuses in rows.items()])
    return _titled("Answers", shown + fields)


def _typed(media: str, content: dict[str, Any]) -> str:
    if "x-itemSchema" in content:
        return f"{escape(media)}, data of each event: {kind(content['x-itemSchema'])}"
    shown = kind(content["schema"])
    return shown if media == "application/json" else f"{shown} ({escape(media)})"


def _fields_of_answer(document: dict[str, Any], response: dict[str, Any]) -> str:
    """The fields of each type that the answer may have, folded: the section of types has them, too."""
    shown = []
    for content in response.get("content", {}).values():
        schema = content.get("x-itemSchema", content["schema"])
        for each in schema.get("oneOf", [schema]):
            if "$ref" in each:
                name = each["$ref"].rpartition("/")[2]
                fields = _fields(_component(document, each))
                shown.append(f"<details><summary>Fields of {escape(name)}</summary>{fields}</details>")
    return "".join(shown)


def _fields(schema: dict[str, Any]) -> str:
    return table(("field", "type"), [(code(name), kind(each)) for name, each in schema.get("properties", {}).items()])


def _types(document: dict[str, Any]) -> str:
    """The section of types: those of answers. Those of bodies are shown with their operations."""
    shown = "".join(
        f'<article id="{anchor(name)}"><h3><a href="#{anchor(name)}">{escape(name)}</a></h3>'
        f"{prose(schema['description'])}{_fields(schema)}</article>"
        for name, schema in document["components"]["schemas"].items()
        if "description" in schema
    )
    return f'<section id="types"><h2>Types of answers</h2>{shown}</section>'


def _titled(title: str, content: str) -> str:
    return f"<h4>{title}</h4>{content}" if content else ""


def _component(document: dict[str, Any], reference: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"][reference["$ref"].rpartition("/")[2]]
    return found


def _command(method: str, path: str, operation: dict[str, Any], body: dict[str, Any]) -> str:
    """The example as a command for a shell."""
    given: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}}
    for each in operation.get("parameters", ()):
        if "example" in each:
            given[each["in"]][each["name"]] = each["example"]
    address = path.format(**{name: quote(str(value), safe="") for name, value in given["path"].items()})
    query = f"?{urlencode(given['query'])}" if given["query"] else ""
    parts = ["curl"] + ([] if method == "GET" else ["-X", method]) + [f"'{_ADDRESS}{address}{query}'"]
    lines = [" ".join(parts)]
    if operation.get("security"):
        lines.append("-H 'Authorization: Bearer clew_…'")
    lines += [f"-H '{name}: {value}'" for name, value in given["header"].items()]
    if "example" in body:
        lines.append("-H 'Content-Type: application/json'")
        lines.append("-d '" + json.dumps(body["example"], ensure_ascii=False).replace("'", "'\\''") + "'")
    return " \\\n  ".join(lines)


def _example(operation: dict[str, Any]) -> str:
    """The answer to the example."""
    ((status, response),) = ((status, each) for status, each in operation["responses"].items() if status[0] == "2")
    for media, content in response.get("content", {}).items():
        example = content["example"]
        shown = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
        tag = response.get("headers", {}).get("ETag", {}).get("example")
        head = f"{status} · {media}" + (f" · ETag: {tag}" if tag else "")
        return f"<details open><summary>{escape(head)}</summary><pre>{escape(shown)}</pre></details>"
    return f"<p class='empty'>{escape(status)}: no content</p>"

"""The reference as a page of HTML, without scripts: every operation with its parameters and examples."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any, Final
from urllib.parse import quote, urlencode

from clew.server.reference.document import operations

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
            f'<li><a href="#{operation["operationId"]}">{_text(operation["summary"])}</a></li>'
            for _, _, operation in groups[tag]
        )
        menu.append(f'<h2><a href="#{tag}">{escape(title)}</a></h2><ul>{links}</ul>')
        shown = "".join(_operation(document, *each) for each in groups[tag])
        sections.append(f'<section id="{tag}"><h2>{escape(title)}</h2>{shown}</section>')
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
<p>{_text(info["description"])}</p>
<p>Callers send a token: <code>Authorization: Bearer clew_…</code>. A server without tokens answers to its own machine only.
Errors are problem documents (RFC 9457) with the name of the Python error and advice.
The same as <a href="docs/openapi.json">OpenAPI document</a>, for tools.</p>
</header>
{"".join(sections)}
</main>
</body>
</html>
"""


def _operation(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    summary, description = (_text(operation.get(name, "")) for name in ("summary", "description"))
    return f"""<article id="{escape(operation["operationId"])}">
<h3><a href="#{escape(operation["operationId"])}">{summary}</a></h3>
<p class="route"><b class="{method.lower()}">{method}</b> <code>{escape(path)}</code></p>
<p>{description}</p>
{_parameters(operation)}{_fields(document, body.get("schema", {}))}
<h4>Example</h4>
<pre>{escape(_command(method, path, operation, body))}</pre>
{_answer(operation)}
</article>
"""


def _parameters(operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{_place(each)}</td>"
        f"<td>{escape(_kind(each['schema']))}</td><td>{_text(each.get('description', ''))}</td></tr>"
        for each in operation.get("parameters", ())
    )
    return _table("Parameters", ("name", "in", "type", "meaning"), rows)


def _place(parameter: dict[str, Any]) -> str:
    return escape(parameter["in"]) + (", required" if parameter["required"] and parameter["in"] != "path" else "")


def _fields(document: dict[str, Any], schema: dict[str, Any]) -> str:
    """The fields of the body."""
    schema = _resolved(document, schema)
    required = schema.get("required", ())
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_kind(_resolved(document, each)))}</td>"
        f"<td>{'required' if name in required else ''}</td></tr>"
        for name, each in schema.get("properties", {}).items()
    )
    return _table("Body", ("field", "type", ""), rows)


def _table(title: str, heads: tuple[str, ...], rows: str) -> str:
    if not rows:
        return ""
    cells = "".join(f"<th scope='col'>{escape(head)}</th>" for head in heads)
    return (
        f"<h4>{title}</h4><div class='wide'><table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    for each in [schema, *schema.get("oneOf", ())]:
        if "$ref" in each:
            found: dict[str, Any] = document["components"]["schemas"][each["$ref"].rpartition("/")[2]]
            return found
    return schema


def _kind(schema: dict[str, Any]) -> str:
    """The type in words: `integer, 1 to 200, default 50`."""
    if "oneOf" in schema:
        kinds = [_kind(each) for each in schema["oneOf"] if each.get("type") != "null"]
        return " or ".join(kinds)
    if "enum" in schema:
        words = " or ".join(map(str, filter(None, schema["enum"])))
    elif schema.get("type") == "array":
        words = f"list of {_kind(schema.get('items', {}))}"
    else:
        kind = schema.get("type", "any value")
        words = kind if isinstance(kind, str) else " or ".join(kind)
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        words += f", {least:g} to {most:,g}" if most < 1e6 else f", from {least:g}"
    default = schema.get("default")
    return words if default in (None, [], {}) else f"{words}, default {json.dumps(default)}"


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


def _answer(operation: dict[str, Any]) -> str:
    shown = []
    for status, response in operation["responses"].items():
        if status == "default":
            continue
        for kind, content in response.get("content", {}).items():
            example = content.get("example")
            text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
            tag = response.get("headers", {}).get("ETag", {}).get("example")
            head = f"{status} · {kind}" + (f" · ETag: {tag}" if tag else "")
            shown.append(f"<details open><summary>{escape(head)}</summary><pre>{escape(text)}</pre></details>")
        if not response.get("content"):
            shown.append(f"<p class='empty'>{escape(status)}: no content</p>")
    return "".join(shown)


def _text(text: str) -> str:
    """Prose with its `code` marked."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)).replace("\n\n", "</p><p>")

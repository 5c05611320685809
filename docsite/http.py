"""Write the list of HTTP routes in docs/reference/http.md from the server's OpenAPI document.

python -m docsite.http
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

import clew
import clew.server

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "http.md"
BEGIN, END = "<!-- begin of routes: python -m docsite.http -->\n", "<!-- end of routes -->"
METHODS = ("get", "post", "put", "patch", "delete")


async def _document() -> dict[str, Any]:
    async with clew.connect("memory://") as memory:
        transport = httpx.ASGITransport(app=clew.server.app(memory))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.get("/docs/openapi.json")
            answer.raise_for_status()
            document: dict[str, Any] = answer.json()
            return document


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of a server."""
    return asyncio.run(_document())


def routes(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the operations by method and path: `GET /api/threads`."""
    return {
        f"{method.upper()} {path}": item[method]
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    }


def described(name: str, operation: dict[str, Any], document: dict[str, Any]) -> str:
    """Return the section of one route. Ids in the path and `user_id` mean the same everywhere: the page's head says what."""
    done = [code for code in operation["responses"] if code < "300"]
    text = [f"### `{name}`", f"{ended(operation.get('summary', name))} Answers with {' or '.join(done)}.", ""]
    rows = [
        (each["name"], each["in"], bool(each.get("required")), each["schema"], each.get("description"))
        for each in operation.get("parameters", [])
        if each["in"] != "path" and each["name"] != "user_id"
    ]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        options = content["schema"].get("oneOf", [content["schema"]])
        schema = next((found for each in options if "properties" in (found := resolved(each, document))), {})
        required = schema.get("required", ())
        for field, each in schema.get("properties", {}).items():
            rows.append((field, "body", field in required, each, resolved(each, document).get("description")))
    if rows:
        text += ["| parameter | in | type | meaning |", "|---|---|---|---|"]
        for field, place, required, schema, about in rows:
            where = f"{place}, required" if required else place
            said = " ".join((about or "").split()).replace("|", "\\|")
            text.append(f"| `{field}` | {where} | {type_of(resolved(schema, document))} | {said} |")
        text.append("")
    return "\n".join(text)


def ended(sentence: str) -> str:
    """Return `sentence` with a full stop, if it has none."""
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


def resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that `schema` refers to, or itself."""
    named = schema.get("$ref")
    return schema if named is None else document["components"]["schemas"][named.rpartition("/")[2]]


def type_of(schema: dict[str, Any]) -> str:
    """Return the type of a parameter in a few words."""
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"] if each is not None)
    if "oneOf" in schema:
        return " or ".join(part for each in schema["oneOf"] if (part := type_of(each)) != "null")
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    if "$ref" in schema:
        return "object"
    named = schema.get("type") or "any"
    return " or ".join(named) if isinstance(named, list) else str(named)


def written(document: dict[str, Any]) -> str:
    """Return the list of all routes, by group."""
    groups: dict[str, list[str]] = {}
    for name, operation in routes(document).items():
        group = (operation.get("tags") or ["other"])[0]
        groups.setdefault(group, []).append(described(name, operation, document))
    return "\n".join(f"## {group.capitalize()}\n\n" + "\n".join(each) for group, each in groups.items())


def page(text: str, document: dict[str, Any]) -> str:
    """Return the page `text` with the routes of `document`."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{written(document).strip()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8"), openapi()), "utf-8")

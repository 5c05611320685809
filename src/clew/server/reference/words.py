"""Types and prose as HTML: schemas in words, with links to the types that they name."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from typing import Any


def anchor(name: str) -> str:
    """Return the id of a type's place on the page."""
    return f"type-{name}"


def kind(schema: dict[str, Any], *, null: bool = True) -> str:
    """Return the type in words: `list of Message`, `integer, 1 to 200, default 50`. Without `null`, that is left out."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{anchor(name)}">{escape(name)}</a>'
    if "oneOf" in schema:
        return " or ".join(kind(each) for each in schema["oneOf"] if null or each.get("type") != "null")
    words = escape(_bare(schema))
    if schema.get("type") == "array":
        words = f"list of {kind(schema.get('items', {}))}"
    elif schema.get("type") == "object" and schema.get("additionalProperties"):
        words = f"object, each value: {kind(schema['additionalProperties'])}"
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        words += f", {least:g} to {most:,g}" if most < 1e6 else f", from {least:g}"
    default = schema.get("default")
    return words if default in (None, [], {}) else f"{words}, default {escape(json.dumps(default))}"


def _bare(schema: dict[str, Any]) -> str:
    """The type of a single value."""
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " or ".join(str(each) for each in schema["enum"] if each is not None)
    if schema.get("format") == "date-time":
        return "time (ISO 8601)"
    named = schema.get("type", "any value")
    return named if isinstance(named, str) else " or ".join(named)


def text(said: str) -> str:
    """Return prose with its `code` marked."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(said))


def prose(said: str) -> str:
    """Return paragraphs and lists."""
    parts = []
    for part in said.split("\n\n"):
        if part.startswith("- "):
            items = "".join(f"<li>{text(each)}</li>" for each in re.split(r"^- ", part, flags=re.MULTILINE)[1:])
            parts.append(f"<ul>{items}</ul>")
        elif part:
            parts.append(f"<p>{text(part)}</p>")
    return "".join(parts)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already, or nothing without rows."""
    if not rows:
        return ""
    head = "".join(f"<th scope='col'>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def code(name: str) -> str:
    """Return a name as code."""
    return f"<code>{escape(name)}</code>"

"""The reference: every operation is described, its examples are those of a real run, and the page needs no network."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from html import unescape
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

import clew
from clew.server import app
from clew.server.reference.document import operations
from clew.server.reference.words import prose
from tests.server import story
from tests.server.support import client


async def read(path: str) -> httpx.Response:
    async with client(clew.connect("memory://")) as http:
        response = await http.get(path)
        assert response.status_code == 200
        return response


@pytest.fixture(scope="module")
def document() -> Any:
    return asyncio.run(read("/docs/openapi.json")).json()


def test_every_operation_is_described_and_has_examples(document):
    assert document["openapi"].startswith("3.1")
    seen = set()
    for method, path, operation in operations(document):
        name = f"{method} {path}"
        advice = f"{name}: use it in tests/server/story.py, and run python -m tests.server.story"
        assert operation["summary"], name
        assert operation["description"].endswith("."), name
        assert operation["operationId"] not in seen, name
        seen.add(operation["operationId"])
        if "requestBody" in operation:
            body = operation["requestBody"]["content"]["application/json"]
            assert "example" in body, advice
            for each in [body["schema"], *body["schema"].get("oneOf", ())]:
                fields = document["components"]["schemas"].get(each.get("$ref", "").rpartition("/")[2], {})
                for field, schema in fields.get("properties", {}).items():
                    assert schema.get("description", "").endswith("."), f"{name}: {field}"
        (answer,) = (answer for status, answer in operation["responses"].items() if status[0] == "2")
        assert all("example" in each for each in answer.get("content", {}).values()), advice
        for parameter in operation.get("parameters", ()):
            assert parameter["description"], f"{name}: {parameter['name']}"
            assert parameter["in"] != "path" or "example" in parameter, advice
    assert len(seen) > 40


def _dateless(key: str) -> str:
    """Return a field's name; the name of a day becomes the same for all days."""
    return re.sub(r"^\d{4}-\d\d-\d\d$", "day", key)


def alike(one: Any, other: Any, at: str = "") -> None:
    """Check that two answers have the same fields and types."""
    assert type(one) is type(other), f"{at}: {one!r}, {other!r}"
    if isinstance(one, dict):
        assert [_dateless(key) for key in one] == [_dateless(key) for key in other], at
        for key, left, right in zip(one, one.values(), other.values(), strict=True):
            alike(left, right, f"{at}.{key}")
    if isinstance(one, list):
        assert len(one) == len(other), at
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            alike(left, right, f"{at}[{number}]")


def test_the_examples_are_those_of_a_real_run(document):
    told = asyncio.run(asyncio.wait_for(story.tell(), 120))
    described = {f"{method} {path}": operation for method, path, operation in operations(document)}
    assert told.keys() == described.keys()
    for name, example in told.items():
        answers = described[name]["responses"]
        assert answers["4XX"] == answers["5XX"] == {"$ref": "#/components/responses/Problem"}
        answer = answers[str(example["status"])]
        assert ("content" in answer) == (example["response"] is not None), name
        if "content" in answer:
            ((kind, content),) = answer["content"].items()
            assert kind == example.get("type", "application/json"), name
            alike(content["example"], example["response"], f"{name}; run python -m tests.server.story")


class Links(HTMLParser):
    """Anchors, and what the page loads or points to."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        assert not {"style", "onclick", "onload"} & given.keys(), "the policy forbids inline code and styles"
        self.ids |= {given["id"] or ""} if "id" in given else set()
        self.targets += [given[name] or "" for name in ("href", "src") if name in given]


def test_the_page_shows_every_operation_and_loads_nothing_from_elsewhere(document):
    response = asyncio.run(read("/docs"))
    assert response.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in response.headers["content-security-policy"]
    links = Links()
    links.feed(response.text)
    assert not links.tags & {"script", "style", "iframe", "img"}
    for target in links.targets:
        assert target.startswith("#") or target in ("docs/style.css", "docs/openapi.json", "studio/icon.svg"), target
        assert not target.startswith("#") or target[1:] in links.ids, target
    for _, path, operation in operations(document):
        assert operation["operationId"] in links.ids
        assert path in response.text
    asyncio.run(read("/studio/icon.svg"))
    assert asyncio.run(read("/docs/style.css")).headers["content-type"].startswith("text/css")


def test_the_page_links_every_answer_to_its_type(document):
    page = asyncio.run(read("/docs")).text
    for _, _, operation in operations(document):
        (shown,) = re.findall(f'<article id="{operation["operationId"]}">.*?</article>', page, re.DOTALL)
        told = json.dumps([{**each, "example": None} for each in operation["responses"].values()])
        for name in re.findall(r'#/components/schemas/(\w+)"', told):
            assert f'href="#type-{name}"' in shown, f"{operation['operationId']}: {name}"
        assert 'href="#type-Problem"' in shown


def test_prose_keeps_its_paragraphs_lists_and_code():
    said = prose("One\n`<b>`.\n\n- `a`: first\n- second\n\nThe end.")
    listed = "<ul><li><code>a</code>: first\n</li><li>second</li></ul>"
    assert said == f"<p>One\n<code>&lt;b&gt;</code>.</p>{listed}<p>The end.</p>"


def test_a_mounted_application_names_its_own_address():
    async def main() -> None:
        transport = httpx.ASGITransport(app=app(clew.connect("memory://")), root_path="/clew")
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            document = (await http.get("/clew/docs/openapi.json")).json()
            assert document["servers"] == [{"url": "/clew"}]

    asyncio.run(main())


def test_every_operation_has_a_command_that_a_shell_can_read(document):
    commands = re.findall(r"<pre>(curl .*?)</pre>", asyncio.run(read("/docs")).text, re.DOTALL)
    assert len(commands) == len(list(operations(document)))
    for command in map(unescape, commands):
        words = shlex.split(command)
        if "-d" in words:
            json.loads(words[words.index("-d") + 1])

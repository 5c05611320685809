"""Bodies that are left out or are no JSON."""

from __future__ import annotations

import pytest

from tests.server.test_api import served


def test_a_body_without_required_fields_may_be_left_out(document):
    async def test(memory, http):
        for text in ("To Lyon!", "By bus?"):
            await memory.aput_checkpoint("t", {"last": text}, messages=[{"role": "user", "content": text}])
        for method, path, status in (
            ("POST", "/api/threads/t/fork", 201),
            ("POST", "/api/threads/t/rewind", 201),
            ("POST", "/api/threads/t/turns", 201),
            ("PATCH", "/api/threads/t", 200),
            ("POST", "/v1/conversations", 200),
        ):
            answer = await http.request(method, path)
            assert answer.status_code == status, f"{path}: {answer.text}"
            described = document["paths"][path.replace("threads/t", "threads/{thread_id}")][method.lower()]
            assert described["requestBody"]["required"] is False, path
        assert await memory.aget_state("t") == {"last": "To Lyon!"}

    served(test)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/threads/t/checkpoints", "state"),
        ("/api/threads/t/messages", "messages"),
        ("/api/threads/t/attachments?checkpoint_id=c1", "attachments"),
        ("/api/turns/t/checkpoints", "state"),
        ("/v1/conversations/conv_1/items", "items"),
    ],
)
def test_a_body_that_is_needed_and_left_out_names_the_field(path, field):
    async def test(_, http):
        for answer in (await http.post(path), await http.post(path, json={})):
            assert answer.status_code == 400
            assert answer.json()["detail"] == f"body: Object missing required field `{field}`"

    served(test)


def test_a_body_that_is_not_json_says_so():
    async def test(_, http):
        for content in (b"{", b"state=1", b"\xff"):
            answer = await http.post("/api/threads/t/checkpoints", content=content)
            assert answer.status_code == 400
            assert answer.json()["detail"].startswith("the body is not JSON: ")

    served(test)

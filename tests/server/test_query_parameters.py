"""Queries: a parameter that a route does not know is refused."""

from __future__ import annotations

import pytest

import clew
from clew.server import app
from clew.server.problems import Problem
from clew.server.query_parameters import checked, parameters
from clew.server.routes import threads
from tests.server.test_api import served


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("threads?userid=ana", "unknown parameter 'userid'; did you mean 'user_id'?"),
        ("threads?tags=b&serch=zz", "unknown parameter 'tags'; did you mean 'tag'?"),
        ("threads?tag=b&serch=", "unknown parameter 'serch'; did you mean 'search'?"),
        ("threads?q=lyon", "unknown parameter 'q'; this route takes before, limit, metadata, offset, search, tag"),
        ("threads/t/state?chekpoint_id=c1", "did you mean 'checkpoint_id'?"),
        ("me?x=1", "unknown parameter 'x'; this route takes no parameters"),
        ("status?user_id=ana", "unknown parameter 'user_id'; this route takes no parameters"),
        ("events?since=1", "unknown parameter 'since'; this route takes user_id"),
        (f"threads?{'x' * 5000}=1", "unknown parameter 'xxx"),
        ("threads?user_id=ana&user_id=bob", "parameter 'user_id' is given more than once"),
    ],
)
def test_a_parameter_that_a_route_does_not_know_is_refused(path, said):
    async def test(memory, http):
        await memory.aput_state({"thread_id": "t", "user_id": "bob"}, 1)
        answer = await http.get(f"/api/{path}")
        assert answer.status_code == 400, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["error"] == "InvalidRequest"
        assert said in answer.json()["detail"]
        assert len(answer.json()["detail"]) < 400

    served(test)


def test_an_unknown_parameter_changes_nothing():
    async def test(memory, http):
        await memory.aput_state("t", 1)
        assert (await http.delete("/api/threads/t?userid=ana")).status_code == 400
        assert (await http.post("/api/threads/t/fork?usr_id=ana", json={"thread_id": "t2"})).status_code == 400
        assert (await http.post("/api/cleanup?user_id=ana", json={"policy": {"max_history": 1}})).status_code == 400
        assert [each.thread_id for each in await memory.alist_threads({})] == ["t"]

    served(test)


def test_every_route_of_ours_checks_its_parameters():
    async def test(_, http):
        checked = 0
        for route in app(clew.connect("memory://"))._inner.routes:
            for method in sorted(set(route.methods) - {"OPTIONS"}) if route.path.startswith("/api/") else ():
                place = route.path.replace(":str}", "}").format_map(dict.fromkeys(route.path_parameters, "x"))
                answer = await http.request(method, f"{place}?no_such_name=1", json={})
                assert answer.json()["detail"].startswith("unknown parameter 'no_such_name'"), f"{method} {place}"
                checked += 1
        assert checked > 30

    served(test)


def test_all_declared_parameters_are_known(document):
    handlers = {}
    for route in app(clew.connect("memory://"))._inner.routes:
        for handler in getattr(route, "route_handlers", ()):
            for method in handler.http_methods:
                handlers[method.lower(), route.path.replace(":str}", "}")] = handler
    for path, item in document["paths"].items():
        for method, operation in item.items():
            declared = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
            assert set(parameters(handlers[method, path])) == declared, f"{method} {path}"


def test_a_parameter_that_is_a_list_may_be_repeated():
    async def test(memory, http):
        await memory.aput_thread("t", {"tags": ["a", "b"]})
        await memory.aput_thread("u", {"tags": ["a"]})
        found = (await http.get("/api/threads?tag=a&tag=b")).json()["threads"]
        assert [each["thread_id"] for each in found] == ["t"]

    served(test)


def test_strangers_learn_no_names_of_parameters():
    async def test(_, http):
        answer = await http.get("/api/threads?userid=ana")
        assert answer.status_code == 401
        assert "user_id" not in answer.text

    served(test, token="")


def test_parameters_of_openai_that_clew_lacks_are_ignored():
    async def test(_, http):
        made = (await http.post("/v1/conversations", json={})).json()["id"]
        listed = await http.get(f"/v1/conversations/{made}/items?include[]=reasoning.encrypted_content&limit=3")
        assert listed.status_code == 200

    served(test)


@pytest.mark.parametrize("path", ["/?v=2", "/docs?v=2", "/studio/icon.svg?v=2", "/healthz?probe=1"])
def test_pages_and_health_checks_take_any_query(path):
    async def test(_, http):
        assert (await http.get(path)).status_code == 200

    served(test)


def test_a_query_that_is_no_text_is_refused():
    async def test(_, http):
        scope_query = b"caf\xff=1&limit=%ff"
        answers = []

        async def inner(scope, receive, send):
            answers.append("passed")

        layer = checked(inner)
        handler = next(each for each in threads.HANDLERS if each.fn.__name__ == "list_threads")
        with pytest.raises(Problem, match="unknown parameter"):
            await layer({"query_string": scope_query, "method": "GET", "route_handler": handler}, None, None)
        assert answers == []
        assert (await http.get("/api/threads?limit=%ff")).status_code == 400

    served(test)

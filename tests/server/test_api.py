"""The HTTP API: every route does what the method of the checkpointer does."""

from __future__ import annotations

import asyncio
from typing import Any

import clew
from clew.server import Limits
from tests.server.support import client


def served(test: Any, **options: Any) -> None:
    """Run an async test with a client of a server on a memory store."""

    async def main() -> None:
        memory = clew.connect("memory://")
        async with client(memory, **options) as http:
            await test(memory, http)

    asyncio.run(main())


def test_a_state_is_saved_and_loaded_with_its_types():
    async def test(memory, http):
        state = {"plan": {"$type": "tuple", "value": [1, 2]}, "big": {"$type": "int", "value": hex(2**70)}}
        saved = await http.post("/api/threads/trip/checkpoints", json={"state": state, "node_name": "plan", "step": 3})
        assert saved.status_code == 201
        assert await memory.aget_state("trip") == {"plan": (1, 2), "big": 2**70}
        loaded = await http.get("/api/threads/trip/state")
        assert loaded.json()["state"] == state
        assert loaded.json()["metadata"]["node_name"] == "plan"
        assert loaded.headers["etag"] == saved.headers["etag"]

    served(test)


def test_a_description_is_saved_and_loaded_with_its_types():
    async def test(memory, http):
        about = {"metadata": {"seats": {"$type": "tuple", "value": [1, 2]}}}
        described = await http.patch("/api/threads/trip", json=about)
        assert described.json()["metadata"] == about["metadata"]
        assert (await memory.aget_thread("trip")).metadata == {"seats": (1, 2)}
        # What was read can be written back.
        again = await http.patch("/api/threads/trip", json={"metadata": described.json()["metadata"]})
        assert again.json()["metadata"] == about["metadata"]

    served(test)


def test_a_state_that_nobody_in_particular_saved_names_no_user():
    async def test(_, http):
        saved = await http.post("/api/threads/trip/checkpoints", json={"state": 1})
        loaded = await http.get("/api/threads/trip/state")
        assert saved.json()["user_id"] is None
        assert loaded.json()["metadata"]["user_id"] is None

    served(test)


def test_a_thread_id_may_contain_slashes_and_anything_else():
    async def test(memory, http):
        for thread_id, path in (("a/b", "a%2Fb"), ("ü ?#%", "%C3%BC%20%3F%23%25")):
            await http.post(f"/api/threads/{path}/checkpoints", json={"state": 1})
            assert await memory.aget_state(thread_id) == 1
            assert (await http.get(f"/api/threads/{path}")).json()["thread_id"] == thread_id

    served(test)


def test_if_match_refuses_a_head_that_has_moved():
    async def test(memory, http):
        first = await http.post("/api/threads/t/checkpoints", json={"state": 1})
        match = {"If-Match": first.headers["etag"]}
        assert (await http.post("/api/threads/t/checkpoints", json={"state": 2}, headers=match)).status_code == 201
        late = await http.post("/api/threads/t/checkpoints", json={"state": 3}, headers=match)
        assert late.status_code == 412
        assert late.headers["content-type"] == "application/problem+json"
        assert late.json()["error"] == "ConflictError"
        assert await memory.aget_state("t") == 2
        wrong = await http.post("/api/threads/t/checkpoints", json={"state": 3}, headers={"If-Match": "1, 2"})
        assert wrong.status_code == 400

    served(test)


def test_if_none_match_sends_no_state_that_the_caller_has():
    async def test(_, http):
        saved = await http.post("/api/threads/t/checkpoints", json={"state": 1})
        again = await http.get("/api/threads/t/state", headers={"If-None-Match": saved.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")

    served(test)


def test_a_checkpoint_id_with_dots_and_quotes_has_an_etag():
    async def test(memory, http):
        await memory.aput_checkpoint("t", 1, new_id='v1.2"ü')
        tag = (await http.get("/api/threads/t/state")).headers["etag"]
        saved = await http.post("/api/threads/t/checkpoints", json={"state": 2}, headers={"If-Match": tag})
        assert saved.json()["parent_id"] == 'v1.2"ü'

    served(test)


def test_a_repeated_request_with_an_idempotency_key_changes_nothing():
    async def test(memory, http):
        key = {"Idempotency-Key": "k1"}
        body = {"state": {"n": 1}, "messages": [{"role": "user", "content": "hi"}]}
        first = await http.post("/api/threads/t/checkpoints", json=body, headers=key)
        await http.post("/api/threads/t/checkpoints", json={"state": {"n": 2}})
        second = await http.post("/api/threads/t/checkpoints", json=body, headers=key)
        assert first.json() == second.json()
        assert await memory.aget_state("t") == {"n": 2}
        change = {"append": {"log": [1]}, "messages": [{"role": "user", "content": "again"}]}
        for _ in range(3):
            await http.patch("/api/threads/t/state", json=change, headers=key)
            await http.post(
                "/api/threads/t/messages", json={"messages": [{"role": "user", "content": "x"}]}, headers=key
            )
            await http.post("/api/threads/t/fork", json={}, headers=key)
        assert (await memory.aget_state("t"))["log"] == [1]
        assert [each.text() for each in await memory.alist_messages("t")] == ["hi", "again", "x"]
        assert len(await memory.alist_threads({}, limit=None)) == 2

    served(test)


def test_fields_are_changed_without_sending_the_state():
    async def test(memory, http):
        await memory.aput_state("t", {"a": 1, "log": [1], "old": 0})
        change = {"set": {"a": 2}, "append": {"log": [2]}, "remove": ["old"]}
        assert (await http.patch("/api/threads/t/state", json=change)).status_code == 201
        assert await memory.aget_state("t") == {"a": 2, "log": [1, 2]}

    served(test)


def test_messages_are_appended_listed_rendered_and_deleted():
    async def test(_, http):
        call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
        said = [
            {"role": "user", "content": "1+1?", "message_id": "m/1"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "2"},
        ]
        assert (await http.post("/api/threads/t/messages", json={"messages": said})).status_code == 201
        page = (await http.get("/api/threads/t/messages", params={"limit": 2})).json()
        assert [each["role"] for each in page["messages"]] == ["user", "assistant"]
        rest = (await http.get("/api/threads/t/messages", params={"after": page["next"]})).json()
        assert [each["role"] for each in rest["messages"]] == ["tool"]
        assert rest["next"] is None
        rendered = (await http.get("/api/threads/t/messages", params={"as": "anthropic"})).json()
        assert rendered["messages"][1]["content"][0]["type"] == "tool_use"
        assert (await http.get("/api/threads/t/messages/m%2F1")).json()["content"] == "1+1?"
        assert (await http.delete("/api/threads/t/messages/m%2F1")).status_code == 204
        assert (await http.get("/api/threads/t/messages/m%2F1")).status_code == 404

    served(test)


def test_a_message_without_a_usable_role_is_refused():
    async def test(memory, http):
        for role in ("", "damaged"):
            said = {"messages": [{"role": role, "content": "hi"}]}
            for refused in (
                await http.post("/api/threads/t/messages", json=said),
                await http.post("/api/threads/t/checkpoints", json={"state": {}, **said}),
                await http.patch("/api/threads/t/state", json={"set": {"a": 1}, **said}),
            ):
                assert refused.status_code == 400
                assert "'assistant'" in refused.json()["detail"]
        assert await memory.aget_thread("t") is None

    served(test)


def test_history_pages_and_differences():
    async def test(memory, http):
        ids = [(await memory.aput_checkpoint("t", {"n": n})).checkpoint_id for n in range(5)]
        page = (await http.get("/api/threads/t/checkpoints", params={"limit": 3})).json()
        assert [each["checkpoint_id"] for each in page["checkpoints"]] == ids[:1:-1]
        rest = (await http.get("/api/threads/t/checkpoints", params={"before": page["next"]})).json()
        assert [each["checkpoint_id"] for each in rest["checkpoints"]] == ids[1::-1]
        states = (await http.get("/api/threads/t/history", params={"limit": 2})).json()["checkpoints"]
        assert [each["state"]["n"] for each in states] == [4, 3]
        changes = (await http.get("/api/threads/t/diff", params={"from": ids[0]})).json()["changes"]
        assert changes == [{"path": ["n"], "kind": "changed", "before": 0, "after": 4, "count": None, "place": "n"}]
        assert (await http.get("/api/threads/t/diff", params={"from": "nope"})).status_code == 404
        assert (await http.delete(f"/api/threads/t/checkpoints/{ids[0]}")).status_code == 204
        assert (await http.delete(f"/api/threads/t/checkpoints/{ids[0]}")).status_code == 404

    served(test)


def test_threads_are_described_forked_listed_and_deleted():
    async def test(memory, http):
        await memory.aput_state("t", {"n": 1})
        described = await http.patch("/api/threads/t", json={"thread_name": "Trip", "tags": ["rail"]})
        assert described.json()["thread_name"] == "Trip"
        fork = await http.post("/api/threads/t/fork", json={"thread_id": "t2"})
        assert fork.status_code == 201
        assert await memory.aget_state("t2") == {"n": 1}
        assert (await http.post("/api/threads/t/fork", json={"thread_id": "t2"})).status_code == 409
        page = (await http.get("/api/threads", params={"limit": 1})).json()
        assert len(page["threads"]) == 1
        second = (await http.get("/api/threads", params={"limit": 1, "before": page["next"]})).json()
        assert {each["thread_id"] for each in page["threads"] + second["threads"]} == {"t", "t2"}
        assert second["next"] is None
        assert (await http.delete("/api/threads/t")).status_code == 204
        assert (await http.get("/api/threads/t")).status_code == 404

    served(test)


def test_attachments_are_kept_with_a_checkpoint():
    async def test(memory, http):
        saved = await memory.aput_checkpoint("t", 1)
        where = {"checkpoint_id": saved.checkpoint_id}
        body = {"attachments": {"draft": {"$type": "bytes", "value": "aGk="}}}
        assert (await http.post("/api/threads/t/attachments", json=body, params=where)).status_code == 201
        assert await memory.alist_attachments(saved.config) == {"draft": b"hi"}
        assert (await http.get("/api/threads/t/attachments", params=where)).json() == body

    served(test)


def test_a_turn_holds_the_thread_until_it_ends():
    async def test(memory, http):
        begun = await http.post("/api/threads/t/turns", json={"begin": {"n": 0}})
        turn_id = begun.json()["turn_id"]
        assert begun.json()["state"] == {"n": 0}
        other = await http.post("/api/threads/t/turns", json={"wait": 0})
        assert (other.status_code, other.json()["error"]) == (423, "LeaseError")
        body = {"state": {"n": 1}, "messages": [{"role": "user", "content": "hi"}]}
        saved = await http.post(f"/api/turns/{turn_id}/checkpoints", json=body)
        assert saved.status_code == 201
        assert await memory.aget_state("t") == {"n": 1}
        assert (await http.delete(f"/api/turns/{turn_id}")).status_code == 204
        assert (await http.post(f"/api/turns/{turn_id}/checkpoints", json=body)).status_code == 404
        again = await http.post("/api/threads/t/turns", json={"wait": 0})
        assert again.json()["state"] == {"n": 1}
        await http.delete(f"/api/turns/{again.json()['turn_id']}")

    served(test)


def test_twenty_parallel_turns_over_http_keep_twenty_turns():
    async def test(memory, http):
        async def one(number):
            begun = await http.post("/api/threads/t/turns", json={"begin": {"log": []}})
            turn = begun.json()
            turn["state"]["log"].append(number)
            saved = await http.post(f"/api/turns/{turn['turn_id']}/checkpoints", json={"state": turn["state"]})
            assert saved.status_code == 201, saved.text
            await http.delete(f"/api/turns/{turn['turn_id']}")

        await asyncio.gather(*(one(number) for number in range(20)))
        assert sorted((await memory.aget_state("t"))["log"]) == list(range(20))

    served(test)


def test_statistics_status_cleanup_verification_and_erasure():
    async def test(memory, http):
        for n in range(4):
            await memory.aput_checkpoint({"thread_id": "t", "user_id": "ana"}, {"n": n})
        assert (await http.get("/api/stats")).json()["total_checkpoints"] == 4
        assert (await http.get("/api/status")).json()["primary_healthy"] is True
        policy = {"policy": {"max_history": 1}}
        assert (await http.post("/api/cleanup", json=policy)).json()["checkpoints"] == 3
        assert await memory.asize({"thread_id": "t", "user_id": "ana"}) == 4
        await http.post("/api/cleanup", json={**policy, "dry_run": False})
        by_own_rules = await http.post("/api/cleanup", json={"dry_run": False})
        assert (by_own_rules.status_code, by_own_rules.json()["checkpoints"]) == (200, 0)
        assert await memory.asize({"thread_id": "t", "user_id": "ana"}) == 1
        assert (await http.post("/api/verify")).json()["damage"] == []
        assert (await http.post("/api/compact")).status_code == 200
        assert (await http.delete("/api/users/ana")).json() == {"threads": 1}

    served(test)


def test_health_checks_need_no_token():
    async def test(_, http):
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.get("/readyz")).status_code == 200
        assert (await http.get("/api/threads")).status_code == 401

    served(test, token="")


def test_wrong_requests_say_what_is_wrong():
    async def test(_, http):
        for response, status, said in (
            (await http.get("/api/threads?limit=0"), 400, "limit"),
            (await http.get("/api/threads?limit=x"), 400, "limit"),
            (await http.post("/api/threads/t/checkpoints", json={"stat": 1}), 400, "stat"),
            (await http.post("/api/threads/t/checkpoints", content=b"{"), 400, "JSON"),
            (await http.post("/api/threads/t/messages", json={"messages": [{"rol": "user"}]}), 400, "role"),
            (await http.patch("/api/threads/t", json={"nam": "x"}), 400, "nam"),
            (await http.post("/api/cleanup", json={"policy": {}}), 400, "max_age"),
            (await http.get("/api/nothing"), 404, ""),
            (await http.put("/api/threads/t"), 405, ""),
        ):
            assert response.status_code == status, response.text
            assert response.headers["content-type"] == "application/problem+json"
            assert said in response.json()["detail"]

    served(test)


def test_the_body_and_the_rate_are_bounded():
    async def test(_, http):
        large = await http.post("/api/threads/t/checkpoints", json={"state": "x" * 2000})
        assert (large.status_code, large.json()["error"]) == (413, "BodyTooLarge")

        async def pieces():
            for _ in range(3):
                yield b" " * 500

        streamed = await http.post("/api/threads/t/checkpoints", content=pieces())
        assert streamed.status_code == 413
        answers = [(await http.get("/healthz")).status_code for _ in range(20)]
        assert answers[0] == 200
        assert answers[-1] == 429

    served(test, limits=Limits(body_bytes=1000, rate=0.001, burst=10))


def test_messages_are_found_in_all_threads_of_the_user():
    async def test(memory, http):
        for number in range(5):
            config = {"thread_id": f"t{number}", "user_id": "ana"}
            await memory.aput_messages(config, [{"role": "user", "content": f"To Lyon, {number}"}])
        await memory.aput_messages({"thread_id": "b", "user_id": "bob"}, [{"role": "user", "content": "To Lyon!"}])
        first = (await http.get("/api/search", params={"q": "lyon", "limit": 3})).json()
        rest = (await http.get("/api/search", params={"q": "lyon", "limit": 3, "before": first["next"]})).json()
        assert [each["thread_id"] for each in first["hits"] + rest["hits"]] == ["t4", "t3", "t2", "t1", "t0"]
        assert rest["next"] is None
        assert (await http.get("/api/search", params={"q": "lyon", "before": "nonsense"})).status_code == 400
        assert (await http.get("/api/search")).status_code == 400

    served(test, token="ana")


def test_metrics_count_requests_by_route_and_name_nobody(caplog):
    caplog.set_level("INFO", "clew.server.access")

    async def test(_, http):
        await http.get("/api/threads/of-ana/state", params={"checkpoint_id": "s3cret"})
        await http.get("/api/threads/of-ana/state", params={"s3cret": "s3cret"})
        await http.get("/made/up")
        text = (await http.get("/metrics")).text
        assert 'route="/api/threads/{thread_id}/state",status="404"} 1.0' in text
        assert "clew_http_requests_in_flight 1.0" in text  # This one.
        assert "of-ana" not in text
        assert "s3cret" not in text
        assert "made" not in text

    served(test, token="ana")
    assert '"caller": "ana"' in caplog.text
    assert "s3cret" not in caplog.text
    assert "of-ana" not in caplog.text


def test_an_answer_is_regenerated_and_the_old_one_leaves_the_branch():
    async def test(memory, http):
        for text in ("To Lyon!", "By bus."):
            role = "user" if text.endswith("!") else "assistant"
            await memory.aput_checkpoint("t", {"last": text}, messages=[{"role": role, "content": text}])
        first = (await http.get("/api/threads/t/checkpoints")).json()["checkpoints"][-1]["checkpoint_id"]
        assert (await http.post("/api/threads/t/rewind", json={"to": first})).status_code == 201
        await http.post("/api/threads/t/messages", json={"messages": [{"role": "assistant", "content": "By train."}]})

        async def said(**params):
            listed = (await http.get("/api/threads/t/messages", params=params)).json()["messages"]
            return [each["content"] for each in listed]

        assert await said() == ["To Lyon!", "By train."]
        assert await said(branches="all") == ["To Lyon!", "By bus.", "By train."]
        assert await said(checkpoint_id=first) == ["To Lyon!"]
        assert (await http.get("/api/threads/t/state")).json()["state"] == {"last": "To Lyon!"}
        assert (await http.post("/api/threads/t/rewind", json={"turns": 9})).status_code == 400

    served(test)

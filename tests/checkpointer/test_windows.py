"""Parts of conversations: the last messages, pages by cursor, and what fits into a number of tokens."""

from __future__ import annotations

import pytest

from clew import ConfigError, Message


def texts(messages):
    return [each.text() or each.role for each in messages]


def one(_message):
    return 1


def fill(checkpointer, count=100):
    said = [{"role": "user", "content": f"u{number}"} for number in range(count)]
    checkpointer.put_messages("t", [{"role": "system", "content": "S"}, *said])


def test_the_last_messages_and_the_pages_before_them(checkpointer):
    fill(checkpointer)
    last = checkpointer.list_messages("t", last=3)
    assert texts(last) == ["u97", "u98", "u99"]
    checkpointer.put_messages("t", [{"role": "user", "content": "new"}])
    assert texts(checkpointer.list_messages("t", last=2, before=last[0])) == ["u95", "u96"]
    assert texts(checkpointer.list_messages("t", after=last[-1].message_id)) == ["new"]
    assert texts(checkpointer.list_messages("t", after=last[0], limit=1)) == ["u98"]
    with pytest.raises(ConfigError, match="does not have"):
        checkpointer.list_messages("t", after="nothing")


def test_what_fits_is_kept_with_the_system_messages(checkpointer):
    fill(checkpointer)
    assert texts(checkpointer.list_messages("t", max_tokens=4, count_tokens=one)) == ["S", "u97", "u98", "u99"]
    assert len(checkpointer.list_messages("t", max_tokens=1000, count_tokens=one)) == 101
    assert texts(checkpointer.list_messages("t", max_tokens=1, count_tokens=one)) == ["S"]
    with pytest.raises(ConfigError, match="system messages"):
        checkpointer.list_messages("t", max_tokens=0, count_tokens=one)


def test_a_tools_result_is_never_cut_from_its_call(checkpointer):
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    checkpointer.put_messages(
        "t",
        [
            {"role": "user", "content": "ask"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "result"},
            {"role": "assistant", "content": "answer"},
        ],
    )
    expected = [[], ["answer"], ["answer"], ["assistant", "result", "answer"], ["ask", "assistant", "result", "answer"]]
    for budget, kept in enumerate(expected):
        assert texts(checkpointer.list_messages("t", max_tokens=budget, count_tokens=one)) == kept
    rendered = checkpointer.list_messages("t", max_tokens=3, count_tokens=one, as_="anthropic")
    assert not rendered.left_out


def listed(checkpointer, budget, **more):
    return checkpointer.list_messages("t", max_tokens=budget, count_tokens=one, **more)


def chat(*ids):
    calls = [{"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def chat_result(call_id):
    return {"role": "tool", "tool_call_id": call_id, "content": f"result {call_id}"}


def user(content):
    return {"role": "user", "content": content}


def anthropic_result(call_id):
    return {"type": "tool_result", "tool_use_id": call_id, "content": "result c1"}


def gemini(**part):
    return {"role": "model" if "function_call" in part else "user", "parts": [part]}


CALLS_AND_RESULTS = {
    "openai": (chat("c1"), chat_result("c1")),
    "openai functions": (
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "result c1"},
    ),
    "openai-responses": (
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "result c1"},
    ),
    "openai-responses computer": (
        {"type": "computer_call", "id": "x", "call_id": "c1", "action": {"type": "screenshot"}},
        {"type": "computer_call_output", "call_id": "c1", "output": {"type": "computer_screenshot"}},
    ),
    "openai-responses approval": (
        {"type": "mcp_approval_request", "id": "c1", "name": "f", "arguments": "{}", "server_label": "s"},
        {"type": "mcp_approval_response", "approval_request_id": "c1", "approve": True},
    ),
    "anthropic": (
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]},
        {"role": "user", "content": [anthropic_result("c1")]},
    ),
    "gemini": (
        gemini(function_call={"name": "f", "args": {}}),
        gemini(function_response={"name": "f", "response": {"result": "result c1"}}),
    ),
    "langchain": (
        {"type": "ai", "content": "", "tool_calls": [{"name": "f", "args": {}, "id": "c1", "type": "tool_call"}]},
        {"type": "tool", "content": "result c1", "tool_call_id": "c1"},
    ),
    "pydantic-ai": (
        {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "f", "args": {}, "tool_call_id": "c1"}]},
        {
            "kind": "request",
            "parts": [
                {"part_kind": "tool-return", "tool_name": "f", "content": "result c1", "tool_call_id": "c1"},
            ],
        },
    ),
    "clew results": (
        Message(role="assistant", tool_calls=({"id": "c1", "name": "f", "arguments": {}},)),
        Message(role="tool", tool_results=({"tool_call_id": "c1", "content": "result c1"},)),
    ),
    "clew metadata": (
        Message(role="assistant", tool_calls=({"id": "c1", "name": "f", "arguments": {}},)),
        Message(role="tool", content="result c1", metadata={"tool_call_id": "c1"}),
    ),
    "clew without ids": (
        Message(role="assistant", tool_calls=({"name": "f", "arguments": {}},)),
        Message(role="tool", content="result c1"),
    ),
}


@pytest.mark.parametrize("form", CALLS_AND_RESULTS)
def test_a_late_result_is_left_out_if_its_call_does_not_fit(checkpointer, form):
    call, result = CALLS_AND_RESULTS[form]
    checkpointer.put_messages("t", [user("ask"), call, user("hurry up"), result, {"role": "assistant", "content": "A"}])
    ask, called, hurry, resulted, answer = (each.message_id for each in checkpointer.list_messages("t"))
    expected = [
        [],
        [answer],
        [answer],
        [hurry, answer],
        [called, hurry, resulted, answer],
        [ask, called, hurry, resulted, answer],
    ]
    for budget, kept in enumerate(expected):
        assert [each.message_id for each in listed(checkpointer, budget)] == kept


@pytest.mark.parametrize("form", CALLS_AND_RESULTS)
def test_a_result_in_its_turn_is_never_cut_from_its_call_in_any_format(checkpointer, form):
    call, result = CALLS_AND_RESULTS[form]
    checkpointer.put_messages("t", [user("ask"), call, result, {"role": "assistant", "content": "A"}])
    for budget, kept in enumerate([0, 1, 1, 3, 4]):
        assert len(listed(checkpointer, budget)) == kept


def test_parallel_calls_keep_all_their_results(checkpointer):
    talk = [user("ask"), chat("c1", "c2"), chat_result("c1"), user("hurry up"), chat_result("c2"), user("thanks")]
    checkpointer.put_messages("t", talk)
    assert texts(listed(checkpointer, 4)) == ["hurry up", "thanks"]
    assert texts(listed(checkpointer, 5)) == ["assistant", "result c1", "hurry up", "result c2", "thanks"]


def test_a_turn_of_separate_calls_is_kept_whole_or_not_at_all(checkpointer):
    calls = [{"type": "function_call", "call_id": each, "name": "f", "arguments": "{}"} for each in ("c1", "c2")]
    results = [{"type": "function_call_output", "call_id": each, "output": each} for each in ("c1", "c2")]
    checkpointer.put_messages("t", [user("ask"), *calls, *results, user("thanks")])
    for budget, kept in enumerate([0, 1, 1, 1, 1, 5, 6]):
        assert len(listed(checkpointer, budget)) == kept


def test_several_results_of_one_call_are_kept_with_it(checkpointer):
    talk = [user("ask"), chat("c1"), chat_result("c1"), user("and?"), chat_result("c1"), user("thanks")]
    checkpointer.put_messages("t", talk)
    assert texts(listed(checkpointer, 3)) == ["and?", "thanks"]
    assert texts(listed(checkpointer, 4)) == ["and?", "thanks"]
    assert len(listed(checkpointer, 5)) == 5


def test_a_call_without_a_result_and_a_result_without_a_call_hide_no_older_messages(checkpointer):
    talk = [user("u1"), chat("lost"), user("u2"), chat_result("unknown"), user("u3"), user("u4")]
    checkpointer.put_messages("t", talk)
    assert texts(listed(checkpointer, 6)) == ["u1", "assistant", "u2", "u3", "u4"]
    assert texts(listed(checkpointer, 4)) == ["u2", "u3", "u4"]


def test_an_id_that_is_used_again_belongs_to_each_turn_alone(checkpointer):
    turn = [user("ask"), chat("c1"), chat_result("c1")]
    checkpointer.put_messages("t", [*turn, *turn, chat("c1"), user("never mind")])
    for budget, kept in enumerate([0, 1, 2, 2, 4, 5, 5, 7, 8]):
        assert len(listed(checkpointer, budget)) == kept


def test_a_late_result_with_words_of_the_user_begins_no_window(checkpointer):
    words = {"role": "user", "content": [anthropic_result("c1"), {"type": "text", "text": "and now?"}]}
    checkpointer.put_messages("t", [user("ask"), chat("c1"), user("hurry up"), words, user("thanks")])
    assert texts(listed(checkpointer, 3)) == ["thanks"]
    assert texts(listed(checkpointer, 4)) == ["assistant", "hurry up", "and now?", "thanks"]


def test_a_result_whose_call_lies_before_after_is_left_out(checkpointer):
    checkpointer.put_messages("t", [user("ask"), chat("c1"), user("hurry up"), chat_result("c1"), user("thanks")])
    call = checkpointer.list_messages("t")[1]
    assert texts(listed(checkpointer, 9, after=call)) == ["hurry up", "thanks"]
    assert texts(listed(checkpointer, 9, last=3)) == ["hurry up", "thanks"]
    assert texts(listed(checkpointer, 9, last=4)) == ["assistant", "hurry up", "result c1", "thanks"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"last": 3, "limit": 3},
        {"last": 3, "offset": 1},
        {"before": "x", "limit": 3},
        {"after": "x", "offset": 3},
        {"max_tokens": 3},
        {"count_tokens": one},
        {"max_tokens": 3, "count_tokens": 3},
        {"max_tokens": 3, "count_tokens": one, "search": "x"},
        {"last": -1},
        {"before": 3},
    ],
)
def test_what_makes_no_sense_is_refused(checkpointer, wrong):
    with pytest.raises(ConfigError):
        checkpointer.list_messages("t", **wrong)


def test_tokens_are_summed_by_user_thread_and_day(checkpointer):
    ana = {"thread_id": "t", "user_id": "ana"}
    checkpointer.put_messages(
        ana,
        [
            {"role": "assistant", "content": "a", "usage": {"prompt_tokens": 10, "completion_tokens": 2}},
            {
                "role": "model",
                "parts": [{"text": "b"}],
                "usageMetadata": {"promptTokenCount": 5, "thoughtsTokenCount": 3},
            },
        ],
    )
    stats = checkpointer.stats("ana")
    assert (stats.total_input_tokens, stats.total_output_tokens, stats.total_tokens) == (15, 5, 20)
    assert stats.by_thread["t"].total_tokens == 20
    assert [each.total_tokens for each in stats.by_day.values()] == [20]
    assert checkpointer.stats("eve").total_tokens == 0
    with pytest.raises(ConfigError):
        checkpointer.put_messages(ana, [{"role": "user", "content": "x", "usage": {"input_tokens": -1}}])


def test_windows_follow_the_branch(checkpointer):
    for number in range(3):
        checkpointer.put_checkpoint(
            "t",
            {"n": number},
            messages=[{"role": "user", "content": f"q{number}"}, {"role": "assistant", "content": f"a{number}"}],
        )
    old = checkpointer.get_checkpoint("t").config
    checkpointer.rewind("t")
    checkpointer.put_checkpoint("t", {"n": 9}, messages=[{"role": "assistant", "content": "other"}])

    def said(config, **window):
        return texts(checkpointer.list_messages(config, **window))

    here, there = said("t"), said(old)
    assert here[-1] == "other"
    assert there == ["q0", "a0", "q1", "a1", "q2", "a2"]
    last = checkpointer.list_messages("t", last=1)[0]
    for config, whole in (("t", here), (old, there)):
        assert said(config, last=2) == whole[-2:]
        assert said(config, max_tokens=3, count_tokens=one) == whole[-3:]
    assert said("t", before=last) == here[:-1]
    assert said("t", before=last, branches="all") == there

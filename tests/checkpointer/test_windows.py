"""Parts of conversations: the last messages, pages by cursor, and what fits into a number of tokens."""

from __future__ import annotations

import pytest

from clew import ConfigError


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

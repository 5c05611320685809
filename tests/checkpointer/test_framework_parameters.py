"""Parameters for framework adapters: copying a part of a thread, removing named checkpoints, quiet attachments."""

from __future__ import annotations

import pytest

import clew
from tests.checkpointer.support import at

KEEP_ALL = clew.RetentionPolicy(max_history=1, keep_every=1)


@pytest.fixture
def made(checkpointer):
    """Three checkpoints of thread "t" and two of a child namespace, each with a message and an attachment."""
    made = []
    for number, space in enumerate(("", "child", "", "child", "")):
        message = clew.Message(role="user", content=str(number), message_id=f"m{number}")
        config = {"thread_id": "t", "checkpoint_ns": space}
        made.append(checkpointer.put_checkpoint(config, {"n": number}, messages=[message]))
        checkpointer.put_attachments(at(made[-1]), {"n": number})
    return made


def name(checkpoint):
    return checkpoint.metadata.namespace, checkpoint.checkpoint_id


def numbers(checkpointer, thread_id):
    return [each.state["n"] for each in checkpointer.get_history(thread_id, None, namespaces="all")][::-1]


def test_a_copy_takes_the_part_that_is_chosen_from_the_checkpoints_of_one_moment(checkpointer, made):
    seen: list[tuple[str, str]] = []

    def choose(checkpoints):
        seen.extend((each.namespace, each.checkpoint_id) for each in checkpoints)
        return clew.ThreadPart(
            checkpoints=[name(made[0]), name(made[1])], attachments=[name(made[1])], messages=["m0", "m3"]
        )

    checkpointer.copy_thread("t", "part", choose=choose)
    assert seen == [name(each) for each in made]
    assert numbers(checkpointer, "part") == [0, 1]
    attached = [checkpointer.list_attachments({**at(each), "thread_id": "part"}) for each in made[:2]]
    assert attached == [{}, {"n": 1}]
    assert [each.message_id for each in checkpointer.list_messages("part")] == ["m0", "m3"]
    checkpointer.copy_thread("t", "whole", choose=lambda checkpoints: None)
    assert numbers(checkpointer, "whole") == [0, 1, 2, 3, 4]
    assert checkpointer.verify().ok


def test_a_cleanup_removes_named_checkpoints_whatever_the_policy_says(checkpointer, made):
    remove = [name(each) for each in (made[0], made[3], made[1])]
    options = {"config": "t", "keep": [name(made[1])], "remove": remove}
    assert checkpointer.cleanup(KEEP_ALL, **options, dry_run=True).checkpoints == 2
    assert checkpointer.cleanup(KEEP_ALL, **options).checkpoints == 2
    assert numbers(checkpointer, "t") == [1, 2, 4]
    assert (
        checkpointer.cleanup(clew.RetentionPolicy(max_history=1), config="t", remove=[name(made[1])]).checkpoints == 2
    )
    assert numbers(checkpointer, "t") == [4]
    assert checkpointer.verify().ok


def test_attachments_that_do_not_touch_the_thread_leave_its_time_as_it_is(checkpointer, made):
    before = checkpointer.get_thread("t").updated_at
    checkpointer.put_attachments(at(made[0]), {"mark": True}, touch=False)
    assert checkpointer.get_thread("t").updated_at == before
    assert checkpointer.list_attachments(at(made[0])) == {"mark": True, "n": 0}
    checkpointer.put_attachments(at(made[0]), {"mark": False})
    assert checkpointer.get_thread("t").updated_at > before


def test_wrong_arguments_are_refused(checkpointer, made):
    with pytest.raises(clew.ConfigError, match="choose must be a function"):
        checkpointer.copy_thread("t", "copy", choose=7)
    with pytest.raises(clew.ConfigError, match="remove must be a list of pairs"):
        checkpointer.cleanup(KEEP_ALL, config="t", remove=7)
    with pytest.raises(clew.ConfigError, match="name the thread"):
        checkpointer.cleanup(KEEP_ALL, remove=[name(made[0])])

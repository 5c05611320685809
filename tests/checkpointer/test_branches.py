"""Branches of a conversation, and going back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

import clew
from clew.model.config import ANY_USER
from clew.model.queries import ValueQuery
from clew.storage.branches import MOST_POINTS
from clew.storage.memory import MemoryStorage
from clew.storage.wrapper import StorageWrapper
from clew.testing.build import checkpoint, commit, message

ANA = {"thread_id": "chat", "user_id": "ana"}


def say(checkpointer, number: int, answer: str = "", config=ANA):
    """One turn: a question, an answer and the new state, in one commit."""
    with checkpointer.turn(config, begin=lambda: {"n": []}) as turn:
        turn.state["n"].append(number)
        turn.say({"role": "user", "content": f"question {number}"})
        turn.say({"role": "assistant", "content": answer or f"answer {number}"})
    return turn.saved


def texts(checkpointer, config=ANA, **more) -> list[str]:
    return [each.text() for each in checkpointer.list_messages(config, **more)]


def talk(*numbers: int) -> list[str]:
    return [f"{kind} {number}" for number in numbers for kind in ("question", "answer")]


def test_a_regenerated_answer_replaces_the_old_one_in_the_conversation(checkpointer):
    for number in (1, 2):
        say(checkpointer, number)
    head = checkpointer.rewind(ANA)
    assert texts(checkpointer) == talk(1)
    assert checkpointer.get_state(ANA) == {"n": [1]}
    say(checkpointer, 2, "better")
    assert texts(checkpointer) == [*talk(1), "question 2", "better"]
    assert texts(checkpointer, branches="all") == [*talk(1, 2), "question 2", "better"]
    assert texts(checkpointer, search="ANSWER") == ["answer 1"]
    assert checkpointer.get_state(ANA) == {"n": [1, 2]}
    assert len(checkpointer.list_checkpoints(ANA, limit=None)) == 4
    assert head.state is clew.NOT_LOADED


def test_an_old_checkpoint_shows_the_conversation_as_of_its_moment(checkpointer):
    saved = [say(checkpointer, number) for number in (1, 2, 3)]
    checkpointer.rewind(ANA, to=saved[0].checkpoint_id)
    say(checkpointer, 4)
    assert texts(checkpointer) == talk(1, 4)
    assert texts(checkpointer, saved[1].config) == talk(1, 2)
    assert texts(checkpointer, saved[2].config, search="question") == ["question 1", "question 2", "question 3"]
    assert texts(checkpointer, saved[2].config, offset=1, limit=2) == ["answer 1", "question 2"]
    assert texts(checkpointer, {**ANA, "checkpoint_id": "unknown"}) == []


def test_going_back_keeps_the_history_and_shares_all_values(checkpointer):
    long = {"messages": [{"role": "user", "content": "x" * 2000, "at": at} for at in range(20)]}
    first = checkpointer.put_checkpoint(ANA, long, messages=[{"role": "user", "content": "hi"}], step=7)
    checkpointer.put_checkpoint(ANA, {"other": True})
    size = checkpointer.get_thread(ANA).size
    head = checkpointer.rewind(ANA, to=first.checkpoint_id)
    assert checkpointer.get_thread(ANA).size - size < 500
    assert checkpointer.get_state(ANA) == long
    assert checkpointer.get_state(first.config) == long
    listed = checkpointer.list_checkpoints(ANA, limit=None)
    assert (listed[0].checkpoint_id, listed[-1].checkpoint_id) == (head.checkpoint_id, first.checkpoint_id)
    assert (head.metadata.parent_id, head.metadata.step) == (first.checkpoint_id, 7)
    assert listed[0].sequence == head.metadata.sequence > listed[1].sequence
    assert checkpointer.diff(first.config, head.config).changes == ()
    assert checkpointer.verify().ok
    checkpointer.update_state(ANA, append={"messages": [{"role": "user", "content": "more"}]})
    assert len(checkpointer.get_state(ANA)["messages"]) == 21


def test_rewinding_to_the_head_takes_back_what_was_said_since(checkpointer):
    head = say(checkpointer, 1)
    checkpointer.put_messages(ANA, [{"role": "user", "content": "unanswered"}])
    assert texts(checkpointer) == [*talk(1), "unanswered"]
    checkpointer.rewind(ANA, to=head.checkpoint_id)
    assert texts(checkpointer) == talk(1)


def test_turns_count_user_messages_on_the_branch(checkpointer):
    for number in (1, 2, 3):
        say(checkpointer, number)
    checkpointer.rewind(ANA, turns=2)
    assert (texts(checkpointer), checkpointer.get_state(ANA)) == (talk(1), {"n": [1]})
    say(checkpointer, 4)
    # 2 and 3 are on another branch: they neither count nor lend their states.
    checkpointer.rewind(ANA, turns=1)
    assert (texts(checkpointer), checkpointer.get_state(ANA)) == (talk(1), {"n": [1]})
    with pytest.raises(clew.ConfigError, match="1 user messages on this branch"):
        checkpointer.rewind(ANA, turns=2)
    assert texts(checkpointer) == talk(1)


def test_the_first_answer_can_be_regenerated(checkpointer):
    checkpointer.put_messages(ANA, [{"role": "system", "content": "be nice"}])
    say(checkpointer, 1)
    checkpointer.rewind(ANA, turns=1)
    assert texts(checkpointer) == ["be nice"]
    assert checkpointer.get_state(ANA) is None
    say(checkpointer, 2)
    assert (texts(checkpointer), checkpointer.get_state(ANA)) == (["be nice", *talk(2)], {"n": [2]})


def test_a_question_put_alone_is_where_the_turn_begins(checkpointer):
    say(checkpointer, 1)
    checkpointer.put_messages(ANA, [{"role": "assistant", "content": "a note"}])
    checkpointer.put_messages(ANA, [{"role": "user", "content": "alone"}])
    results = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "42"}]}]
    checkpointer.put_checkpoint(ANA, {"n": [1, 2]}, messages=results)
    checkpointer.put_checkpoint(ANA, {"n": [1, 2, 3]}, messages=[{"role": "assistant", "content": "done"}])
    checkpointer.rewind(ANA)
    assert (texts(checkpointer), checkpointer.get_state(ANA)) == ([*talk(1), "a note"], {"n": [1]})


def test_turns_are_counted_back_from_the_configs_checkpoint(checkpointer):
    saved = [say(checkpointer, number) for number in (1, 2, 3)]
    checkpointer.rewind(saved[1].config, turns=1)
    assert texts(checkpointer) == talk(1)


def test_a_moved_head_refuses_a_rewind_that_rejects(checkpointer):
    first, second = say(checkpointer, 1), say(checkpointer, 2)
    with pytest.raises(clew.ConflictError, match="moved on"):
        checkpointer.rewind(first.config, to=first.checkpoint_id, on_conflict="reject")
    assert texts(checkpointer) == talk(1, 2)
    checkpointer.rewind(second.config, to=first.checkpoint_id, on_conflict="reject")
    assert texts(checkpointer) == talk(1)


def test_a_lost_lease_refuses_a_rewind(store, clock):
    checkpointer, other = store.open(clock=clock), store.open(clock=clock)
    first, _ = say(checkpointer, 1), say(checkpointer, 2)
    with checkpointer.lease(ANA, ttl=10):
        clock.advance(11)
        with other.lease(ANA, ttl=10), pytest.raises(clew.LeaseError):
            checkpointer.rewind(ANA, to=first.checkpoint_id)
    assert texts(other) == talk(1, 2)


def test_a_rewind_that_makes_no_sense_is_refused(checkpointer):
    saved = say(checkpointer, 1)
    for wrong in ({"to": "x", "turns": 1}, {"turns": 0}, {"turns": True}, {"turns": "1"}, {"to": ""}, {"to": 3}):
        with pytest.raises(clew.ConfigError):
            checkpointer.rewind(ANA, **wrong)
    with pytest.raises(clew.ConfigError, match="nothing to compare"):
        checkpointer.rewind(ANA, on_conflict="reject")
    with pytest.raises(clew.ConfigError, match="main namespace"):
        checkpointer.rewind({**ANA, "checkpoint_ns": "sub"})
    with pytest.raises(clew.ConflictError, match="'unknown' of thread 'chat' does not exist"):
        checkpointer.rewind(ANA, to="unknown")
    with pytest.raises(clew.ConfigError, match='branches must be "head" or "all"'):
        checkpointer.list_messages(ANA, branches="none")
    assert [each.checkpoint_id for each in checkpointer.list_checkpoints(ANA)] == [saved.checkpoint_id]


def test_another_user_can_neither_go_back_nor_see_a_branch(checkpointer):
    saved = [say(checkpointer, number) for number in (1, 2)]
    for user in ({"user_id": "bob"}, {}):
        config = {"thread_id": "chat", **user}
        assert texts(checkpointer, config) == texts(checkpointer, config, branches="all") == []
        assert texts(checkpointer, {**config, "checkpoint_id": saved[0].checkpoint_id}) == []
        with pytest.raises(clew.PermissionDeniedError):
            checkpointer.rewind(config, to=saved[0].checkpoint_id)
        with pytest.raises(clew.PermissionDeniedError):
            checkpointer.rewind(config)
    assert texts(checkpointer) == talk(1, 2)


def test_other_namespaces_go_back_without_a_conversation_of_their_own(checkpointer):
    sub = {**ANA, "checkpoint_ns": "sub"}
    say(checkpointer, 1)
    old = checkpointer.put_checkpoint(sub, {"inner": 1})
    checkpointer.put_checkpoint(sub, {"inner": 2})
    say(checkpointer, 2)
    checkpointer.rewind(sub, to=old.checkpoint_id)
    assert checkpointer.get_state(sub) == {"inner": 1}
    assert texts(checkpointer) == texts(checkpointer, sub) == talk(1, 2)
    assert texts(checkpointer, old.config) == talk(1)


def test_branches_outlive_the_cleanup_of_their_checkpoints(checkpointer):
    saved = [say(checkpointer, number) for number in (1, 2)]
    checkpointer.rewind(ANA)
    say(checkpointer, 3)
    checkpointer.cleanup(clew.RetentionPolicy(max_history=1))
    assert len(checkpointer.list_checkpoints(ANA)) == 1
    assert texts(checkpointer) == talk(1, 3)
    assert texts(checkpointer, saved[0].config) == []
    assert texts(checkpointer, branches="all") == talk(1, 2, 3)


def test_a_deleted_checkpoint_leaves_its_messages(checkpointer):
    saved = [say(checkpointer, number) for number in (1, 2)]
    checkpointer.delete_checkpoint(saved[0].config)
    assert texts(checkpointer) == talk(1, 2)
    checkpointer.rewind(ANA, to=saved[1].checkpoint_id)
    last = say(checkpointer, 3)
    checkpointer.delete_checkpoint({**ANA, "checkpoint_id": last.metadata.parent_id})
    checkpointer.delete_checkpoint(last.config)
    # The head is saved[1] again, and the conversation is its own.
    assert checkpointer.get_state(ANA) == {"n": [1, 2]}
    assert texts(checkpointer) == talk(1, 2)


def test_a_fork_a_copy_and_a_repair_follow_the_branch(checkpointer):
    saved = [say(checkpointer, number) for number in (1, 2)]
    checkpointer.rewind(ANA)
    say(checkpointer, 3)
    assert texts(checkpointer, checkpointer.fork(ANA)) == talk(1, 3)
    assert texts(checkpointer, checkpointer.fork(saved[1].config)) == talk(1, 2)
    copy = checkpointer.copy_thread(ANA, "copy")
    assert texts(checkpointer, copy) == talk(1, 3)
    assert texts(checkpointer, {**copy, "checkpoint_id": saved[1].checkpoint_id}) == talk(1, 2)
    assert texts(checkpointer, copy, branches="all") == talk(1, 2, 3)
    checkpointer.repair(ANA)
    assert [each["content"] for each in checkpointer.get_state(ANA)["messages"]] == talk(1, 3)


def test_a_branching_save_shows_its_own_branch(checkpointer):
    first = say(checkpointer, 1)
    say(checkpointer, 2)
    checkpointer.put_checkpoint(first.config, {"n": [1, 5]}, messages=[{"role": "user", "content": "other"}])
    assert texts(checkpointer) == [*talk(1), "other"]
    checkpointer.update_state(first.config, set={"n": []}, messages=[{"role": "user", "content": "third"}])
    assert texts(checkpointer) == [*talk(1), "third"]
    with checkpointer.turn(first.config) as turn:
        turn.say({"role": "user", "content": "fourth"})
    assert texts(checkpointer) == [*talk(1), "fourth"]


def test_configs_that_checkpoints_hand_out_carry_the_owner(checkpointer):
    saved = say(checkpointer, 1)
    loaded = checkpointer.get_checkpoint(ANA)
    listed = checkpointer.list_checkpoints(ANA)[0]
    head = checkpointer.get_thread(ANA).head
    history = checkpointer.get_history(ANA)[0]
    updated = checkpointer.update_state(ANA, set={"n": [1]})
    rewound = checkpointer.rewind(ANA, to=saved.checkpoint_id)
    for each in (saved, loaded, listed, head, history, updated, rewound):
        assert each.config["user_id"] == "ana"
        assert checkpointer.get_state(each.config) == {"n": [1]}
        assert checkpointer.get_state(checkpointer.fork(each.config)) == {"n": [1]}
    found = checkpointer.get_checkpoint({**ANA, "user_id": clew.ANY_USER})
    assert checkpointer.get_state(found.config) == {"n": [1]}
    assert found.metadata.to_dict()["user_id"] is None
    assert clew.CheckpointInfo.from_dict(listed.to_dict()).config == listed.config
    assert replace(listed, user_id=None) == listed
    assert "user_id" not in checkpointer.put_checkpoint("open", {}).config


def test_messages_that_other_branches_have_are_told(checkpointer):
    first = say(checkpointer, 1)
    say(checkpointer, 2)
    everything = [each.message_id for each in checkpointer.list_messages(ANA)]
    assert checkpointer.shared_messages(ANA, everything) == []
    checkpointer.rewind(ANA, to=first.checkpoint_id)
    say(checkpointer, 3)
    said = [each.message_id for each in checkpointer.list_messages(ANA)]
    assert checkpointer.shared_messages(ANA, [*reversed(said), "missing"]) == said[:2]
    # What only the other branch has is not on this one.
    assert checkpointer.shared_messages(ANA, everything) == everything[:2]
    assert checkpointer.shared_messages({**ANA, "user_id": "bob"}, said) == []
    assert checkpointer.shared_messages("nowhere", said) == []


def test_a_message_said_again_under_its_id_after_going_back_is_in_the_conversation(checkpointer):
    def said(text: str) -> clew.Message:
        return clew.Message(message_id="question", role="user", content=text)

    checkpointer.put_messages(ANA, [said("draft")])
    before = checkpointer.put_checkpoint(ANA, {"n": 1})
    checkpointer.rewind(ANA)
    checkpointer.put_messages(ANA, [said("edited")])
    assert texts(checkpointer) == ["edited"]
    assert texts(checkpointer, before.config) == []
    other = {**ANA, "thread_id": "without states"}
    for text in ("draft", "edited", "edited again"):
        with checkpointer.turn(other) as turn:
            turn.say(said(text))
        assert texts(checkpointer, other) == [text]
        if text == "draft":
            checkpointer.rewind(other)


def test_a_redacted_message_stays_on_its_branch(checkpointer):
    say(checkpointer, 1)
    say(checkpointer, 2)
    checkpointer.rewind(ANA)
    hidden = checkpointer.list_messages(ANA, branches="all")[-1]
    redacted = replace(hidden, content="[redacted]", raw=None)
    checkpointer.put_messages(ANA, [redacted], on_other_branches="replace")
    assert texts(checkpointer) == talk(1)
    assert texts(checkpointer, branches="all")[-1] == "[redacted]"
    with pytest.raises(clew.ConfigError, match="on_other_branches must be"):
        checkpointer.put_messages(ANA, [redacted], on_other_branches="own")


def test_a_new_conversation_leaves_the_earlier_one_on_its_branch(checkpointer):
    say(checkpointer, 1)
    head = say(checkpointer, 2)
    anew = [{"role": "user", "content": "anew"}]
    made = checkpointer.put_checkpoint(head.config, {"n": []}, messages=anew, conversation="new", on_conflict="reject")
    assert made.parent_id == head.checkpoint_id
    assert texts(checkpointer) == ["anew"]
    assert texts(checkpointer, head.config) == talk(1, 2)
    with pytest.raises(clew.ConflictError):
        checkpointer.put_checkpoint(head.config, {}, messages=anew, conversation="new", on_conflict="reject")
    checkpointer.rewind(ANA, to=head.checkpoint_id)
    assert texts(checkpointer) == talk(1, 2)


def test_a_conversation_that_makes_no_sense_is_refused(local):
    memory = local.open()
    with pytest.raises(clew.ConfigError, match="conversation must be"):
        memory.put_checkpoint(ANA, {}, conversation="anew")
    with pytest.raises(clew.ConfigError, match="main namespace"):
        memory.put_checkpoint({**ANA, "checkpoint_ns": "search"}, {}, conversation="new")


def test_a_background_save_is_settled_before_going_back(store):
    checkpointer = store.open(durability="background")
    for number in (1, 2):
        checkpointer.put_checkpoint("t", {"n": number}, messages=[{"role": "user", "content": str(number)}])
    checkpointer.rewind("t")
    assert (texts(checkpointer, "t"), checkpointer.get_state("t")) == (["1"], {"n": 1})


def test_every_storage_keeps_the_newest_branch_points(checkpointer):
    count = MOST_POINTS + 3
    saves = [commit(checkpoint=checkpoint("c0"), messages=[message("m0")])]
    # The first one is made from the head, and begins no branch.
    saves += [commit(checkpoint=checkpoint(f"c{at}", parent="c0")) for at in range(1, count + 1)]

    async def go():
        for first in range(0, len(saves), 100):
            await checkpointer.storage.apply(saves[first : first + 100])
        return (await checkpointer.storage.values(ValueQuery(thread_id="t", user=ANY_USER, ranges=()))).points

    points = checkpointer.run(go(), "a test")
    assert points == tuple((1, at + 1) for at in range(count - MOST_POINTS + 1, count + 1))
    assert texts(checkpointer, "t", branches="all") != []


class Replaced(StorageWrapper):
    """A store in which another process replaces the thread while it is read."""

    def __init__(self, inner, at: str) -> None:
        super().__init__(inner)
        self.at = at
        self.replace: Callable[[], Awaitable[None]] | None = None

    async def messages(self, query):
        found = await super().messages(query)
        await self._reach("messages")
        return found

    async def checkpoints(self, query):
        await self._reach("checkpoints")
        return await super().checkpoints(query)

    async def _reach(self, place):
        if self.at == place and (act := self.replace):
            self.replace = None
            await act()


@pytest.mark.parametrize("at", ["messages", "checkpoints"])
@pytest.mark.parametrize("turns", [1, 2])
def test_turns_of_a_thread_that_is_replaced_meanwhile_are_counted_in_the_new_one(at, turns):
    inner = MemoryStorage()
    other = clew.BaseCheckpointer(inner)
    storage = Replaced(inner, at)
    checkpointer = clew.BaseCheckpointer(storage)
    for number in (1, 2):
        say(checkpointer, number)

    async def replace_it():
        other.delete_thread(ANA)
        for number in (3, 4, 5):
            say(other, number)

    storage.replace = replace_it
    checkpointer.rewind(ANA, turns=turns)
    assert storage.replace is None
    assert texts(other) == talk(3, 4, 5)[: -2 * turns]
    assert other.get_state(ANA) == {"n": [3, 4, 5][:-turns]}


def test_a_rewind_to_the_beginning_is_not_stopped_by_other_writers():
    inner = MemoryStorage()
    other = clew.BaseCheckpointer(inner)
    storage = Replaced(inner, "messages")
    checkpointer = clew.BaseCheckpointer(storage)
    say(checkpointer, 1)

    async def write_more():
        other.put_messages(ANA, [{"role": "assistant", "content": "more"}])

    storage.replace = write_more
    checkpointer.rewind(ANA)
    assert texts(other) == []
    assert other.get_state(ANA) is None


def test_a_rewind_never_goes_back_further_than_asked(checkpointer):
    for number in range(3):
        with checkpointer.turn("chat", begin=lambda: {"n": 0}) as turn:
            turn.state["n"] += 1
            turn.say({"role": "user", "content": f"q{number}"})
            turn.say({"role": "assistant", "content": f"a{number}"})
    checkpointer.fork("chat", "fork")
    with pytest.raises(clew.ConfigError, match="last 3 user messages of thread 'fork' were stored in one commit"):
        checkpointer.rewind("fork")
    assert checkpointer.get_state("fork") == {"n": 3}
    assert len(checkpointer.list_messages("fork")) == 6
    with checkpointer.turn("fork") as turn:
        turn.state["n"] += 1
        turn.say({"role": "user", "content": "q3"})
    checkpointer.rewind("fork")
    assert checkpointer.get_state("fork") == {"n": 3}
    assert len(checkpointer.list_messages("fork")) == 6
    checkpointer.rewind("fork", turns=3)
    assert checkpointer.get_state("fork") is None
    assert checkpointer.list_messages("fork") == []
    checkpointer.rewind("chat")
    assert [each.text() for each in checkpointer.list_messages("chat")] == ["q0", "a0", "q1", "a1"]

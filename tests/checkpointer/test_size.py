"""Size of saves: a save writes only what changed, for any shape, and every checkpoint loads."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.codec import index
from clew.storage.wrapper import StorageWrapper
from tests.checkpointer.support import SpyStorage, at, python, text, written

_ROOT = Path(__file__).parents[2]
TURN = 700
"""About how many bytes are new in each save, unless the shape says otherwise."""


def said(seed):
    return {"role": "user", "content": text(seed, TURN)}


def growing(depth):
    def states():
        messages = []
        for turn in range(60):
            messages.append(said(turn))
            state = {"messages": list(messages), "turn": turn}
            for _ in range(depth - 1):
                state = {"inner": state, "other": 1}
            yield state, TURN

    return states


def sliding_window():
    for turn in range(60):
        yield {"messages": [said(number) for number in range(turn, turn + 30)]}, TURN


def middle_edit():
    messages = [said(number) for number in range(60)]
    for turn in range(40):
        messages[20 + turn % 20] = said(("edit", turn))
        yield {"messages": list(messages)}, TURN


def middle_deletion():
    messages = [said(number) for number in range(80)]
    for turn in range(40):
        del messages[30 + turn % 10]
        yield {"messages": list(messages)}, 0


def middle_insertion():
    messages = [said(number) for number in range(40)]
    for turn in range(40):
        messages.insert(10 + turn % 7, said(("new", turn)))
        yield {"messages": list(messages)}, TURN


def summary_for_a_prefix():
    messages = [said(number) for number in range(60)]
    for turn in range(20):
        messages = [said(("summary", turn)), *messages[3:], said(("next", turn))]
        yield {"messages": list(messages)}, 2 * TURN


def files_of_which_one_changes():
    files = {f"src/file{number}.py": text(number, 3000) for number in range(100)}
    for turn in range(40):
        files[f"src/file{turn * 7 % 100}.py"] = text(("changed", turn), 3000)
        yield {"files": dict(files), "turn": turn}, 3000


def two_lists_that_share():
    messages = []
    for turn in range(50):
        messages.append(said(turn))
        yield {"all": list(messages), "recent": messages[-10:], "tool": {"log": messages[::2]}}, TURN


def two_growing_lists():
    one: list[Any] = []
    other: list[Any] = []
    for turn in range(50):
        (one if turn % 3 else other).append(said(turn))
        yield {"one": list(one), "other": list(other)}, TURN


def small_messages():
    messages = []
    for turn in range(300):
        messages.append({"role": "user", "content": f"hi {turn}"})
        yield {"messages": list(messages)}, 40


def a_large_text_that_grows():
    document = text("start", 20_000)
    for turn in range(30):
        document += text(turn, TURN)
        yield {"document": document}, TURN


SHAPES = {
    "growing at depth 1": growing(1),
    "growing at depth 3": growing(3),
    "sliding window": sliding_window,
    "middle edit": middle_edit,
    "middle deletion": middle_deletion,
    "middle insertion": middle_insertion,
    "summary for a prefix": summary_for_a_prefix,
    "files of which one changes": files_of_which_one_changes,
    "two lists that share": two_lists_that_share,
    "two growing lists": two_growing_lists,
    "small messages": small_messages,
    "a large text that grows": a_large_text_that_grows,
}


def saved(checkpointer, states):
    """A save: the checkpoint, its state, and its new bytes."""
    return [(checkpointer.put_checkpoint("t", state), state, new) for state, new in states()]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reload", [False, True], ids=["hot", "reloaded"])
def test_a_save_writes_a_small_multiple_of_what_changed(store, shape, reload):
    """`reloaded`: each turn simulates another process, which loads the thread before it saves."""
    costs: list[int] = []
    bodies: list[int] = []
    news: list[int] = []
    checkpointer = store.open(SpyStorage)
    for state, new in SHAPES[shape]():
        if reload and costs and len(costs) % 5 == 0:
            checkpointer = store.open(SpyStorage)
            checkpointer.get_state("t")
        checkpointer.storage.commits.clear()
        checkpointer.put_state("t", state)
        (commit,) = [each for each in checkpointer.storage.commits if each.checkpoint is not None]
        costs.append(written(commit))
        bodies.append(len(commit.checkpoint.body))
        news.append(new)
    worst = max((cost - 2.5 * new, turn) for turn, (cost, new) in enumerate(zip(costs[1:], news[1:], strict=True), 1))
    assert worst[0] <= 1024, f"turn {worst[1]} wrote {costs[worst[1]]} bytes for {news[worst[1]]} new ones"
    assert max(bodies[1:]) <= 1500, max(bodies)
    assert sum(costs[1:]) <= 1.6 * sum(news[1:]) + 700 * len(costs), (sum(costs), sum(news))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_checkpoint_of_a_history_loads_back_also_after_compaction(store, shape):
    checkpointer = store.open()
    made = saved(checkpointer, SHAPES[shape])
    for opened in (checkpointer, store.open()):
        for checkpoint, state, _ in made:
            assert opened.get_state(at(checkpoint)) == state
    before = store.open().stats().total_bytes
    report = store.open().compact()
    assert report.rows_after <= report.rows_before
    assert report.bytes_after <= before
    for opened in (checkpointer, store.open()):
        for checkpoint, state, _ in made:
            assert opened.get_state(at(checkpoint)) == state
        assert [each.state for each in opened.get_history("t", limit=None)] == [state for _, state, _ in made[::-1]]
    checkpointer.put_state("t", made[0][1])
    assert checkpointer.get_state("t") == made[0][1]
    assert checkpointer.verify().ok


@pytest.mark.parametrize("shape", ["growing at depth 3", "summary for a prefix", "two lists that share"])
def test_a_thread_that_was_cleaned_up_goes_on(store, shape):
    checkpointer = store.open()
    made = saved(checkpointer, SHAPES[shape])
    checkpointer.cleanup(clew.RetentionPolicy(max_history=3))
    for checkpoint, state, _ in made[-3:]:
        assert checkpointer.get_state(at(checkpoint)) == state
    for _, state, _ in made[:10]:
        checkpointer.put_state("t", state)
        assert store.open().get_state("t") == state
    assert checkpointer.verify().ok
    assert checkpointer.size("t") == 13


_COLD = """
import hashlib, sys
import clew
from tests.checkpointer.test_size import SHAPES
checkpointer = clew.SQLiteCheckpointer(sys.argv[1])
expected = [state for state, _ in SHAPES[sys.argv[2]]()]
assert [each.state for each in checkpointer.get_history("t", limit=None)] == expected[::-1]
checkpointer.update_state("t", set={"cold": True})
assert checkpointer.get_state("t") == {**expected[-1], "cold": True}
checkpointer.release()
"""


def test_a_history_loads_in_another_process(sqlite):
    checkpointer = sqlite.open()
    saved(checkpointer, sliding_window)
    checkpointer.release()
    python(f"import sys; sys.path.insert(0, {str(_ROOT)!r})\n" + _COLD, sqlite.path, "sliding window")


def test_a_fork_takes_no_copy_of_what_was_said(store):
    checkpointer = store.open(SpyStorage)
    made = saved(checkpointer, growing(2))
    spy = checkpointer.storage
    spy.commits.clear()
    before = checkpointer.stats().total_bytes
    forks = [checkpointer.fork(at(checkpoint)) for checkpoint, _, _ in made[::10]]
    assert sum(map(written, spy.commits)) == 0
    if spy.capabilities.shares_forks:
        assert checkpointer.stats().total_bytes - before < 2000 * len(forks)
    spy.commits.clear()
    for fork, (_, state, _) in zip(forks, made[::10], strict=True):
        assert checkpointer.get_state(fork) == state
        checkpointer.update_state(fork, set={"other": 2})
        assert checkpointer.get_state(fork) == {**state, "other": 2}
    assert max(map(written, spy.commits)) < 1500


def test_a_conversation_takes_no_more_than_it_said(sqlite):
    """200 turns of 1 KB each: the file is little larger than the conversation; all states in full would take 100 MB."""
    words = [text(number, 3 + number % 6) for number in range(400)]
    chance = random.Random(1)
    checkpointer, messages, size = sqlite.open(), [], 0
    for turn in range(200):
        for role, length in (("user", 50), ("assistant", 120)):
            messages.append({"role": role, "content": " ".join(chance.choices(words, k=length)), "turn": turn})
            size += len(repr(messages[-1]))
        checkpointer.put_state("t", {"messages": messages, "turn": turn})
    assert checkpointer.stats().total_bytes < 1.3 * size
    checkpointer.compact()
    checkpointer.release()
    assert sqlite.path.stat().st_size < 1.2 * size
    cold = sqlite.open()
    assert cold.get_state("t") == {"messages": messages, "turn": 199}
    assert cold.size("t") == 200


def test_what_the_writer_remembers_is_bounded_and_shown(store):
    checkpointer = store.open(max_index_bytes=200_000)
    for number in range(40):
        checkpointer.put_state(f"t{number}", {"m": [text((number, each)) for each in range(40)]})
    known = checkpointer.stats().index
    assert 0 < known.bytes <= known.max_bytes == 200_000
    assert 0 < known.threads < 40
    for number in range(40):
        state = {"m": [text((number, each)) for each in range(41)]}
        checkpointer.put_state(f"t{number}", state)
        assert checkpointer.get_state(f"t{number}") == state
    nothing = store.open(max_index_bytes=0)
    nothing.get_state("t1")
    nothing.update_state("t1", append={"m": ["x"]})
    nothing.put_state("t2", {"m": []})
    assert nothing.stats().index.bytes == 0
    assert nothing.get_state("t1")["m"][-1] == "x"


class Counting(StorageWrapper):
    """Records where each read of a thread's digests began."""

    def __init__(self, inner):
        super().__init__(inner)
        self.read_from = []

    async def values(self, query):
        if query.ranges is None:
            self.read_from.append(query.since)
        return await self.inner.values(query)


def test_a_thread_that_outgrows_the_writers_memory_is_not_read_again_for_each_save(store):
    checkpointer = store.open(Counting, max_index_bytes=20_000)
    for number in range(200):
        checkpointer.put_state("long", {"n": number, "said": text(number)})
        if number % 50 == 0:
            checkpointer.put_state("short", {"n": number, "said": text("same")})
    assert checkpointer.storage.read_from == []
    known = checkpointer.stats().index
    assert known.threads == 2
    assert known.bytes <= known.max_bytes
    assert checkpointer.get_state("long") == {"n": 199, "said": text(199)}
    assert checkpointer.verify().ok


def test_long_threads_that_take_turns_are_not_read_again_for_each_save(store):
    checkpointer = store.open(Counting, max_index_bytes=60_000)
    for number in range(200):
        for name in ("one", "two", "three"):
            checkpointer.put_state(name, {"n": number, "said": text(number)})
    assert checkpointer.storage.read_from == []
    known = checkpointer.stats().index
    assert known.threads == 3
    assert known.bytes <= known.max_bytes
    assert checkpointer.get_state("two") == {"n": 199, "said": text(199)}


def test_what_a_long_thread_has_had_before_is_found_if_it_is_among_the_newest(local):
    checkpointer = local.open(max_index_bytes=20_000)

    def stored(number):
        before = checkpointer.stats().total_bytes
        checkpointer.put_state("t", {"said": text(number)})
        return checkpointer.stats().total_bytes - before

    for number in range(100):
        new = stored(number)
    assert stored(90) < new / 2
    assert stored(0) > new / 2
    # An unchanged state is recognised by the memo of the last save, whatever was evicted.
    assert stored(0) < new / 2


def test_only_the_newest_digests_of_a_long_thread_are_read(local, monkeypatch):
    monkeypatch.setattr(index, "_LEAST_VALUES", 5)
    checkpointer = local.open(Counting, max_index_bytes=0)
    for number in range(12):
        checkpointer.put_state("t", {"said": text(number)})
    assert checkpointer.storage.read_from == [max(0, number - 5) for number in range(1, 12)]
    assert checkpointer.stats().index.bytes == 0

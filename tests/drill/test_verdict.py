"""The verdict can fail: every broken promise is found, by its name."""

from __future__ import annotations

import asyncio

import pytest

import clew
from clew.storage.memory import MemoryStorage
from clew.testing.verdict.branches import Crossing
from clew.testing.verdict.history import Ended, History, Looked, Started, Tried
from clew.testing.verdict.judge import Found, judge
from drill.ledger import Ledger, read_lines
from tests.drill.liars import Doubling, Forgetful, Reviving, Stale, Undead
from tests.drill.rehearsal import LANES, Rehearsal


def rehearsed(folder, make, lanes=(LANES,) * 3, commits=400):
    storage = make(MemoryStorage())
    folder.mkdir(exist_ok=True)
    rehearsal = Rehearsal(folder, lanes=lanes)

    async def drill():
        await rehearsal.run(lambda: clew.BaseCheckpointer(storage), lambda writers: writers.after(commits))
        return await rehearsal.judged(clew.BaseCheckpointer(storage))

    return asyncio.run(drill())


def test_an_honest_storage_passes(tmp_path):
    findings = rehearsed(tmp_path, lambda storage: storage)
    assert not findings.counts, findings.texts


def test_an_honest_storage_passes_while_threads_are_deleted(tmp_path):
    findings = rehearsed(tmp_path, lambda storage: storage, (("deleter",), ("victims",), ("victims",)))
    assert not findings.counts, findings.texts


def test_a_storage_that_forgets_what_it_acknowledged_is_found_out(tmp_path):
    assert rehearsed(tmp_path, Forgetful).counts["lost"] > 0


def test_a_storage_that_applies_a_commit_twice_is_found_out(tmp_path):
    assert rehearsed(tmp_path, Doubling).counts["doubled"] > 0


def test_a_storage_that_answers_from_an_old_copy_is_found_out(tmp_path):
    assert rehearsed(tmp_path, Stale).counts["stale"] > 0


def test_a_storage_that_does_not_delete_is_found_out(tmp_path):
    lanes = (("deleter",), ("victims",), ("victims",))
    assert rehearsed(tmp_path, Undead, lanes, commits=1000).counts["revived"] > 0


def test_a_storage_that_lets_late_writers_through_is_found_out(tmp_path):
    lanes = (("deleter",), ("victims",), ("victims",))
    # A writer must be between its read and its save when the thread is deleted. On a busy machine that is rare.
    folders = (tmp_path / str(number) for number in range(10))
    assert any(rehearsed(folder, Reviving, lanes, commits=1000).counts["late"] > 0 for folder in folders)


# Ledgers


def history(*lines, writer=0):
    made = History()
    made.add(writer, [Started(0.0), *lines])
    return made


def test_a_commit_without_a_noted_end_may_be_there_or_not():
    tried = history(Tried(1.0, "t", 1, "append"))
    assert not judge(tried, {}).counts
    assert not judge(tried, {"t": Found([(0, 1)], [(0, 1)])}).counts


def test_half_of_a_commit_is_found():
    tried = history(Tried(1.0, "t", 1, "append"))
    assert judge(tried, {"t": Found([(0, 1)], [])}).counts == {"torn": 1}


def test_a_commit_that_its_writer_was_told_was_refused_must_not_be_there():
    told = history(Tried(1.0, "t", 1, "follow"), Ended(2.0, "t", 1, "ConflictError"))
    there = {"t": Found([(0, 1)], [(0, 1)], frozenset({(0, 1)}))}
    assert not judge(told, {}).counts
    assert judge(told, there).counts == {"refused": 2}
    assert not judge(told, there, may_hide=True).counts


def test_a_rejecting_save_must_be_an_ancestor_of_the_head():
    saved = history(Tried(1.0, "t", 1, "follow"), Ended(2.0, "t", 1), Tried(3.0, "t", 2, "follow"), Ended(4.0, "t", 2))
    both = [(0, 1), (0, 2)]
    assert not judge(saved, {"t": Found(both, both, frozenset(both))}).counts
    not_followed = {"t": Found(both, both, frozenset({(0, 2)}))}
    assert judge(saved, not_followed).counts == {"not_ancestor": 1}
    assert not judge(saved, not_followed, may_hide=True).counts


def test_what_nobody_wrote_is_found():
    assert judge(history(Tried(1.0, "t", 1, "append")), {"t": Found([(0, 1), (5, 5)], [(0, 1)])}).counts == {
        "strange": 1
    }


def test_a_read_may_lack_what_was_acknowledged_after_it_began():
    written = (Tried(1.0, "t", 1, "append"), Ended(2.0, "t", 1))
    held = {"t": Found([(0, 1)], [(0, 1)])}
    assert not judge(history(*written, Looked(1.9, 3.0, "t", "log", None)), held).counts
    assert judge(history(*written, Looked(2.1, 3.0, "t", "log", None)), held).counts == {"stale": 1}


def test_what_the_secondary_lacks_is_hidden_where_that_is_allowed():
    read = Looked(2.1, 3.0, "t", "log", {}, True)
    noted = history(Tried(1.0, "t", 1, "append"), Ended(2.0, "t", 1), read)
    held = {"t": Found([(0, 1)], [(0, 1)], frozenset({(0, 1)}))}
    assert judge(noted, held).counts == {"stale": 1}
    hidden = judge(noted, held, may_hide=True)
    assert (hidden.counts, hidden.hidden) == ({}, 1)


def test_an_unacknowledged_save_may_arrive_at_any_time():
    """Its writer was killed before the server had read the request."""
    saves = (Tried(1.0, "own-0", 1, "save"), Tried(2.0, "own-0", 2, "save"), Ended(3.0, "own-0", 2))
    held = {"own-0": Found([(0, 2), (0, 1)], [(0, 2), (0, 1)])}
    read = Looked(4.0, 5.0, "own-0", "head", {0: [(1, 1)]})
    assert not judge(history(*saves, read), held).counts
    acknowledged = history(saves[0], Ended(1.5, "own-0", 1), *saves[1:], read)
    assert judge(acknowledged, held).counts == {"stale": 1, "disordered": 2}


@pytest.mark.parametrize(("ended", "faults"), [(2.5, {"revived": 2}), (None, {})])
def test_what_was_deleted_may_be_there_only_if_the_deletion_was_not_acknowledged(ended, faults):
    end = [] if ended is None else [Ended(ended, "t", 2)]
    noted = history(Tried(1.0, "t", 1, "append"), Ended(2.0, "t", 1), Tried(2.2, "t", 2, "delete"), *end)
    assert judge(noted, {"t": Found([(0, 1)], [(0, 1)])}).counts == faults
    assert not judge(noted, {}).counts


@pytest.mark.parametrize(
    ("found", "is_fault"),
    [
        ([(0, 1), (0, 3)], False),
        ([(0, 1)], True),
        ([(0, 3), (0, 1)], True),
        ([(0, 1), (0, 3), (0, 4)], True),
    ],
)
def test_a_branch_may_lack_only_what_was_never_acknowledged(found, is_fault):
    crossing = Crossing("back-0", "c", [(0, 1), (0, 2), (0, 3)], found)
    assert crossing.is_fault({(0, 1), (0, 3)}) is is_fault
    assert crossing.is_fault({(0, 1), (0, 2), (0, 3)})


def test_a_ledger_continues_after_its_writer_was_killed(tmp_path):
    path = tmp_path / "0.ledger"
    with Ledger(path, 0) as ledger:
        assert [ledger.attempt("t", "append") for _ in range(2)] == [1, 2]
        ledger.end("t", 1)
    with path.open("ab") as file:
        file.write(b'["try",1.0,"t",3')
    assert len(read_lines(path)) == 4
    with Ledger(path, 0) as ledger:
        assert ledger.attempt("t", "append") == 3
    assert [type(line) for line in read_lines(path)[4:]] == [Started, Tried]

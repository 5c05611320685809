"""Edge cases of the rules: the oldest recognised commit, pruning of receipts, and typical commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, cycle, islice
from typing import Any

import pytest

from clew.errors import ConflictError, ThreadDeletedError
from clew.model.commit import After, Applied, Commit, Removal
from clew.model.records import Basis
from clew.storage.protocol import RECEIPTS_KEPT, RECEIPTS_PRUNED, StaleBasisError
from clew.testing.build import checkpoint, commit, deletion, fork_of, message, row
from clew.testing.contract.base import ContractPart
from clew.testing.driver import DrivenStorage

ENDS = {
    "removed": commit(remove=Removal(checkpoints=(("", "x"),))),
    "cleared": commit(remove=Removal(state=True)),
    "replaced": commit(checkpoint=checkpoint("x", body=b"another")),
}
"""Commits that remove checkpoint `x`, by which commit `x` is recognised."""


class EdgeContract(ContractPart):
    @pytest.mark.parametrize("end", ENDS)
    def test_the_oldest_of_the_last_commits_is_recognised_when_its_checkpoint_goes(
        self, store: DrivenStorage, end: str
    ) -> None:
        made = commit(commit_id="x", checkpoint=checkpoint("x"))
        store.apply(made)
        store.outcomes(*_messages(RECEIPTS_KEPT - 2))
        store.apply(ENDS[end])
        before = store.everything()
        assert store.apply(made).repeated
        assert store.everything() == before

    def test_the_last_commits_are_recognised_at_any_time(self, store: DrivenStorage) -> None:
        """They are recognised even right after older receipts were pruned."""
        made = _messages(RECEIPTS_KEPT + 3 * RECEIPTS_PRUNED)
        store.outcomes(*made[: RECEIPTS_KEPT - 1])
        for new, oldest in zip(made[RECEIPTS_KEPT - 1 :], made, strict=False):
            _, again = store.apply_all(new, oldest)
            assert again.repeated
        assert [each.text for each in store.messages()] == [str(len(made) - 1)]

    def test_a_commit_is_recognised_by_the_checkpoint_that_it_made_a_moment_before(self, store: DrivenStorage) -> None:
        basis = store.apply_all(*(commit(commit_id=name, checkpoint=checkpoint(name)) for name in ("a", "b")))[-1].basis
        first = commit(commit_id="x", basis=basis, checkpoint=checkpoint("x"))
        again = commit(commit_id="x", basis=basis, checkpoint=checkpoint("y"))
        outcomes = store.outcomes(first, again)
        assert [isinstance(each, Applied) and each.repeated for each in outcomes][1:] == [True]
        assert store.checkpoint_ids() == ["x", "b", "a"]

    @pytest.mark.parametrize("namespace", ["", "sub"])
    def test_an_old_commit_is_recognised_by_its_own_checkpoint_in_any_namespace(
        self, store: DrivenStorage, namespace: str
    ) -> None:
        made = commit(commit_id="x", checkpoint=checkpoint("x", namespace=namespace))
        store.apply(made)
        self._is_recognised_for_ever(store, made)

    def test_an_old_commit_is_recognised_by_the_checkpoint_of_its_own_id_that_it_replaced(
        self, store: DrivenStorage
    ) -> None:
        made = commit(commit_id="x", checkpoint=checkpoint("x"))
        store.apply_all(commit(commit_id="y", checkpoint=checkpoint("x", body=b"another")), made)
        self._is_recognised_for_ever(store, made)

    def _is_recognised_for_ever(self, store: DrivenStorage, made: Commit) -> None:
        store.outcomes(*_messages(RECEIPTS_KEPT + 2 * RECEIPTS_PRUNED))
        before = store.everything()
        assert store.apply(made).repeated
        assert store.everything() == before

    @pytest.mark.parametrize("kinds", ["ms", "sm", "rm", "ns"])
    def test_receipts_are_bounded_whatever_kind_of_commit_has_the_even_numbers(
        self, journaling: DrivenStorage, kinds: str
    ) -> None:
        basis = journaling.apply(commit(values=row(0), checkpoint=checkpoint("first"))).basis
        assert basis is not None
        made = [_of_kind(kind, number, basis) for number, kind in enumerate(islice(cycle(kinds), 8 * 128))]
        for first in range(0, len(made), 128):
            outcomes = journaling.outcomes(*made[first : first + 128])
            assert all(isinstance(outcome, Applied) for outcome in outcomes)
            assert len(journaling.receipts()) <= RECEIPTS_KEPT + RECEIPTS_PRUNED
        # The list alone may be bounded, so check that the first commit is really forgotten.
        oldest = next(each for each in made if each.messages)
        (said,) = oldest.messages
        journaling.apply(commit(messages=[message(said.message_id, "changed")]))
        journaling.apply(oldest)
        assert journaling.messages(message_id=said.message_id)[0].text == said.text

    def test_a_commit_without_a_checkpoint_is_forgotten_in_the_end(self, store: DrivenStorage) -> None:
        first, *others = _messages(RECEIPTS_KEPT + 2 * RECEIPTS_PRUNED + 2)
        store.apply(first)
        store.outcomes(*others)
        store.apply(first)
        assert [each.text for each in store.messages()] == ["0"]

    def test_receipts_from_elsewhere_are_forgotten_in_the_end(self, journaling: DrivenStorage) -> None:
        for number in range(4):
            brought = [f"{number}/{place}" for place in range(RECEIPTS_KEPT)]
            journaling.apply(commit(messages=[message("m", "new")], receipts=brought))
        journaling.apply(commit(commit_id="0/0", messages=[message("m", "forgotten")]))
        assert [each.text for each in journaling.messages()] == ["forgotten"]

    def test_a_usual_commit_brings_receipts_too(self, journaling: DrivenStorage) -> None:
        basis = journaling.apply(commit(commit_id="a", values=row(0), checkpoint=checkpoint("a"))).basis
        basis = journaling.apply(commit(commit_id="b", basis=basis, values=row(1), checkpoint=checkpoint("b"))).basis
        usual = commit(commit_id="c", basis=basis, values=row(2), checkpoint=checkpoint("c"), receipts=["elsewhere"])
        journaling.apply(usual)
        assert journaling.apply(commit(commit_id="elsewhere", messages=[message("m")])).repeated
        assert journaling.messages() == []

    def test_usual_commits_go_into_the_journal_and_the_chain(self, journaling: DrivenStorage) -> None:
        usual = _usual(journaling)
        journaling.apply(next(usual)(commit_id="c", journal=b"1"))
        journaling.apply(next(usual)(commit_id="d", after=After("c")))
        journaling.apply(next(usual)(commit_id="e", after=After("d"), journal=b"2"))
        assert [(each.commit_id, each.after) for each in journaling.journal()] == [("c", None), ("e", "d")]
        made = next(usual)
        journaling.refused(made(after=After("d")), StaleBasisError)
        journaling.apply(made())
        made = next(usual)
        journaling.refused(made(after=After("e")), StaleBasisError)
        journaling.apply(made(after=After(None)))

    def test_a_deleted_thread_that_a_usual_commit_makes_anew_is_another(self, store: DrivenStorage) -> None:
        basis = store.apply(commit(commit_id="a", values=row(0), checkpoint=checkpoint("a"))).basis
        store.apply(deletion())
        store.apply(commit(commit_id="b", values=row(0), checkpoint=checkpoint("b")))
        late = commit(commit_id="c", basis=basis, values=row(1), checkpoint=checkpoint("c"))
        store.refused(late, ThreadDeletedError)

    def test_rows_with_a_gap_are_not_merged(self, store: DrivenStorage) -> None:
        store.apply_all(commit(values=row(0, 2)), commit(values=row(2)), commit(values=row(3)))
        store.apply(commit(remove=Removal(values=((2, 3),))))
        for first, values in ((0, 4), (1, 3), (2, 1), (2, 2)):
            store.refused(commit(merge=[row(first, values)]), StaleBasisError)
        store.apply_all(commit(merge=[row(0, 2)]), commit(merge=[row(3)]))

    def test_a_parent_that_came_a_moment_before_is_there(self, store: DrivenStorage) -> None:
        usual = _usual(store)
        before = [next(usual)(commit_id=name) for name in ("c", "d")]
        outcomes = store.outcomes(*before, commit(commit_id="e", checkpoint=checkpoint("e", parent="c")))
        assert [isinstance(each, Applied) for each in outcomes] == [True, True, True]
        assert store.page().checkpoints[0].parent_id == "c"

    def test_a_parent_in_another_namespace_or_removed_by_the_commit_is_not_there(self, store: DrivenStorage) -> None:
        store.apply_all(commit(checkpoint=checkpoint("a")), commit(checkpoint=checkpoint("s", namespace="sub")))
        store.refused(commit(checkpoint=checkpoint("b", namespace="sub", parent="a")), ConflictError)
        store.refused(commit("fork", fork=fork_of("t", "a", namespace="sub")), ConflictError)
        gone = Removal(checkpoints=(("sub", "s"),))
        store.refused(commit(remove=gone, checkpoint=checkpoint("b", namespace="sub", parent="s")), ConflictError)
        store.apply(commit(checkpoint=checkpoint("b", namespace="sub", parent="s")))


def _usual(store: DrivenStorage) -> Iterator[Callable[..., Commit]]:
    """Yield makers of an agent's consecutive commits to a thread that the storage knows."""
    basis = store.apply_all(*(commit(commit_id=name, checkpoint=checkpoint(name)) for name in ("a", "b")))[-1].basis
    for number in count():

        def made(*, commit_id: str = f"usual {number}", number: int = number, **parts: Any) -> Commit:
            return commit(
                commit_id=commit_id, basis=basis, values=row(number), checkpoint=checkpoint(commit_id), **parts
            )

        yield made


def _messages(many: int) -> list[Commit]:
    return [commit(messages=[message("m", str(number))]) for number in range(many)]


def _of_kind(kind: str, number: int, basis: Basis) -> Commit:
    if kind in "mn":
        # The same message repeatedly, or new ones.
        return commit(messages=[message("m" if kind == "m" else f"m{number}", str(number))])
    if kind == "r":
        return commit(remove=Removal(messages=("m",)))
    return commit(commit_id=f"s{number}", basis=basis, checkpoint=checkpoint(f"s{number}"))

"""Times of checkpoints: when an id was first saved, and when it was saved last."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from clew.ids import new_id
from clew.model.commit import Applied, Commit, Removal
from clew.storage.content import again
from clew.testing.build import NOON, attachment, checkpoint, commit, deletion, fields, fork_of, later, message, row
from clew.testing.contract.base import ContractPart
from clew.testing.driver import DrivenStorage

Times = tuple[datetime | None, datetime | None]

KINDS: dict[str, dict[str, Any]] = {
    "alone": {},
    "values": {"values": row(0)},
    "messages": {"messages": [message("m")]},
    "attachments": {"attachments": [attachment("c1", "k")]},
    "description": {"thread": fields("name")},
    "journal": {"journal": b"noted"},
}
"""Parts that a commit has besides its checkpoint. Storages have other ways for some of them."""


def saved(
    checkpoint_id: str, seconds: float, thread_id: str = "t", *, own: bool = False, namespace: str = "", **parts: Any
) -> Commit:
    """Return a commit of a checkpoint at a time. `own`: it has the checkpoint's id."""
    new = checkpoint(checkpoint_id, namespace=namespace, body=f"saved at {seconds}".encode())
    commit_id = checkpoint_id if own else new_id()
    return commit(thread_id, commit_id=commit_id, checkpoint=new, at=later(seconds), **parts)


def kinds(store: DrivenStorage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each kind of commit, whose name is that of a new thread, and its parts besides the checkpoint."""
    for name, parts in KINDS.items():
        if name != "journal" or store.capabilities.journals:
            yield name, parts


def of(outcome: Applied) -> Times:
    return outcome.created_at, outcome.saved_at


def told(store: DrivenStorage, checkpoint_id: str, thread_id: str = "t", namespace: str = "") -> Times:
    """Return the times that every query tells, which must be the same."""
    found = [
        store.checkpoint(checkpoint_id, thread_id, namespace=namespace, detail=detail)
        for detail in ("info", "body", "state")
    ]
    lists = [*store.checkpoints(thread_id, namespace=namespace), *store.checkpoints(thread_id, namespace=None)]
    content, head = store.content(thread_id), store.known(thread_id).head
    assert content is not None
    lists += [*content.checkpoints, *([head] if head is not None else [])]
    found += [each for each in lists if (each.namespace, each.checkpoint_id) == (namespace, checkpoint_id)]
    (times,) = {(each.created_at, each.saved_at) for each in found}
    return times


class TimesContract(ContractPart):
    @pytest.mark.parametrize("own", [True, False])
    def test_a_checkpoint_that_was_saved_once_has_one_time(self, store: DrivenStorage, own: bool) -> None:
        for name, parts in kinds(store):
            store.apply(saved("c0", 0, name))
            assert of(store.apply(saved("c1", 1, name, own=own, **parts))) == (later(1), later(1))
            assert told(store, "c1", name) == (later(1), later(1))

    @pytest.mark.parametrize("namespace", ["", "sub"])
    def test_a_replaced_checkpoint_keeps_the_time_of_its_first_save(self, store: DrivenStorage, namespace: str) -> None:
        for name, parts in kinds(store):
            basis = store.apply(saved("c1", 1, name, own=True, namespace=namespace)).basis
            store.apply(saved("c2", 2, name, own=True, namespace=namespace))
            second = saved("c1", 5, name, namespace=namespace, basis=basis, **parts)
            assert of(store.apply(second)) == (later(1), later(5))
            assert told(store, "c1", name, namespace) == (later(1), later(5))
            assert of(store.apply(second)) == (later(1), later(5))
            assert of(store.apply(saved("c1", 7, name, namespace=namespace))) == (later(1), later(7))
            assert told(store, "c1", name, namespace) == (later(1), later(7))
            assert told(store, "c2", name, namespace) == (later(2), later(2))
            assert store.checkpoint_ids(name, namespace=namespace) == ["c2", "c1"]

    def test_the_head_may_be_replaced_too(self, store: DrivenStorage) -> None:
        store.apply_all(saved("c1", 1, own=True), saved("c1", 5))
        assert told(store, "c1") == (later(1), later(5))

    def test_a_batch_may_save_a_checkpoint_several_times(self, store: DrivenStorage) -> None:
        outcomes = store.outcomes(saved("c0", 0), saved("c1", 1), saved("c1", 2), saved("c1", 3), saved("c2", 4))
        found = [of(each) for each in outcomes if isinstance(each, Applied)]
        times = [later(each) for each in (0, 1, 1, 1, 4)], [later(each) for each in range(5)]
        # The second answer tells what became of the checkpoint since.
        assert self.answers_get_lost or found == list(zip(*times, strict=True))
        assert told(store, "c1") == (later(1), later(3))

    def test_the_same_id_in_another_namespace_or_thread_is_another_checkpoint(self, store: DrivenStorage) -> None:
        store.apply_all(saved("c1", 1), saved("c1", 2, namespace="sub"))
        store.apply(saved("c1", 3, "u"))
        store.apply(saved("c1", 4, namespace="sub"))
        assert told(store, "c1") == (later(1), later(1))
        assert told(store, "c1", namespace="sub") == (later(2), later(4))
        assert told(store, "c1", "u") == (later(3), later(3))

    def test_a_clock_that_was_set_back_changes_neither_time(self, store: DrivenStorage) -> None:
        store.apply_all(saved("c1", 10), saved("c1", -5))
        assert told(store, "c1") == (later(10), later(-5))
        store.apply(saved("c1", 20))
        assert told(store, "c1") == (later(10), later(20))

    @pytest.mark.parametrize("year", [1, 1969, 9999])
    def test_times_far_away_are_kept_when_a_checkpoint_is_replaced(self, store: DrivenStorage, year: int) -> None:
        first = NOON.replace(year=year, microsecond=999_999)
        store.apply_all(commit(checkpoint=checkpoint("c1"), at=first), saved("c1", 1))
        assert told(store, "c1") == (first, later(1))

    def test_an_id_that_was_removed_begins_anew(self, store: DrivenStorage) -> None:
        store.apply_all(saved("c1", 1), saved("c1", 2), saved("c2", 3))
        store.apply(saved("c1", 4, remove=Removal(checkpoints=(("", "c1"),))))
        assert told(store, "c1") == (later(4), later(4))
        store.apply_all(saved("c1", 5), saved("c1", 6, remove=Removal(state=True)))
        assert told(store, "c1") == (later(6), later(6))
        store.apply_all(saved("c1", 7), deletion(), saved("c1", 8))
        assert told(store, "c1") == (later(8), later(8))

    @pytest.mark.parametrize("checkpoint_id", ["c1", None])
    def test_a_fork_has_the_times_of_its_source(self, store: DrivenStorage, checkpoint_id: str | None) -> None:
        store.apply_all(saved("c1", 1), saved("c1", 5))
        assert of(store.apply(commit("fork", fork=fork_of("t", checkpoint_id), at=later(9)))) == (later(1), later(5))
        assert told(store, "copy", "fork") == (later(1), later(5))
        store.apply(saved("copy", 10, "fork"))
        assert told(store, "copy", "fork") == (later(1), later(10))
        store.apply(commit("twice", fork=fork_of("fork", "copy", as_checkpoint_id="x")))
        assert told(store, "x", "twice") == (later(1), later(10))

    def test_a_copy_brings_both_times(self, store: DrivenStorage) -> None:
        store.apply_all(saved("c1", 1), saved("c1", 5))
        # On top of the head, as most checkpoints of a copy: storages have fast paths for that.
        copy = replace(again(store.checkpoint("c1")), parent="c0")
        for name, parts in kinds(store):
            basis = store.apply(saved("c0", 0, name)).basis
            copied = commit(name, basis=basis, checkpoint=copy, at=later(5), **parts)
            assert of(store.apply(copied)) == (later(1), later(5))
            assert of(store.apply(copied)) == (later(1), later(5))
            assert told(store, "c1", name) == (later(1), later(5))

    def test_a_copy_over_a_checkpoint_brings_both_times_too(self, store: DrivenStorage) -> None:
        store.apply_all(saved("c1", 1), saved("c1", 5))
        copied = again(store.checkpoint("c1"))
        for earlier in (saved("c1", 9), commit(remove=Removal(state=True)), saved("c1", 3)):
            store.apply(earlier)
            assert of(store.apply(commit(checkpoint=copied, at=later(5)))) == (later(1), later(5))
            assert told(store, "c1") == (later(1), later(5))

    def test_statistics_count_a_checkpoint_on_the_day_of_its_last_save(self, store: DrivenStorage) -> None:
        store.apply_all(saved("c1", 1), saved("c1", 86_400))
        (day,) = store.stats().by_day
        assert day == later(86_400).date().isoformat()

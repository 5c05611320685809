"""Checkpoints: lineages, heads, conflicts and queries."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from clew.errors import ConflictError
from clew.model.commit import Removal
from clew.model.records import CheckpointRecord
from clew.testing.build import NOON, attachment, checkpoint, commit, later, message, row
from clew.testing.contract.base import ContractPart, chain, full_commit
from clew.testing.driver import DrivenStorage


class CheckpointContract(ContractPart):
    def test_a_checkpoint_comes_back_as_it_was_written(self, store: DrivenStorage) -> None:
        store.apply(commit(values=row(0, 4), messages=[message("m1")]))
        new = checkpoint(
            "c1",
            node_name="plan",
            step=7,
            run_id="r1",
            size=99,
            metadata=b"\0meta",
            body=b"\xff\0",
            covers=[(0, 2), (3, 4)],
        )
        store.apply(commit(checkpoint=new, at=later(1.000001)))
        assert store.checkpoint("c1") == CheckpointRecord(
            checkpoint_id="c1",
            namespace="",
            sequence=2,
            parent_id=None,
            created_at=later(1.000001),
            saved_at=later(1.000001),
            node_name="plan",
            step=7,
            run_id="r1",
            size=99,
            metadata=b"\0meta",
            body=b"\xff\0",
            covers=((0, 2), (3, 4)),
        )

    def test_absence_and_emptiness_are_not_the_same(self, store: DrivenStorage) -> None:
        none = checkpoint("none", node_name=None, step=None, run_id=None, metadata=b"", body=b"")
        empty = checkpoint("empty", node_name="", step=0, run_id="", metadata=b"", body=b"")
        store.apply_all(commit(checkpoint=none), commit(checkpoint=empty))
        found = [(c.node_name, c.step, c.run_id, c.metadata, c.body) for c in store.checkpoints(detail="body")]
        assert found == [("", 0, "", b"", b""), (None, None, None, b"", b"")]

    @pytest.mark.parametrize("step", [-1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)])
    def test_numbers_up_to_64_bits_are_kept(self, store: DrivenStorage, step: int) -> None:
        store.apply(commit(checkpoint=checkpoint("c1", step=step, size=abs(step) // 2)))
        found = store.checkpoint("c1")
        assert (found.step, found.size) == (step, abs(step) // 2)

    def test_a_large_body_comes_back_whole(self, store: DrivenStorage) -> None:
        body = bytes(range(256)) * 20_000
        store.apply(commit(checkpoint=checkpoint("c1", body=body)))
        assert store.checkpoint("c1").body == body

    @pytest.mark.parametrize("hours", [-11.5, 0, 5.75, 14])
    def test_times_of_any_zone_come_back_as_the_same_instant(self, store: DrivenStorage, hours: float) -> None:
        at = datetime(2026, 3, 29, 1, 30, 0, 123457, tzinfo=timezone(timedelta(hours=hours)))
        store.apply(commit(checkpoint=checkpoint("c1"), at=at))
        assert store.checkpoint("c1").created_at == at
        assert store.checkpoint("c1").created_at.utcoffset() is not None
        assert store.known().created_at == store.known().updated_at == at

    @pytest.mark.parametrize("year", [1, 1969, 2262, 9999])
    def test_times_far_away_are_kept_to_the_microsecond(self, store: DrivenStorage, year: int) -> None:
        at = NOON.replace(year=year, microsecond=999_999)
        store.apply(commit(checkpoint=checkpoint("c1"), at=at, messages=[message("m1", created_at=at)]))
        assert store.checkpoint("c1").created_at == at
        assert store.messages()[0].created_at == at

    @pytest.mark.parametrize("detail", ["info", "body", "state"])
    def test_detail_says_how_much_is_read(self, store: DrivenStorage, detail: str) -> None:
        store.apply(full_commit())
        page = store.page(detail=detail)
        (found,) = page.checkpoints
        assert (found.body, found.covers) == ((b"", ()) if detail == "info" else (b"body of c1", ((0, 3),)))
        assert page.rows == ((row(0, 3),) if detail == "state" else ())
        assert (found.metadata, found.size, found.step) == (b"metadata", 11, 1)

    def test_checkpoints_come_newest_first(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(12))
        assert store.checkpoint_ids() == [f"c{number}" for number in range(12, 0, -1)]

    def test_limit_says_how_many_checkpoints_at_most(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(3))
        for limit in (0, 1, 2, 3, 100, None):
            assert store.checkpoint_ids(limit=limit) == ["c3", "c2", "c1"][:limit]
            assert store.page(limit=limit).basis is not None

    @pytest.mark.parametrize("steps", [(0, 0, 0), (30, 20, 10), (-(10**8), 5, -(10**8))])
    def test_the_order_does_not_depend_on_the_clock(self, store: DrivenStorage, steps: tuple[int, ...]) -> None:
        for number, seconds in enumerate(steps):
            store.apply(commit(checkpoint=checkpoint(f"c{number}"), at=later(seconds)))
        found = store.checkpoints()
        assert [c.checkpoint_id for c in found] == ["c2", "c1", "c0"]
        assert [c.parent_id for c in found] == ["c1", "c0", None]
        assert [c.saved_at for c in found] == [later(seconds) for seconds in reversed(steps)]

    def test_the_order_does_not_depend_on_the_ids(self, store: DrivenStorage) -> None:
        names = ["m", "z", "a", "10", "9", "Z"]
        store.apply_all(*(commit(checkpoint=checkpoint(name)) for name in names))
        assert store.checkpoint_ids() == names[::-1]

    def test_before_gives_only_older_ones(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(5))
        assert store.checkpoint_ids(before="c3") == ["c2", "c1"]
        assert store.checkpoint_ids(before="c3", limit=1) == ["c2"]
        assert store.checkpoint_ids(before="c1") == []

    def test_before_and_limit_walk_through_all(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(7))
        seen: list[str] = []
        while page := store.checkpoint_ids(limit=3, before=seen[-1] if seen else None):
            seen += page
        assert seen == [f"c{number}" for number in range(7, 0, -1)]

    def test_a_number_gives_only_those_that_are_under_it(self, store: DrivenStorage) -> None:
        store.apply_all(*[commit(checkpoint=checkpoint(f"c{number}", run_id=f"r{number % 2}")) for number in range(5)])
        store.apply(commit(checkpoint=checkpoint("s", namespace="sub")))
        assert store.checkpoint_ids(before_sequence=4) == ["c2", "c1", "c0"]
        assert store.checkpoint_ids(before_sequence=4, limit=1) == ["c2"]
        assert store.checkpoint_ids(before_sequence=5, run_id="r1") == ["c3", "c1"]
        assert store.checkpoint_ids(before_sequence=4, before="c4") == ["c2", "c1", "c0"]
        assert store.checkpoint_ids(before_sequence=5, before="c1") == ["c0"]
        assert store.checkpoint_ids(before_sequence=9, before="nowhere") == []
        assert store.checkpoint_ids(before_sequence=1) == store.checkpoint_ids(before_sequence=0) == []
        assert store.checkpoint_ids(before_sequence=6, namespace="sub") == []
        assert store.checkpoint_ids(before_sequence=7, namespace="sub") == ["s"]
        assert store.checkpoint_ids(before_sequence=3, checkpoint_id="c1") == ["c1"]
        assert store.checkpoint_ids(before_sequence=2, checkpoint_id="c1") == []

    def test_numbers_walk_through_namespaces_that_have_the_same_ids(self, store: DrivenStorage) -> None:
        for name in ("", "sub"):
            store.apply_all(*[commit(checkpoint=checkpoint(f"c{number}", namespace=name)) for number in range(5)])
        seen: list[CheckpointRecord] = []
        before = None
        while page := store.page(namespace=None, limit=3, before_sequence=before, detail="state").checkpoints:
            seen += page
            before = page[-1].sequence
        assert [each.sequence for each in seen] == list(range(10, 0, -1))

    def test_before_is_of_its_namespace(self, store: DrivenStorage) -> None:
        for number in range(3):
            store.apply(commit(checkpoint=checkpoint(f"c{number}")))
            store.apply(commit(checkpoint=checkpoint(f"c{2 - number}", namespace="sub")))
        assert store.checkpoint_ids(before="c2") == ["c1", "c0"]
        assert store.checkpoint_ids(before="c2", namespace="sub") == []
        assert store.checkpoint_ids(before="c0", namespace="sub") == ["c1", "c2"]

    def test_run_id_chooses_and_limit_counts_what_it_chose(self, store: DrivenStorage) -> None:
        for number in range(6):
            store.apply(commit(checkpoint=checkpoint(f"c{number}", run_id=f"r{number % 2}")))
        assert store.checkpoint_ids(run_id="r0") == ["c4", "c2", "c0"]
        assert store.checkpoint_ids(run_id="r0", limit=2) == ["c4", "c2"]
        assert store.checkpoint_ids(run_id="r0", before="c3") == ["c2", "c0"]
        assert store.checkpoint_ids(run_id="r2") == []

    def test_one_checkpoint_can_be_asked_for(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(3))
        assert store.checkpoint_ids(checkpoint_id="c2") == ["c2"]
        page = store.page(checkpoint_id="c9")
        assert page.checkpoints == () and page.basis is not None

    def test_a_thread_that_is_not_there_has_no_basis(self, store: DrivenStorage) -> None:
        page = store.page("nowhere", detail="state")
        assert (page.basis, page.checkpoints, page.rows) == (None, (), ())

    def test_a_thread_without_checkpoints_has_a_basis(self, store: DrivenStorage) -> None:
        basis = store.apply(commit(messages=[message("m1")])).basis
        assert store.page().basis == basis is not None

    def test_namespaces_are_separate_lineages(self, store: DrivenStorage) -> None:
        for namespace in ("", "a", "a|b", "", "a"):
            count = len(store.checkpoints(namespace=namespace))
            store.apply(commit(checkpoint=checkpoint(f"c{count}", namespace=namespace)))
        assert [(c.checkpoint_id, c.parent_id) for c in store.checkpoints(namespace="a")] == [
            ("c1", "c0"),
            ("c0", None),
        ]
        assert [(c.checkpoint_id, c.parent_id) for c in store.checkpoints()] == [("c1", "c0"), ("c0", None)]
        assert store.checkpoint_ids(namespace="a|b") == ["c0"]
        assert store.checkpoint_ids(namespace="b") == []

    def test_all_namespaces_can_be_asked_for_at_once(self, store: DrivenStorage) -> None:
        for number, namespace in enumerate(["", "a", "b", "a", ""]):
            store.apply(commit(checkpoint=checkpoint(f"c{number}", namespace=namespace)))
        found = store.checkpoints(namespace=None)
        assert [(c.namespace, c.sequence) for c in found] == [("", 5), ("a", 4), ("b", 3), ("a", 2), ("", 1)]
        assert store.checkpoint_ids(namespace=None, limit=2) == ["c4", "c3"]
        assert store.checkpoint_ids(namespace=None, before="c3") == ["c2", "c1", "c0"]

    def test_an_id_may_stand_in_several_namespaces(self, store: DrivenStorage) -> None:
        for namespace in ("", "a", "b"):
            store.apply(commit(checkpoint=checkpoint("same", namespace=namespace, body=namespace.encode())))
        assert [c.body for c in store.checkpoints(namespace=None, checkpoint_id="same", detail="body")] == [
            b"b",
            b"a",
            b"",
        ]
        assert store.checkpoint("same", namespace="a").body == b"a"
        store.apply(commit(remove=Removal(checkpoints=(("a", "same"),))))
        assert [c.namespace for c in store.checkpoints(namespace=None)] == ["b", ""]

    def test_the_parent_of_the_first_is_nothing(self, store: DrivenStorage) -> None:
        assert store.apply_all(*chain(1))[0].parent_id is None

    def test_a_named_parent_that_is_not_the_head_makes_a_branch(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(2))
        branch = store.apply(commit(checkpoint=checkpoint("d", parent="c1")))
        assert (branch.parent_id, branch.sequence) == ("c1", 3)
        assert [(c.checkpoint_id, c.parent_id) for c in store.checkpoints()] == [
            ("d", "c1"),
            ("c2", "c1"),
            ("c1", None),
        ]
        assert store.apply(commit(checkpoint=checkpoint("e"))).parent_id == "d"

    def test_a_second_beginning_is_a_branch_too(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(1))
        assert store.apply(commit(checkpoint=checkpoint("d", parent=None))).parent_id is None
        assert store.checkpoint_ids() == ["d", "c1"]

    @pytest.mark.parametrize("parent", ["c1", None, "unknown"])
    def test_a_writer_may_refuse_to_branch(self, store: DrivenStorage, parent: str | None) -> None:
        store.apply_all(*chain(2))
        error = store.refused(commit(checkpoint=checkpoint("d", parent=parent, on_conflict="reject")), ConflictError)
        assert "c2" in str(error)
        assert store.checkpoint_ids() == ["c2", "c1"]

    def test_refusing_to_branch_is_fine_when_nothing_came_between(self, store: DrivenStorage) -> None:
        store.apply(commit(checkpoint=checkpoint("c1", parent=None, on_conflict="reject")))
        store.apply(commit(checkpoint=checkpoint("c2", parent="c1", on_conflict="reject")))
        assert store.checkpoint_ids() == ["c2", "c1"]

    def test_whatever_is_the_head_never_conflicts(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(3, on_conflict="reject"))
        assert store.checkpoint_ids() == ["c3", "c2", "c1"]

    def test_other_namespaces_do_not_conflict(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(1), *chain(3, namespace="sub"))
        store.apply(commit(checkpoint=checkpoint("c2", parent="c1", on_conflict="reject")))
        assert store.checkpoint_ids() == ["c2", "c1"]

    def test_an_id_that_exists_is_replaced_in_its_place(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(3))
        new = checkpoint("c2", body=b"new", metadata=b"changed", node_name="other", step=9, run_id="r", size=1)
        again = store.apply(commit(checkpoint=new, at=later(9)))
        assert (again.parent_id, again.sequence) == ("c1", 2)
        assert store.checkpoint_ids() == ["c3", "c2", "c1"]
        found = store.checkpoint("c2")
        assert (found.sequence, found.parent_id, found.body, found.metadata) == (2, "c1", b"new", b"changed")
        assert (found.node_name, found.step, found.run_id, found.size) == ("other", 9, "r", 1)
        assert store.known().checkpoint_count == 3
        assert store.apply(commit(checkpoint=checkpoint("c4"))).parent_id == "c3"

    def test_a_replaced_checkpoint_keeps_its_attachments(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        store.apply(commit(checkpoint=checkpoint("c1", body=b"new")))
        assert store.attachments("c1") == [attachment("c1", "k")]

    def test_both_commits_of_a_replaced_checkpoint_are_recognised(self, store: DrivenStorage) -> None:
        commits = [commit(checkpoint=checkpoint("c1", body=body)) for body in (b"old", b"new")]
        store.apply_all(*commits)
        assert [outcome.repeated for outcome in store.apply_all(*commits)] == [True, True]
        assert store.checkpoint("c1").body == b"new"

    def test_a_thread_of_many_checkpoints_gives_its_head(self, store: DrivenStorage) -> None:
        store.outcomes(*chain(600))
        assert store.checkpoint_ids(limit=2) == ["c600", "c599"]
        assert store.known().checkpoint_count == 600

    def test_the_rows_of_a_checkpoint_that_the_caller_knows_are_left_out(self, store: DrivenStorage) -> None:
        store.apply(commit(values=row(0), checkpoint=checkpoint("c1", covers=[(0, 1)])))
        store.apply(commit(values=row(1), checkpoint=checkpoint("c2", covers=[(1, 2)])))
        assert store.page(detail="state", limit=1, known="c2").rows == ()
        assert store.page(detail="state", limit=1, known="c1").rows == (row(1),)
        assert store.page(detail="state", known="c2").rows == (row(0),)
        assert store.page(detail="state", limit=1, known="c2").checkpoints == (store.checkpoint("c2"),)

    def test_a_parent_that_is_not_there_is_accepted_only_from_a_writer_that_knows_the_thread(
        self, store: DrivenStorage
    ) -> None:
        basis = store.apply(commit(checkpoint=checkpoint("c1"))).basis
        orphan = checkpoint("c2", parent="gone")
        store.refused(commit(checkpoint=orphan), ConflictError)
        store.refused(commit("new", checkpoint=orphan), ConflictError)
        assert store.thread("new") is None
        assert store.apply(commit(basis=basis, checkpoint=orphan)).parent_id == "gone"

    def test_a_parent_taken_out_by_the_same_commit_is_not_there(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(3))
        removal = Removal(checkpoints=(("", "c1"),))
        store.refused(commit(remove=removal, checkpoint=checkpoint("c9", parent="c1")), ConflictError)
        assert store.checkpoint_ids() == ["c3", "c2", "c1"]

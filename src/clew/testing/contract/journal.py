"""The journal: entries for another store, and the chain of commits that detects divergence."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from clew.errors import ConflictError, ThreadDeletedError
from clew.model.commit import After, Begin, Removal
from clew.model.records import JournalEntry
from clew.storage.protocol import StaleBasisError
from clew.testing.build import NOON, checkpoint, commit, deletion, fork_of, later, message, row
from clew.testing.contract.base import ContractPart, full_commit
from clew.testing.driver import DrivenStorage


def noted(entry: JournalEntry) -> tuple[str, str, str | None, bytes]:
    return entry.thread_id, entry.commit_id, entry.after, entry.data


class JournalContract(ContractPart):
    def test_a_commit_without_a_journal_leaves_none(self, journaling: DrivenStorage) -> None:
        journaling.apply(full_commit())
        assert journaling.journal() == []

    def test_entries_come_in_the_order_of_the_thread_and_name_the_commit_before(
        self, journaling: DrivenStorage
    ) -> None:
        journaling.apply(full_commit(commit_id="a", journal=b"1"))
        for number, name in enumerate("bcd", 2):
            journaling.apply(commit(commit_id=name, at=later(number), messages=[message(name)], journal=b"%d" % number))
        entries = journaling.journal()
        assert [noted(each) for each in entries] == [
            ("t", "a", None, b"1"),
            ("t", "b", "a", b"2"),
            ("t", "c", "b", b"3"),
            ("t", "d", "c", b"4"),
        ]
        assert [each.at for each in entries] == [NOON, later(2), later(3), later(4)]
        assert [each.position for each in entries] == sorted({each.position for each in entries})
        page = journaling.page()
        assert page.basis is not None
        assert {each.incarnation for each in entries} == {page.basis.incarnation}

    def test_an_entry_may_hold_any_bytes(self, journaling: DrivenStorage) -> None:
        for name, data in (("empty", b""), ("all", bytes(range(256)) * 300)):
            journaling.apply(commit(name, messages=[message("m")], journal=data))
            assert [each.data for each in journaling.journal(thread_id=name)] == [data]

    def test_the_whole_commit_is_applied_that_leaves_an_entry(self, journaling: DrivenStorage) -> None:
        plain = full_commit("plain")
        journaling.apply(plain)
        outcome = journaling.apply(full_commit("noted", journal=b"j"))
        assert (outcome.sequence, outcome.parent_id) == (1, None)
        # The journal does not count toward the thread's size.
        assert journaling.known("noted").size == journaling.known("plain").size
        page = journaling.page("noted", detail="state")
        assert (page.checkpoints, page.rows) == (journaling.page("plain", detail="state").checkpoints, (row(0, 3),))
        assert journaling.message_ids("noted") == ["m1"]
        assert len(journaling.attachments("c1", "noted")) == 1

    def test_what_is_refused_or_repeated_leaves_no_entry(self, journaling: DrivenStorage) -> None:
        first = full_commit(journal=b"first")
        journaling.apply_all(first, first)
        rejected = checkpoint("c2", parent="elsewhere", on_conflict="reject")
        journaling.refused(commit(checkpoint=rejected, journal=b"refused"), ConflictError)
        assert [each.data for each in journaling.journal()] == [b"first"]
        journaling.run(journaling.storage.trim(journaling.journal()))
        assert journaling.apply(first).repeated
        assert journaling.journal() == []

    def test_a_refused_commit_between_others_leaves_no_entry(self, journaling: DrivenStorage) -> None:
        rejected = checkpoint("c2", parent="elsewhere", on_conflict="reject")
        outcomes = journaling.outcomes(
            full_commit(journal=b"first"),
            commit(checkpoint=rejected, journal=b"refused"),
            commit(messages=[message("m2")], journal=b"last"),
        )
        assert [isinstance(each, ConflictError) for each in outcomes] == [False, True, False]
        assert [each.data for each in journaling.journal()] == [b"first", b"last"]

    def test_entries_of_one_thread_of_others_and_a_few_only(self, journaling: DrivenStorage) -> None:
        for thread_id in ("t", "u", "v", "u"):
            journaling.apply(commit(thread_id, messages=[message("m")], journal=thread_id.encode()))
        assert [each.thread_id for each in journaling.journal(thread_id="u")] == ["u", "u"]
        assert sorted(each.thread_id for each in journaling.journal(without=frozenset({"u", "w"}))) == ["t", "v"]
        assert len(journaling.journal(limit=3)) == 3
        assert [each.thread_id for each in journaling.journal(thread_id="u", limit=1)] == ["u"]
        assert journaling.journal(thread_id="x") == []
        assert journaling.journal_count() == 4

    def test_trimmed_entries_are_gone_and_trimming_again_is_fine(self, journaling: DrivenStorage) -> None:
        for name in "abc":
            journaling.apply(commit("t", commit_id=name, messages=[message(name)], journal=b"j"))
            journaling.apply(commit(f"of {name}", messages=[message("m")], journal=b"j"))
        entries = journaling.journal(thread_id="t")
        for _ in range(2):
            journaling.run(journaling.storage.trim(entries[:2]))
            assert [each.commit_id for each in journaling.journal(thread_id="t")] == ["c"]
            assert journaling.journal_count() == 4
        journaling.run(journaling.storage.trim(journaling.journal()))
        assert (journaling.journal(), journaling.journal_count()) == ([], 0)
        journaling.apply(commit("t", commit_id="d", messages=[message("d")], journal=b"j"))
        (entry,) = journaling.journal()
        assert (entry.after, entry.position > entries[-1].position) == ("c", True)

    def test_a_commit_is_applied_only_after_the_one_that_it_names(self, journaling: DrivenStorage) -> None:
        journaling.apply(commit(commit_id="a", messages=[message("m1")], after=After(None)))
        for wrong in (None, "b"):
            error = journaling.refused(commit(messages=[message("m2")], after=After(wrong)), StaleBasisError)
            assert error.facts["actual"] == "a"
        journaling.apply(commit(commit_id="b", messages=[message("m2")], after=After("a")))
        journaling.apply(commit(commit_id="c", checkpoint=checkpoint("c1"), journal=b"j"))
        journaling.apply(commit(commit_id="d", messages=[message("m3")], after=After("c")))
        assert [each.after for each in journaling.journal()] == ["b"]
        assert journaling.message_ids() == ["m1", "m2", "m3"]

    def test_a_commit_after_one_of_a_thread_that_is_not_there_makes_none(self, journaling: DrivenStorage) -> None:
        for parts in ({}, {"journal": b"j"}, {"begin": Begin(incarnation="mine")}):
            journaling.refused(commit(messages=[message("m")], after=After("a"), **parts), StaleBasisError)
        assert (journaling.threads(), journaling.journal()) == ([], [])

    def test_what_was_applied_before_is_repeated_wherever_the_chain_ends(self, journaling: DrivenStorage) -> None:
        first = commit(commit_id="a", messages=[message("m1")], after=After(None))
        journaling.apply_all(first, commit(commit_id="b", messages=[message("m2")], after=After("a")))
        assert journaling.apply(first).repeated
        journaling.apply(commit(commit_id="c", messages=[message("m3")], after=After("b")))

    def test_a_commit_outside_the_chain_ends_it(self, journaling: DrivenStorage) -> None:
        journaling.apply(commit(commit_id="a", values=row(0), checkpoint=checkpoint("c1"), journal=b"j"))
        journaling.apply(commit(values=row(1), checkpoint=checkpoint("c2")))
        journaling.refused(commit(messages=[message("m")], after=After("a")), StaleBasisError)
        journaling.apply(commit(commit_id="b", messages=[message("m")], after=After(None)))
        for way in ({"messages": [message("n")]}, {"remove": Removal(messages=("m",))}):
            journaling.apply(commit(**way))
            journaling.refused(commit(messages=[message("m")], after=After("b")), StaleBasisError)
            journaling.apply(commit(commit_id="b" + str(way), messages=[message("m")], after=After(None)))

    def test_a_deletion_is_in_the_chain_and_keeps_the_journal(self, journaling: DrivenStorage) -> None:
        basis = journaling.apply(full_commit(commit_id="a", journal=b"1")).basis
        assert basis is not None
        journaling.apply(commit(commit_id="gone", remove=Removal(thread=True), journal=b"2"))
        journaling.apply(full_commit(commit_id="again", journal=b"3"))
        entries = journaling.journal(thread_id="t")
        assert [(each.commit_id, each.after) for each in entries] == [("a", None), ("gone", "a"), ("again", "gone")]
        incarnations = [each.incarnation for each in entries]
        assert incarnations[0] == incarnations[1] == basis.incarnation != incarnations[2]

    def test_removing_a_thread_that_is_not_there_leaves_its_entry(self, journaling: DrivenStorage) -> None:
        journaling.apply(commit(commit_id="gone", remove=Removal(thread=True), journal=b"1"))
        assert [(each.after, each.incarnation) for each in journaling.journal()] == [(None, None)]
        assert journaling.threads() == []
        journaling.apply(commit("t", messages=[message("m")], after=After("gone")))

    def test_a_late_commit_can_not_create_a_deleted_thread_again(self, journaling: DrivenStorage) -> None:
        ways: list[dict[str, Any]] = [{}, {"begin": Begin(incarnation="mine")}, {"journal": b"j"}]
        for number, parts in enumerate(ways):
            name = f"t{number}"
            first = commit(name, commit_id="first", messages=[message("m")], after=After(None), **parts)
            gone = commit(name, commit_id="gone", remove=Removal(thread=True), after=After("first"))
            journaling.apply_all(first, gone)
            error = journaling.refused(first, StaleBasisError)
            assert (error.facts["expected"], error.facts["actual"]) == (None, "gone")
            assert journaling.threads() == []
            assert len(journaling.journal(thread_id=name)) == ("journal" in parts)

    def test_a_late_commit_can_not_create_a_thread_that_was_never_there_and_is_ended(
        self, journaling: DrivenStorage
    ) -> None:
        late = commit(commit_id="late", messages=[message("m")], after=After(None))
        journaling.apply(commit(commit_id="end", remove=Removal(), after=After(None)))
        assert journaling.refused(late, StaleBasisError).facts["actual"] == "end"
        journaling.apply(commit(commit_id="later", remove=Removal(messages=("m",)), after=After("end"), journal=b"j"))
        assert journaling.refused(late, StaleBasisError).facts["actual"] == "later"
        assert (journaling.threads(), [each.after for each in journaling.journal()]) == ([], ["end"])

    def test_a_thread_that_is_created_again_continues_the_chain_of_the_deleted_one(
        self, journaling: DrivenStorage
    ) -> None:
        for name in ("shipped", "written", "forked"):
            journaling.apply(commit(name, commit_id="first", messages=[message("m")], after=After(None)))
            journaling.apply(commit(name, commit_id="gone", remove=Removal(thread=True), journal=b"gone"))
        journaling.apply(full_commit())
        journaling.apply(commit("shipped", messages=[message("m")], after=After("gone"), journal=b"anew"))
        journaling.apply(commit("written", messages=[message("m")], journal=b"anew"))
        journaling.apply(commit("forked", fork=fork_of("t"), journal=b"anew"))
        assert [(each.after, each.data) for each in journaling.journal()] == [
            *[("first", b"gone")] * 3,
            *[("gone", b"anew")] * 3,
        ]
        for each in journaling.journal():
            if each.data == b"anew":
                journaling.apply(commit(each.thread_id, messages=[message("n")], after=After(each.commit_id)))

    def test_a_deletion_that_arrives_twice_is_repeated(self, journaling: DrivenStorage) -> None:
        journaling.apply(commit(commit_id="first", messages=[message("m")], after=After(None)))
        gone = commit(commit_id="gone", remove=Removal(thread=True), after=After("first"), journal=b"j")
        *_, again = journaling.apply_all(gone, gone)
        assert again.repeated
        again = journaling.apply(gone)
        assert (again.repeated, again.basis, again.removed) == (True, None, 0)
        assert [each.commit_id for each in journaling.journal()] == ["gone"]
        journaling.apply(commit(commit_id="anew", messages=[message("m")], after=After("gone")))

    def test_commits_outside_the_chain_leave_the_end_of_a_deleted_thread(self, journaling: DrivenStorage) -> None:
        journaling.apply(commit(commit_id="first", messages=[message("m")], after=After(None)))
        journaling.apply(commit(commit_id="gone", remove=Removal(thread=True), after=After("first")))
        ways: list[dict[str, Any]] = [{}, {"journal": b"j"}]
        for parts in ways:
            # Another thread of the same name has a chain of its own, or none.
            journaling.apply(commit(messages=[message("m")]))
            journaling.apply(commit(commit_id="own", messages=[message("n")], **parts))
            journaling.apply(commit(messages=[message("o")], after=After("own" if parts else None)))
            journaling.apply(deletion())
            journaling.apply(deletion())
            journaling.refused(commit(messages=[message("m")], after=After(None)), StaleBasisError)
        journaling.apply(commit(messages=[message("m")], after=After("gone")))

    def test_a_new_thread_is_known_by_what_its_commit_says(self, journaling: DrivenStorage) -> None:
        outcome = journaling.apply(full_commit(begin=Begin(incarnation="mine", epoch=7), journal=b"j"))
        assert outcome.basis is not None
        assert (outcome.basis.incarnation, outcome.basis.epoch) == ("mine", 7)
        assert journaling.page().basis == outcome.basis
        assert [each.incarnation for each in journaling.journal()] == ["mine"]
        journaling.apply(commit(basis=outcome.basis, messages=[message("m2")]))
        again = journaling.apply(commit(messages=[message("m3")], begin=Begin(incarnation="other", epoch=9)))
        assert again.basis == outcome.basis
        fork = journaling.apply(commit("f", fork=fork_of("t"), begin=Begin(incarnation="the fork", epoch=3)))
        assert fork.basis is not None
        assert (fork.basis.incarnation, fork.basis.epoch) == ("the fork", 3)
        journaling.apply(deletion())
        journaling.refused(commit(basis=outcome.basis, messages=[message("m4")]), ThreadDeletedError)

    def test_taking_values_out_counts_on_from_the_given_epoch(self, journaling: DrivenStorage) -> None:
        journaling.apply(full_commit(begin=Begin(incarnation="mine", epoch=7)))
        outcome = journaling.apply(commit(remove=Removal(state=True)))
        assert outcome.basis is not None
        assert outcome.basis.epoch == 8

    def test_commits_of_many_threads_at_once_leave_an_entry_each(self, journaling: DrivenStorage) -> None:
        def job(thread_id: str, name: str, at: datetime) -> object:
            return journaling.storage.apply(
                [commit(thread_id, commit_id=name, at=at, messages=[message(name)], journal=name.encode())]
            )

        jobs = [
            (lambda thread_id=f"t{number % 5}", name=f"{number}": job(thread_id, name, NOON)) for number in range(40)
        ]
        journaling.at_once(jobs)  # type: ignore[arg-type]
        assert journaling.journal_count() == 40
        for number in range(5):
            entries = journaling.journal(thread_id=f"t{number}")
            assert [each.commit_id for each in entries] == journaling.message_ids(f"t{number}")
            assert [each.after for each in entries] == [None, *(each.commit_id for each in entries[:-1])]

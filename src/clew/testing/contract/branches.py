"""Branches: a message belongs to the branch that it was said on."""

from __future__ import annotations

import pytest

from clew.model.commit import HEAD, BackTo, Commit, Removal
from clew.model.records import Basis
from clew.testing.build import checkpoint, commit, fork_of, message, row
from clew.testing.contract.base import ContractPart
from clew.testing.driver import DrivenStorage


def said(name: str, parent: str | None = None, *, basis: Basis | None = None) -> Commit:
    """Return a commit of checkpoint `c<name>` with message `m<name>`, from the head or from `parent`."""
    new = checkpoint(f"c{name}") if parent is None else checkpoint(f"c{name}", parent=parent)
    return commit(checkpoint=new, messages=[message(f"m{name}", f"text {name}")], basis=basis)


class BranchContract(ContractPart):
    @pytest.fixture
    def branched(self, store: DrivenStorage) -> DrivenStorage:
        """Return a store whose thread has `c1 c2 c3`, then `c4` and `c5` from `c1`, each with a message, and
        message `alone` after `c3`."""
        store.apply_all(said("1"), said("2"), said("3"), commit(messages=[message("alone")]))
        store.apply_all(said("4", "c1"), said("5"))
        return store

    def test_a_thread_that_never_branched_has_one_conversation(self, store: DrivenStorage) -> None:
        store.apply_all(said("1"), commit(messages=[message("alone")]), said("2"))
        assert store.message_ids(branch=HEAD) == store.message_ids() == ["m1", "alone", "m2"]
        assert store.message_ids(branch="c2") == ["m1", "alone", "m2"]
        assert store.message_ids(branch="c1") == ["m1"]
        assert store.values().points == ()

    def test_the_head_has_the_messages_of_its_branch(self, branched: DrivenStorage) -> None:
        assert branched.message_ids(branch=HEAD) == ["m1", "m4", "m5"]
        assert branched.message_ids() == ["m1", "m2", "m3", "alone", "m4", "m5"]
        assert branched.values().points == ((1, 5),)

    def test_a_checkpoint_has_the_messages_up_to_it_on_its_branch(self, branched: DrivenStorage) -> None:
        found = {name: branched.message_ids(branch=name) for name in ("c1", "c2", "c3", "c4", "c5", "c6")}
        assert found == {
            "c1": ["m1"],
            "c2": ["m1", "m2"],
            "c3": ["m1", "m2", "m3"],
            "c4": ["m1", "m4"],
            "c5": ["m1", "m4", "m5"],
            "c6": [],
        }

    def test_a_branch_of_a_branch_continues_where_it_began(self, branched: DrivenStorage) -> None:
        branched.apply_all(said("6", "c2"), said("7", "c4"), said("8", "c6"))
        assert branched.message_ids(branch=HEAD) == ["m1", "m2", "m6", "m8"]
        assert branched.message_ids(branch="c7") == ["m1", "m4", "m7"]
        assert branched.message_ids(branch="c6") == ["m1", "m2", "m6"]

    def test_a_message_put_alone_belongs_to_the_head(self, branched: DrivenStorage) -> None:
        branched.apply(commit(messages=[message("later")]))
        assert branched.message_ids(branch=HEAD) == ["m1", "m4", "m5", "later"]
        branched.apply(said("6", "c3"))
        # Said after c3 was saved, so not as of c3.
        assert branched.message_ids(branch=HEAD) == ["m1", "m2", "m3", "m6"]

    def test_pages_and_searches_are_of_the_branch(self, branched: DrivenStorage) -> None:
        assert branched.message_ids(branch=HEAD, offset=1, limit=1) == ["m4"]
        assert branched.message_ids(branch=HEAD, search="text", offset=1) == ["m4", "m5"]
        assert branched.message_ids(branch=HEAD, search="text 2") == []
        assert branched.message_ids(branch="c3", search="text", limit=2) == ["m1", "m2"]
        assert branched.message_ids(branch=HEAD, offset=3) == branched.message_ids(branch=HEAD, limit=0) == []

    def test_a_message_asked_for_by_id_is_found_on_any_branch(self, branched: DrivenStorage) -> None:
        assert branched.message_ids(branch=HEAD, message_id="m2") == ["m2"]

    def test_a_replaced_message_keeps_its_branch(self, branched: DrivenStorage) -> None:
        branched.apply(commit(messages=[message("m2", "changed"), message("m4", "changed too")]))
        assert branched.message_ids(branch=HEAD) == ["m1", "m4", "m5"]
        assert branched.message_ids(branch="c3", search="changed") == ["m2"]

    def test_a_message_said_again_with_a_checkpoint_moves_to_its_branch(self, branched: DrivenStorage) -> None:
        again = [message("m2", "again"), message("m1", "still here"), message("m2", "twice")]
        branched.apply(commit(checkpoint=checkpoint("c6"), messages=again))
        assert branched.message_ids(branch=HEAD) == ["m1", "m4", "m5", "m2"]
        assert branched.message_ids(branch="c3") == ["m1", "m3"]
        assert branched.message_ids() == ["m1", "m3", "alone", "m4", "m5", "m2"]
        assert branched.known().message_count == 6
        assert branched.messages(message_id="m2")[0].text == "twice"
        branched.apply(commit(checkpoint=checkpoint("c7", parent="c3"), messages=[message("m5", "and back")]))
        assert branched.message_ids(branch=HEAD) == ["m1", "m3", "m5"]
        assert branched.message_ids(branch=HEAD, search="and back") == ["m5"]

    def test_a_message_said_again_alone_moves_to_the_heads_branch_if_the_commit_says_so(
        self, branched: DrivenStorage
    ) -> None:
        again = [message("m2", "again"), message("m1", "still here"), message("new")]
        branched.apply(commit(messages=again, move_messages=True))
        assert branched.message_ids(branch=HEAD) == ["m1", "m4", "m5", "m2", "new"]
        assert branched.message_ids(branch="c3") == ["m1", "m3"]
        assert branched.message_ids(branch=HEAD, search="again") == ["m2"]
        assert branched.known().message_count == len(branched.message_ids())

    def test_without_a_parent_a_conversation_starts_anew(self, branched: DrivenStorage) -> None:
        branched.apply(commit(checkpoint=checkpoint("new", parent=None), messages=[message("first")]))
        assert branched.message_ids(branch=HEAD) == ["first"]

    def test_a_first_checkpoint_continues_after_earlier_messages(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=[message("early")]))
        store.apply(commit(checkpoint=checkpoint("c1", parent=None), messages=[message("m1")]))
        assert store.message_ids(branch=HEAD) == store.message_ids(branch="c1") == ["early", "m1"]

    def test_other_namespaces_begin_no_branch_and_have_a_moment(self, branched: DrivenStorage) -> None:
        branched.apply_all(
            commit(checkpoint=checkpoint("s1", namespace="sub")),
            said("6"),
            commit(checkpoint=checkpoint("s2", namespace="sub", parent=None), messages=[message("of sub")]),
        )
        assert branched.message_ids(branch=HEAD) == ["m1", "m4", "m5", "m6", "of sub"]
        assert branched.message_ids(branch="s1", namespace="sub") == ["m1", "m4", "m5"]
        assert branched.message_ids(branch="s1") == []

    def test_a_replaced_checkpoint_begins_no_branch(self, branched: DrivenStorage) -> None:
        before = branched.values().points
        branched.apply(commit(checkpoint=checkpoint("c2", parent="c1", body=b"again")))
        assert branched.values().points == before

    def test_a_parent_that_is_gone_begins_no_branch(self, branched: DrivenStorage) -> None:
        branched.apply(commit(remove=Removal(checkpoints=(("", "c3"),))))
        basis = branched.page().basis
        branched.apply(said("6", "c3", basis=basis))
        assert branched.message_ids(branch=HEAD) == ["m1", "m4", "m5", "m6"]

    def test_branches_outlive_their_checkpoints(self, branched: DrivenStorage) -> None:
        gone = tuple(("", name) for name in ("c1", "c2", "c3", "c4"))
        branched.apply(commit(remove=Removal(checkpoints=gone)))
        assert branched.message_ids(branch=HEAD) == branched.message_ids(branch="c5") == ["m1", "m4", "m5"]
        branched.apply(commit(remove=Removal(state=True)))
        branched.apply(said("6"))
        assert branched.message_ids(branch=HEAD) == ["m1", "m4", "m5", "m6"]

    def test_if_the_newest_branch_is_removed_the_heads_branch_shows(self, branched: DrivenStorage) -> None:
        branched.apply(commit(remove=Removal(checkpoints=(("", "c5"),))))
        assert branched.message_ids(branch=HEAD) == ["m1", "m4", "m5"]
        branched.apply(commit(remove=Removal(checkpoints=(("", "c4"),)), messages=[message("after")]))
        assert branched.message_ids(branch=HEAD) == ["m1", "m2", "m3", "after"]
        branched.apply(said("6"))
        assert branched.message_ids(branch=HEAD) == ["m1", "m2", "m3", "after", "m6"]

    def test_a_removed_branch_and_a_new_checkpoint_in_one_commit(self, branched: DrivenStorage) -> None:
        gone = Removal(checkpoints=(("", "c5"), ("", "c4")))
        branched.apply(commit(remove=gone, checkpoint=checkpoint("c6"), messages=[message("m6")]))
        assert branched.checkpoint("c6").parent_id == "c3"
        assert branched.message_ids(branch=HEAD) == ["m1", "m2", "m3", "m6"]

    def test_a_commit_can_go_back_to_its_parent_even_if_that_is_the_head(self, branched: DrivenStorage) -> None:
        branched.apply(commit(messages=[message("unwanted")]))
        branched.apply(commit(checkpoint=checkpoint("c6", parent="c5"), back_to=BackTo(parent=True)))
        assert branched.message_ids(branch=HEAD) == ["m1", "m4", "m5"]

    def test_a_commit_can_go_back_to_a_message(self, branched: DrivenStorage) -> None:
        branched.apply(commit(messages=[message("new")], back_to=BackTo("m2")))
        assert branched.message_ids(branch=HEAD) == ["m1", "m2", "new"]
        branched.apply(said("6"))
        branched.apply(commit(checkpoint=checkpoint("c7", parent="c1"), back_to=BackTo("m4")))
        assert branched.message_ids(branch=HEAD) == ["m1", "m4"]
        branched.apply(commit(back_to=BackTo("unknown")))
        assert branched.message_ids(branch=HEAD) == ["m1", "m4"]
        branched.apply(commit(back_to=BackTo(None)))
        assert branched.message_ids(branch=HEAD) == []
        assert branched.message_ids(branch="c6") == ["m1", "m2", "new", "m6"]

    def test_going_back_alone_creates_no_thread(self, store: DrivenStorage) -> None:
        store.apply(commit(back_to=BackTo(None)))
        assert store.thread() is None

    def test_a_refused_or_repeated_branch_changes_nothing(self, branched: DrivenStorage) -> None:
        again = said("6", "c2")
        branched.apply_all(again, said("7"))
        before = branched.everything(), branched.message_ids(branch=HEAD)
        assert branched.apply(again).repeated
        assert (branched.everything(), branched.message_ids(branch=HEAD)) == before

    def test_a_fork_has_the_messages_of_its_checkpoints_branch(self, branched: DrivenStorage) -> None:
        for name, kept in (("c3", ["m1", "m2", "m3"]), ("c4", ["m1", "m4"]), (None, ["m1", "m4", "m5"])):
            branched.apply(commit(f"from {name}", fork=fork_of("t", name)))
            assert branched.message_ids(f"from {name}", branch=HEAD) == kept
            assert branched.message_ids(f"from {name}") == kept
            assert branched.values(f"from {name}").points == ()
            assert branched.known(f"from {name}").message_count == len(kept)

    def test_the_points_are_in_the_content_and_go_with_the_thread(self, branched: DrivenStorage) -> None:
        content = branched.content()
        assert content is not None and content.points == ((1, 5),)
        branched.apply(commit(remove=Removal(thread=True), messages=[message("new")]))
        assert branched.values().points == ()
        assert branched.message_ids(branch=HEAD) == ["new"]

    def test_branches_are_seen_however_the_checkpoint_is_saved(self, store: DrivenStorage) -> None:
        """With and without values, a basis, a fence and messages: every path of a storage."""
        store.apply(said("0"))
        lease = store.lease("me")
        for number in range(1, 9):
            page = store.values()
            assert page.basis is not None
            made = commit(
                checkpoint=checkpoint(f"d{number}", parent="c0"),
                values=row(page.basis.next_value) if number & 1 else None,
                basis=page.basis if number & 2 else None,
                fence=lease.token if number & 4 else None,
            )
            store.apply(made)
            store.apply(commit(messages=[message(f"of {number}")]))
            assert store.message_ids(branch=HEAD) == ["m0", f"of {number}"]
        assert store.message_ids(branch="d1") == ["m0"]

    def test_other_users_see_no_branch(self, store: DrivenStorage) -> None:
        store.apply(commit(user="ann", checkpoint=checkpoint("c1"), messages=[message("m1")]))
        for branch in (HEAD, "c1"):
            assert store.message_ids(user="ann", branch=branch) == ["m1"]
            assert store.message_ids(user="bob", branch=branch) == []
            assert store.message_ids(user=None, branch=branch) == []

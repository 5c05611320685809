"""Forks: a new thread that starts from a checkpoint of another, and is then independent."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from clew.errors import ConflictError
from clew.model.commit import Removal
from clew.model.config import ANY_USER
from clew.storage.protocol import StaleBasisError
from clew.testing.build import attachment, checkpoint, commit, deletion, fields, fork_of, later, message, messages, row
from clew.testing.contract.base import ContractPart, full_commit
from clew.testing.driver import DrivenStorage


class ForkContract(ContractPart):
    @pytest.fixture
    def source(self, store: DrivenStorage) -> DrivenStorage:
        """Return a store with thread `t` of four commits: `c1` with `m1`, `m2`, `c3` with
        `m3`, and `sub` in a namespace."""
        store.apply(full_commit(thread=fields("name", run_id="r1"), at=later(1)))
        store.apply(commit(messages=[message("m2")], at=later(2)))
        c3 = checkpoint("c3", step=3, run_id="r3", covers=[(0, 2), (3, 5)])
        store.apply(commit(values=row(3, 2), checkpoint=c3, messages=[message("m3")], at=later(3)))
        store.apply(commit(checkpoint=checkpoint("s", namespace="sub", body=b"sub", covers=[(4, 5)]), at=later(4)))
        return store

    def test_a_fork_begins_with_one_checkpoint_of_the_source(self, source: DrivenStorage) -> None:
        outcome = source.apply(commit("f", fork=fork_of("t", "c3", as_checkpoint_id="d"), at=later(9)))
        assert (outcome.parent_id, outcome.sequence, outcome.created_at) == (None, 1, later(3))
        original = source.checkpoint("c3")
        assert source.checkpoints("f", namespace=None, detail="body") == (
            replace(original, checkpoint_id="d", parent_id=None, sequence=1),
        )

    def test_a_fork_is_from_the_head_if_no_checkpoint_is_named(self, source: DrivenStorage) -> None:
        source.apply(commit("f", fork=fork_of("t")))
        assert source.known("f").forked_from == ("t", "c3")
        source.apply(commit("g", fork=fork_of("t", namespace="sub")))
        assert source.known("g").forked_from == ("t", "s")
        assert [(c.namespace, c.body) for c in source.checkpoints("g", namespace=None, detail="body")] == [
            ("sub", b"sub")
        ]

    def test_a_fork_is_described_like_its_source(self, source: DrivenStorage) -> None:
        source.apply(commit("f", fork=fork_of("t", "c1"), at=later(9)))
        found = source.known("f")
        assert (found.text, found.data, found.run_id) == ("name", b"fields", "r1")
        assert (found.created_at, found.updated_at) == (later(9), later(9))
        assert (found.forked_from, found.checkpoint_count, found.message_count) == (("t", "c1"), 1, 1)

    def test_a_fork_can_be_described_at_once(self, source: DrivenStorage) -> None:
        source.apply(commit("f", fork=fork_of("t"), thread=fields("own", run_id="r9")))
        assert (source.known("f").text, source.known("f").run_id) == ("own", "r9")
        assert source.known("t").text == "name"

    def test_a_state_reads_the_same_in_the_fork(self, source: DrivenStorage) -> None:
        source.apply(commit("f", fork=fork_of("t", "c3")))
        original, copy = source.page("t", checkpoint_id="c3", detail="state"), source.page("f", detail="state")
        assert copy.rows == original.rows == (row(0, 3), row(3, 2))
        assert copy.checkpoints[0].body == original.checkpoints[0].body

    @pytest.mark.parametrize(("checkpoint_id", "kept"), [("c1", ["m1"]), ("c3", ["m1", "m2", "m3"])])
    def test_a_fork_has_the_messages_up_to_its_checkpoint(
        self, source: DrivenStorage, checkpoint_id: str, kept: list[str]
    ) -> None:
        source.apply(commit("f", fork=fork_of("t", checkpoint_id)))
        assert source.message_ids("f") == kept
        assert source.message_ids("f", search="hello") == kept
        assert source.known("f").message_count == len(kept)

    def test_a_message_changed_later_counts_from_when_it_was_added(self, source: DrivenStorage) -> None:
        source.apply(commit(messages=[message("m1", "changed"), message("m4")]))
        source.apply(commit("f", fork=fork_of("t", "c1")))
        assert [(each.message_id, each.text) for each in source.messages("f")] == [("m1", "changed")]

    def test_a_message_that_comes_with_a_replaced_checkpoint_counts_from_when_it_was_added(
        self, source: DrivenStorage
    ) -> None:
        source.apply(commit(checkpoint=checkpoint("c1"), messages=[message("m4")]))
        source.apply(commit("f", fork=fork_of("t", "c1")))
        assert source.message_ids("f") == ["m1"]

    def test_messages_keep_their_order_in_a_fork(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages("a", "b", "c"), checkpoint=checkpoint("c1")))
        store.apply(commit(remove=Removal(messages=("m1",)), messages=[message("m0", "again")]))
        store.apply(commit("f", fork=fork_of("t")))
        store.apply(commit("f", messages=[message("m1", "new"), message("m9")]))
        assert store.message_ids("f") == ["m0", "m2", "m1", "m9"]
        assert store.message_ids("f", search="new") == ["m1"]

    def test_a_fork_has_the_attachments_of_its_checkpoint(self, source: DrivenStorage) -> None:
        source.apply(commit(attachments=[attachment("c3", "a", b"1"), attachment("c3", "b", b"2")]))
        source.apply(commit(attachments=[attachment("c3", "a", b"other", namespace="sub")]))
        source.apply(commit("f", fork=fork_of("t", "c3", as_checkpoint_id="d")))
        assert source.attachments(None, "f") == [attachment("d", "a", b"1"), attachment("d", "b", b"2")]
        assert len(source.attachments(None, "t")) == 4

    def test_values_of_a_fork_are_numbered_on_from_the_source(self, source: DrivenStorage) -> None:
        basis = source.apply(commit("f", fork=fork_of("t", "c1"))).basis
        before = source.page("t").basis
        assert basis is not None and before is not None
        assert basis.next_value == before.next_value == 5
        assert basis.incarnation != before.incarnation
        source.refused(commit("f", values=row(3)), StaleBasisError)
        source.apply(commit("f", basis=basis, values=row(5), checkpoint=checkpoint("d", covers=[(0, 3), (5, 6)])))
        assert source.page("f", limit=1, detail="state").rows == (row(0, 3), row(5))

    def test_a_fork_and_its_source_go_their_own_ways(self, source: DrivenStorage) -> None:
        source.apply(commit("f", fork=fork_of("t")))
        for name, data in (("t", b"in t"), ("f", b"in f")):
            new = checkpoint("e", covers=[(3, 6)], body=data)
            source.apply(commit(name, values=row(5, data=data), checkpoint=new, messages=[message("m9", name)]))
        for name, data in (("t", b"in t"), ("f", b"in f")):
            page = source.page(name, limit=1, detail="state")
            assert page.checkpoints[0].body == data
            assert page.rows == (row(3, 2), row(5, data=data))
            assert source.messages(name, message_id="m9")[0].text == name
        assert source.checkpoint_ids("t") == ["e", "c3", "c1"]
        assert source.checkpoint_ids("f") == ["e", "copy"]
        assert source.checkpoint("e", "f").parent_id == "copy"

    def test_changes_of_the_source_do_not_show_in_the_fork(self, source: DrivenStorage) -> None:
        source.apply(commit("f", fork=fork_of("t", "c3")))
        before = source.page("f", detail="state"), source.messages("f"), source.attachments(None, "f")
        source.apply(commit(checkpoint=checkpoint("c3", body=b"changed"), messages=[message("m1", "changed")]))
        source.apply(commit(attachments=[attachment("c3", "late")], thread=fields("changed")))
        source.apply(commit(remove=Removal(checkpoints=(("", "c3"),), messages=("m2",))))
        assert (source.page("f", detail="state"), source.messages("f"), source.attachments(None, "f")) == before
        assert source.known("f").text == "name"

    @pytest.mark.parametrize("removal", [Removal(thread=True), Removal(state=True)], ids=["deleted", "cleared"])
    def test_a_fork_outlives_its_source(self, source: DrivenStorage, removal: Removal) -> None:
        source.apply(commit("f", fork=fork_of("t")))
        before = source.page("f", detail="state"), source.messages("f")
        source.apply(commit(remove=removal))
        source.run(source.storage.reclaim())
        assert (source.page("f", detail="state"), source.messages("f")) == before
        source.apply(commit("f", values=row(5), checkpoint=checkpoint("d", covers=[(0, 6)])))
        assert source.page("f", limit=1, detail="state").rows == (row(0, 3), row(3, 2), row(5))

    def test_a_source_that_came_again_does_not_show_in_the_fork(self, source: DrivenStorage) -> None:
        source.apply_all(commit("f", fork=fork_of("t")), deletion())
        source.apply(commit(values=row(0, 5, data=b"other"), checkpoint=checkpoint("c1", covers=[(0, 5)])))
        assert source.page("f", detail="state").rows == (row(0, 3), row(3, 2))
        assert source.page("t", detail="state").rows == (row(0, 5, data=b"other"),)

    @pytest.mark.parametrize("removal", [Removal(thread=True), Removal(state=True)], ids=["deleted", "cleared"])
    def test_the_source_outlives_its_fork(self, source: DrivenStorage, removal: Removal) -> None:
        before = source.page("t", namespace=None, detail="state"), source.messages("t"), source.attachments()
        source.apply(commit("f", fork=fork_of("t"), user=None))
        source.apply(commit("f", remove=removal))
        source.run(source.storage.reclaim())
        assert (source.page("t", namespace=None, detail="state"), source.messages("t"), source.attachments()) == before

    def test_a_cleared_fork_numbers_its_values_on(self, source: DrivenStorage) -> None:
        source.apply_all(commit("f", fork=fork_of("t")), commit("f", values=row(5)))
        basis = source.apply(commit("f", remove=Removal(state=True))).basis
        assert basis is not None and basis.next_value == 6
        assert source.values("f").rows == ()
        source.apply(commit("f", values=row(6), checkpoint=checkpoint("d", covers=[(6, 7)])))
        assert source.page("f", detail="state").rows == (row(6),)

    def test_a_fork_can_be_forked(self, source: DrivenStorage) -> None:
        source.apply(commit("f", fork=fork_of("t", "c3")))
        d = checkpoint("d", covers=[(0, 6)])
        source.apply(commit("f", values=row(5), checkpoint=d, messages=[message("m5")]))
        source.apply(commit("g", fork=fork_of("f", "copy")))
        source.apply(commit("h", fork=fork_of("f", "d")))
        assert source.message_ids("g") == ["m1", "m2", "m3"]
        assert source.message_ids("h") == ["m1", "m2", "m3", "m5"]
        source.apply_all(deletion("f"), deletion("t"))
        assert source.page("g", detail="state").rows == (row(0, 3), row(3, 2))
        assert source.page("h", detail="state").rows == (row(0, 3), row(3, 2), row(5))
        assert source.known("h").forked_from == ("f", "d")

    def test_two_forks_of_one_source_are_separate(self, source: DrivenStorage) -> None:
        for name in ("f", "g"):
            source.apply(commit(name, fork=fork_of("t", "c1")))
            source.apply(commit(name, values=row(5, data=name.encode()), checkpoint=checkpoint("d", covers=[(5, 6)])))
        assert [source.page(name, limit=1, detail="state").rows[0].data for name in "fg"] == [b"f", b"g"]

    def test_a_fork_into_a_thread_that_exists_is_refused(self, source: DrivenStorage) -> None:
        source.apply(commit("f", messages=[message("m1")]))
        before = source.everything()
        assert "'f'" in str(source.refused(commit("f", fork=fork_of("t")), ConflictError))
        assert "'t'" in str(source.refused(commit("t", fork=fork_of("t")), ConflictError))
        assert source.everything() == before

    def test_a_fork_of_what_is_not_there_is_refused_and_says_what(self, source: DrivenStorage) -> None:
        source.apply(commit("empty", messages=[message("m1")]))
        for fork, missing in (
            (fork_of("nowhere"), "nowhere"),
            (fork_of("t", "unknown"), "unknown"),
            (fork_of("t", "c1", namespace="sub"), "c1"),
            (fork_of("empty"), "empty"),
        ):
            assert missing in str(source.refused(commit("f", fork=fork), ConflictError))
        assert source.thread("f") is None

    def test_a_thread_of_another_user_cannot_be_forked(self, store: DrivenStorage) -> None:
        store.apply(full_commit(user="ann"))
        for user in ("bob", None):
            error = store.refused(commit("f", user=user, fork=fork_of("t")), ConflictError)
            assert "'t'" in str(error)
        assert store.thread("f") is None

    def test_a_fork_belongs_to_the_user_of_the_commit_or_stays_with_its_owner(self, store: DrivenStorage) -> None:
        store.apply(full_commit(user="ann"))
        store.apply_all(full_commit("open"), commit("f", user="ann", fork=fork_of("t")))
        store.apply_all(commit("g", user="bob", fork=fork_of("open")), commit("h", user=ANY_USER, fork=fork_of("t")))
        assert [store.known(name).user_id for name in "fgh"] == ["ann", "bob", "ann"]

    @pytest.fixture
    def sharing(self, source: DrivenStorage) -> DrivenStorage:
        """Return the store if forks share values in it."""
        if not source.capabilities.shares_forks:
            pytest.skip(f"{source.capabilities.name} copies values into forks")
        return source

    def test_values_shared_with_a_fork_stay_as_they_are(self, sharing: DrivenStorage) -> None:
        source = sharing
        source.apply(commit("f", fork=fork_of("t")))
        source.apply_all(commit("t", values=row(5)), commit("f", values=row(5)))
        for name in ("t", "f"):
            assert source.values(name).fixed_before == 5
            assert source.values(name).inherited == (0 if name == "t" else 5)
            before = source.everything()
            source.refused(commit(name, merge=[row(0, 5)]), ConflictError)
            source.refused(commit(name, remove=Removal(values=((0, 3),))), ConflictError)
            assert source.everything() == before
            source.apply(commit(name, merge=[row(5, data=b"own")]))
            source.apply(commit(name, remove=Removal(values=((5, 6),))))
            assert source.page(name, checkpoint_id="c3" if name == "t" else "copy", detail="state").rows

    def test_values_that_nobody_shares_are_not_fixed(self, source: DrivenStorage) -> None:
        assert (source.values("t").fixed_before, source.values("t").inherited) == (0, 0)

    def test_a_fork_that_shares_takes_no_space_for_values(self, sharing: DrivenStorage) -> None:
        sharing.apply(commit("f", fork=fork_of("t", "c1")))
        (said,) = sharing.messages("f")
        assert sharing.known("f").size == self.stored("t", checkpoint("c1"), attachment("c1", "k"), said)

"""Owners: only the owner can access an owned thread."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from clew.errors import PermissionDeniedError
from clew.model.commit import Removal
from clew.model.config import ANY_USER, User
from clew.testing.build import attachment, checkpoint, commit, deletion, fields, message, row
from clew.testing.contract.base import ContractPart, full_commit
from clew.testing.driver import DrivenStorage

OTHERS: tuple[User, ...] = ("bob", None, "Ann", "ann ", "")


class OwnerContract(ContractPart):
    @pytest.fixture
    def anns(self, store: DrivenStorage) -> DrivenStorage:
        """Return a store with a full thread `t` that belongs to ann."""
        store.apply(full_commit(user="ann"))
        return store

    @pytest.mark.parametrize(("user", "owner"), [("ann", "ann"), (None, None), (ANY_USER, None)])
    def test_a_new_thread_belongs_to_the_user_of_the_commit(
        self, store: DrivenStorage, user: User, owner: str | None
    ) -> None:
        store.apply(commit(user=user, messages=[message("m1")]))
        assert store.known().user_id == owner

    def test_others_cannot_write(self, anns: DrivenStorage) -> None:
        before = anns.everything()
        parts: list[dict[str, Any]] = [
            {"messages": [message("m2")]},
            {"checkpoint": checkpoint("c2")},
            {"attachments": [attachment("c1", "k2")]},
            {"thread": fields("changed", user_id="ann")},
            {"values": row(3)},
            {"merge": [row(0, 3)]},
            {"remove": Removal(thread=True)},
            {"remove": Removal(state=True)},
            {"remove": Removal(messages=("m1",))},
        ]
        for part, user in product(parts, OTHERS):
            anns.refused(commit(user=user, **part), PermissionDeniedError)
            assert anns.everything() == before, f"{user!r} wrote {part}"

    def test_others_read_nothing(self, anns: DrivenStorage) -> None:
        for user in OTHERS:
            page = anns.page(user=user, namespace=None, detail="state")
            assert (page.basis, page.checkpoints, page.rows) == (None, (), ())
            assert (anns.values(user=user).basis, anns.values(user=user).rows) == (None, ())
            assert anns.attachments("c1", user=user) == anns.attachments(user=user) == []
            assert anns.messages(user=user) == anns.messages(user=user, search="hello") == []
            assert anns.messages(user=user, message_id="m1") == []
            assert anns.thread(user=user) is None and anns.threads(user=user) == []
            assert (anns.stats(user).by_thread, anns.stats(user).by_day) == ({}, {})

    @pytest.mark.parametrize("user", ["ann", ANY_USER])
    def test_the_owner_and_any_user_read_and_write(self, anns: DrivenStorage, user: User) -> None:
        anns.apply(commit(user=user, messages=[message("m2")], checkpoint=checkpoint("c2")))
        assert anns.message_ids(user=user) == ["m1", "m2"]
        assert anns.checkpoint_ids(user=user) == ["c2", "c1"]
        assert anns.values(user=user).rows and anns.attachments("c1", user=user)
        assert anns.thread_ids(user=user) == ["t"]
        assert anns.known().user_id == "ann"
        anns.apply(deletion(user=user))
        assert anns.threads() == []

    @pytest.mark.parametrize("user", ["ann", "bob", None, ANY_USER])
    def test_a_thread_without_an_owner_is_open_to_everybody(self, store: DrivenStorage, user: User) -> None:
        store.apply(full_commit())
        store.apply(commit(user=user, messages=[message("m2")]))
        assert store.message_ids(user=user) == ["m1", "m2"]
        assert store.checkpoint_ids(user=user) == ["c1"]
        assert store.thread(user=user) is not None
        assert store.known().user_id is None

    def test_threads_are_listed_to_their_owner_only(self, store: DrivenStorage) -> None:
        for name in ("ann", "bob", None):
            store.apply_all(*(full_commit(f"{name}{n}", user=name) for n in (1, 2)))
        assert store.thread_ids(user="ann") == ["ann2", "ann1"]
        assert store.thread_ids(user=None) == ["None2", "None1"]
        assert store.thread_ids(user=ANY_USER) == ["None2", "None1", "bob2", "bob1", "ann2", "ann1"]
        assert store.thread_ids(user="eve") == []

    def test_any_user_may_give_a_thread_to_another_owner(self, anns: DrivenStorage) -> None:
        anns.apply(commit(user=ANY_USER, thread=fields(user_id="bob")))
        anns.refused(commit(user="ann", messages=[message("m2")]), PermissionDeniedError)
        assert anns.messages(user="ann") == [] and anns.threads(user="ann") == []
        assert anns.message_ids(user="bob") == ["m1"] and anns.thread_ids(user="bob") == ["t"]
        anns.apply(commit(user=ANY_USER, thread=fields(user_id=None)))
        assert anns.known().user_id is None and anns.message_ids(user="ann") == ["m1"]

    def test_any_user_may_make_a_thread_for_somebody(self, store: DrivenStorage) -> None:
        store.apply(commit(user=ANY_USER, thread=fields(user_id="ann"), messages=[message("m1")]))
        assert store.known().user_id == "ann" and store.messages(user="bob") == []

    @pytest.mark.parametrize("user_id", ["bob", None])
    def test_the_owner_cannot_give_a_thread_away(self, anns: DrivenStorage, user_id: str | None) -> None:
        anns.refused(
            commit(user="ann", thread=fields(user_id=user_id), messages=[message("m2")]), PermissionDeniedError
        )
        assert anns.known().user_id == "ann" and anns.message_ids() == ["m1"]

    @pytest.mark.parametrize(("user", "user_id"), [("ann", "bob"), ("ann", None), (None, "ann")])
    def test_nobody_makes_a_thread_in_the_name_of_another(
        self, store: DrivenStorage, user: User, user_id: str | None
    ) -> None:
        store.refused(commit(user=user, thread=fields(user_id=user_id)), PermissionDeniedError)
        assert store.threads() == []

    def test_nobody_takes_a_thread_that_has_no_owner(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        store.refused(commit(user="ann", thread=fields(user_id="ann")), PermissionDeniedError)
        assert store.known().user_id is None

    def test_a_deleted_thread_may_come_again_under_another_owner(self, anns: DrivenStorage) -> None:
        anns.apply_all(deletion(user="ann"), commit(user="bob", messages=[message("m2")]))
        assert anns.message_ids(user="bob") == ["m2"]
        assert anns.messages(user="ann") == []

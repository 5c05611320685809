"""Attachments: keyed records of a checkpoint, which may be stored before it."""

from __future__ import annotations

from clew.testing.build import attachment, checkpoint, commit
from clew.testing.contract.base import ContractPart, chain
from clew.testing.driver import DrivenStorage


class AttachmentContract(ContractPart):
    def test_attachments_come_in_the_order_of_their_keys(self, store: DrivenStorage) -> None:
        keys = ["b", "a", "B", "10", "9", "é", "\0", "🧵", "\uffff", ""]
        store.apply(commit(attachments=[attachment("c1", key, key.encode()) for key in keys]))
        found = store.attachments("c1")
        assert [each.key for each in found] == sorted(keys)
        assert [each.data for each in found] == [key.encode() for key in sorted(keys)]

    def test_attachments_may_come_before_their_checkpoint(self, store: DrivenStorage) -> None:
        store.apply(commit(attachments=[attachment("c1", "k")]))
        assert store.attachments("c1") == [attachment("c1", "k")]
        assert store.checkpoint_ids() == []
        store.apply_all(*chain(1))
        assert store.attachments("c1") == [attachment("c1", "k")]

    def test_attachments_with_the_same_key_are_replaced(self, store: DrivenStorage) -> None:
        store.apply(commit(attachments=[attachment("c1", "a", b"old"), attachment("c1", "b", b"old")]))
        store.apply(commit(attachments=[attachment("c1", "a", b"new"), attachment("c1", "c", b"new")]))
        assert [each.data for each in store.attachments("c1")] == [b"new", b"old", b"new"]

    def test_attachments_can_be_left_as_they_are(self, store: DrivenStorage) -> None:
        store.apply(commit(attachments=[attachment("c1", "a", b"old")]))
        new = [attachment("c1", "a", b"new"), attachment("c1", "b", b"new")]
        store.apply(commit(attachments=new, keep_attachments=True))
        assert [each.data for each in store.attachments("c1")] == [b"old", b"new"]
        assert store.known().size == self.stored("t", *store.attachments("c1"))

    def test_of_two_with_the_same_key_in_one_commit_the_last_is_kept(self, store: DrivenStorage) -> None:
        store.apply(commit(attachments=[attachment("c1", "a", b"1"), attachment("c1", "a", b"22")]))
        assert [each.data for each in store.attachments("c1")] == [b"22"]
        assert store.known().size == self.stored("t", attachment("c1", "a", b"22"))

    def test_of_two_to_be_kept_in_one_commit_the_first_is_kept(self, store: DrivenStorage) -> None:
        twice = [attachment("c1", "a", b"1"), attachment("c1", "a", b"22")]
        store.apply(commit(attachments=twice, keep_attachments=True))
        assert [each.data for each in store.attachments("c1")] == [b"1"]

    def test_attachments_belong_to_one_checkpoint_of_one_namespace(self, store: DrivenStorage) -> None:
        for name in ("c1", "c2"):
            for namespace in ("", "sub"):
                store.apply(
                    commit(attachments=[attachment(name, "k", (namespace + name).encode(), namespace=namespace)])
                )
        assert [each.data for each in store.attachments("c1")] == [b"c1"]
        assert [each.data for each in store.attachments("c2", namespace="sub")] == [b"subc2"]
        assert store.attachments("c3") == store.attachments("c1", namespace="x") == store.attachments("c1", "u") == []

    def test_all_attachments_of_a_thread_come_by_namespace_checkpoint_and_key(self, store: DrivenStorage) -> None:
        names = [(namespace, name, key) for namespace in ("s", "", "S") for name in ("c2", "c10") for key in ("b", "a")]
        store.apply(commit(attachments=[attachment(name, key, namespace=ns) for ns, name, key in names]))
        store.apply(commit("u", attachments=[attachment("c1", "other")]))
        assert [(each.namespace, each.checkpoint_id, each.key) for each in store.attachments()] == sorted(names)

    def test_attachments_do_not_move_the_head(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(2), commit(attachments=[attachment("c1", "k")]))
        assert store.checkpoint_ids(limit=1) == ["c2"]
        assert store.apply(commit(checkpoint=checkpoint("c3", parent="c2", on_conflict="reject"))).sequence == 4

    def test_a_large_attachment_comes_back_whole(self, store: DrivenStorage) -> None:
        data = bytes(range(256)) * 4_000
        store.apply(commit(attachments=[attachment("c1", "k", data), attachment("c1", "empty", b"")]))
        assert [each.data for each in store.attachments("c1")] == [b"", data]

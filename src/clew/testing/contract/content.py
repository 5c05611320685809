"""Thread content: a consistent snapshot of a whole thread."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from clew.testing.build import attachment, checkpoint, commit, deletion, fields, fork_of, message, row
from clew.testing.contract.base import ContractPart, full_commit
from clew.testing.driver import DrivenStorage


class ContentContract(ContractPart):
    def test_the_content_of_a_thread_is_all_that_its_queries_find(self, store: DrivenStorage) -> None:
        store.apply(full_commit(user="ann"))
        store.apply(
            commit(
                user="ann",
                values=row(3),
                checkpoint=checkpoint("c2", namespace="side", covers=[(3, 4)]),
                attachments=[attachment("c0", "early"), attachment("c2", "k", namespace="side")],
                messages=[message("m2")],
            )
        )
        store.apply(full_commit("u"))
        content = store.content()
        assert content is not None
        assert content.thread == store.known()
        assert content.basis == store.values().basis
        assert content.rows == store.values().rows
        assert content.checkpoints == store.checkpoints(namespace=None, detail="body")[::-1]
        assert content.attachments == tuple(store.attachments())
        assert [(each.message_id, each.sequence) for each in content.messages] == [("m1", 1), ("m2", 2)]
        assert [replace(each, sequence=0) for each in content.messages] == store.messages()
        assert [each.checkpoint_id for each in content.checkpoints] == ["c1", "c2"]

    def test_the_content_of_a_fork_has_the_values_of_its_source(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        store.apply(commit("fork", fork=fork_of("t", "c1")))
        content = store.content("fork")
        assert content is not None
        assert [each.checkpoint_id for each in content.checkpoints] == ["copy"]
        assert content.rows == store.values("fork").rows
        assert sum(each.count for each in content.rows) == 3

    def test_a_thread_that_is_not_there_has_no_content(self, store: DrivenStorage) -> None:
        assert store.content() is None
        store.apply(full_commit())
        store.apply(deletion())
        assert store.content() is None
        # A description alone makes a thread.
        store.apply(commit(thread=fields("name")))
        content = store.content()
        assert content is not None
        assert (content.rows, content.checkpoints, content.attachments, content.messages) == ((), (), (), ())

    def test_the_content_of_a_thread_that_is_written_to_is_of_one_moment(self, store: DrivenStorage) -> None:
        """Each commit increments everything in the thread by one."""
        commits = [
            commit(
                values=row(at),
                checkpoint=checkpoint(f"c{at}", covers=[(0, at + 1)]),
                attachments=[attachment("c0", "count", b"%d" % at)],
                messages=[message(f"m{at}"), message("count", str(at))],
                thread=fields(str(at)),
            )
            for at in range(30)
        ]

        async def work(number: int) -> bool:
            if not number % 2:
                await store.storage.apply(commits[: number // 2 + 1])
                return True
            content = await store.storage.content("t")
            if content is None:
                return True
            last = len(content.checkpoints) - 1
            counted = [each.text for each in content.messages if each.message_id == "count"]
            return (
                [each.end for each in content.rows][-1] == content.basis.next_value == last + 1
                and [each.data for each in content.attachments] == [b"%d" % last]
                and len(content.messages) == last + 2
                and counted == [content.thread.text] == [str(last)]
            )

        assert all(store.in_threads([partial(work, number) for number in range(60)]))

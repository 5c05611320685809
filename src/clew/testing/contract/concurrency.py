"""Concurrent writers: nothing is lost or overwritten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest

from clew.errors import ClewError, ConflictError
from clew.model.commit import Applied, Commit
from clew.model.config import ANY_USER
from clew.model.queries import CheckpointQuery
from clew.storage.protocol import StaleBasisError
from clew.testing.build import NOON, checkpoint, commit, message, row
from clew.testing.contract.base import ContractPart, chain, full_commit
from clew.testing.driver import DrivenStorage, Job


def applied(store: DrivenStorage, way: str, commits: Sequence[Commit]) -> list[Applied | ClewError]:
    """Apply `commits` concurrently, each in its own call, and return their outcomes."""
    jobs: list[Job[list[Applied | ClewError]]] = [partial(store.storage.apply, [each]) for each in commits]
    return [outcome for (outcome,) in getattr(store, way)(jobs)]


class ConcurrencyContract(ContractPart):
    @pytest.fixture(params=["at_once", "in_threads"])
    def way(self, request: pytest.FixtureRequest) -> str:
        """The kind of concurrency: one event loop, or eight OS threads."""
        return str(request.param)

    def test_fifty_concurrent_commits_to_a_thread_are_all_kept(self, store: DrivenStorage, way: str) -> None:
        commits = chain(50)
        outcomes = applied(store, way, commits)
        assert sorted(outcome.sequence for outcome in outcomes if isinstance(outcome, Applied)) == [*range(1, 51)]
        newest_first = store.checkpoints()
        assert [found.sequence for found in newest_first] == [*range(50, 0, -1)]
        assert [found.parent_id for found in newest_first] == [*(c.checkpoint_id for c in newest_first[1:]), None]

    def test_concurrent_commits_to_many_threads_are_all_kept(self, store: DrivenStorage, way: str) -> None:
        names = [f"t{number % 10}" for number in range(100)]
        applied(store, way, [commit(name, messages=[message(f"m{at}")]) for at, name in enumerate(names)])
        assert {thread.thread_id: thread.message_count for thread in store.threads()} == Counter(names)

    def test_the_same_commit_twice_at_the_same_time_is_applied_once(self, store: DrivenStorage, way: str) -> None:
        made = full_commit()
        outcomes = applied(store, way, [made] * 8)
        firsts = [outcome for outcome in outcomes if isinstance(outcome, Applied) and not outcome.repeated]
        assert len(firsts) == 1 or self.answers_get_lost
        assert {outcome.sequence for outcome in outcomes if isinstance(outcome, Applied)} == {1}
        assert store.checkpoint_ids() == ["c1"] and store.message_ids() == ["m1"]

    def test_of_concurrent_appends_to_the_value_log_one_wins(self, store: DrivenStorage, way: str) -> None:
        store.apply(full_commit())
        commits = [commit(values=row(3, data=b"%d" % number)) for number in range(16)]
        outcomes = applied(store, way, commits)
        (winner,) = [at for at, outcome in enumerate(outcomes) if isinstance(outcome, Applied)]
        assert all(isinstance(outcome, Applied | StaleBasisError) for outcome in outcomes)
        assert store.values(since=3).rows == (commits[winner].values,)

    def test_of_concurrent_writers_that_reject_conflicts_one_wins(self, store: DrivenStorage, way: str) -> None:
        store.apply_all(*chain(1))
        commits = [
            commit(checkpoint=checkpoint(f"d{number}", parent="c1", on_conflict="reject")) for number in range(16)
        ]
        outcomes = applied(store, way, commits)
        (winner,) = [at for at, outcome in enumerate(outcomes) if isinstance(outcome, Applied)]
        assert all(isinstance(outcome, Applied | ConflictError) for outcome in outcomes)
        assert store.checkpoint_ids() == [f"d{winner}", "c1"]

    def test_concurrent_first_commits_make_one_thread(self, store: DrivenStorage, way: str) -> None:
        outcomes = applied(store, way, [commit(messages=[message(f"m{number}")]) for number in range(16)])
        assert len({outcome.basis for outcome in outcomes if isinstance(outcome, Applied)}) == 1
        assert store.known().message_count == 16

    def test_concurrent_batches_do_not_mix_up_their_outcomes(self, store: DrivenStorage, way: str) -> None:
        store.apply(full_commit("owned", user="ann"))

        def batch(number: int) -> list[Commit]:
            bad = commit("owned", user="bob", messages=[message("m2")])
            return [
                commit(f"t{number}", messages=[message("m1")]),
                bad,
                commit(f"t{number}", checkpoint=checkpoint("c1")),
            ]

        jobs = [partial(store.storage.apply, batch(number)) for number in range(16)]
        for outcomes in getattr(store, way)(jobs):
            assert [isinstance(outcome, Applied) for outcome in outcomes] == [True, False, True]
            assert outcomes[2].sequence == 2

    def test_one_of_concurrent_holders_gets_the_lease(self, store: DrivenStorage, way: str) -> None:
        jobs = [partial(store.storage.lease, "t", None, holder=f"h{at}", now=NOON, ttl=30) for at in range(16)]
        leases = getattr(store, way)(jobs)
        assert len({(lease.holder, lease.token) for lease in leases}) == 1

    def test_a_reader_never_sees_half_a_commit(self, store: DrivenStorage, way: str) -> None:
        commits = [commit(values=row(at), checkpoint=checkpoint(f"c{at}", covers=[(0, at + 1)])) for at in range(30)]
        query = CheckpointQuery(thread_id="t", user=ANY_USER, detail="state")

        async def work(number: int) -> bool:
            if number % 2:
                page = await store.storage.checkpoints(query)
                covered = [page.checkpoints[0].covers[0][1]] if page.checkpoints else [0]
                return [sum(found.count for found in page.rows)] == covered
            # Commits that others have applied are repeated, and the rest
            # are new: the thread only grows.
            await store.storage.apply(commits[: number // 2 + 1])
            return True

        assert all(getattr(store, way)([partial(work, number) for number in range(60)]))

    def test_concurrent_loads_each_get_what_they_asked_for(self, store: DrivenStorage, way: str) -> None:
        for number in range(12):
            user = "ann" if number % 3 else None
            store.apply(
                commit(
                    f"t{number}",
                    user=user,
                    values=row(0, number + 1),
                    checkpoint=checkpoint("c1", namespace="side" if number % 4 == 3 else "", covers=[(0, number + 1)]),
                )
            )
        queries = [
            CheckpointQuery(
                thread_id=f"t{number}", user=user, namespace=namespace, detail="state", limit=1, known=known
            )
            for number in range(14)
            for user, namespace, known in (
                ("ann", "", None),
                ("bob", "", "c0"),
                (ANY_USER, "side", None),
                (None, "", "c1"),
            )
        ]
        alone = [store.run(store.storage.checkpoints(query)) for query in queries]
        assert sum(bool(page.checkpoints) for page in alone) == 18
        assert getattr(store, way)([partial(store.storage.checkpoints, query) for query in queries]) == alone

"""A state machine that compares a storage with the reference under random commits and queries.

    TestMyStorage = storage_machine(lambda directory: MyStorage(directory / "store")).TestCase

It needs hypothesis. Names, times and numbers come from small sets, so that commits affect each other.

Every run takes the same steps, so that a failure is due to a code change. With CLEW_FRESH=1 in the
environment, a run takes more steps from a random seed. A failure prints the seed, and CLEW_SEED=<seed>
repeats its steps.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, Phase, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from clew.errors import ClewError, ConflictError
from clew.ids import new_id
from clew.model.commit import After, Applied, Begin, Commit, Removal
from clew.model.config import ANY_USER
from clew.model.records import Basis, LeaseRecord
from clew.storage.protocol import StaleBasisError, Storage
from clew.testing.build import commit, fields, fork_of, later
from clew.testing.comparison import ALL, ComparedStorages, by_thread
from clew.testing.driver import DrivenStorage
from clew.testing.strategies import (
    CHECKPOINTS,
    COMMITS,
    HOLDERS,
    NAMESPACES,
    THREADS,
    USERS,
    attachment_lists,
    back_tos,
    covers_within,
    field_sets,
    message_lists,
    new_checkpoints,
    removals,
    seconds,
    some,
    subranges,
    value_rows,
)

FRESH_TIMES: Final = 5
"""The factor by which a run from a random seed has more examples."""


def fresh_seed() -> int | None:
    """Return the seed: CLEW_SEED, or a new one with CLEW_FRESH. `None` means fixed steps."""
    if given := os.environ.get("CLEW_SEED"):
        return int(given)
    return secrets.randbits(32) if os.environ.get("CLEW_FRESH") else None


SEED: Final = fresh_seed()


def machine_settings(max_examples: int = 60) -> settings:
    """Return settings for a machine: `max_examples` fixed runs of forty steps, or more from `SEED`."""
    return settings(
        max_examples=max_examples if SEED is None else FRESH_TIMES * max_examples,
        stateful_step_count=40,
        deadline=None,
        derandomize=SEED is None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


def storage_machine(make_storage: Callable[[Path], Storage], *, exact_sizes: bool = True) -> type[StorageMachine]:
    """Return a state machine that compares `make_storage(directory)` with the
    reference; `.TestCase` is its test.

    A durable storage is sometimes closed and opened again with the same directory.
    `.TestCase.settings` are `machine_settings()`, which takes about twenty seconds. Sizes are
    compared only with `exact_sizes`; a storage that transforms its records needs `False`.
    """

    class Machine(StorageMachine):
        def make_storage(self, directory: Path) -> Storage:
            return make_storage(directory)

    Machine.exact_sizes = exact_sizes
    Machine.TestCase.settings = machine_settings()
    return Machine


class StorageMachine(ComparedStorages):
    """The rules of the machine. `tokens` maps the reference's tokens to the tested storage's."""

    def __init__(self) -> None:
        super().__init__()
        if SEED is not None:
            note(f"the same steps again: CLEW_SEED={SEED}")
        self.tokens: dict[int, int] = {0: 0}
        self.last_tokens: dict[str, int] = {}
        self.commits: list[Commit] = []
        self.last_commits: dict[str, str] = {}
        self.since_opened = 0

    # Writing

    @rule(data=st.data(), at=seconds)
    def converse(self, data: st.DataObject, at: float) -> None:
        """Commit what an agent does: new values, a checkpoint, messages. It is never refused."""
        thread_id = data.draw(st.sampled_from(THREADS), label="thread")
        page = self.real.values(thread_id)
        next_value = page.basis.next_value if page.basis else 0
        new = data.draw(value_rows(next_value), label="values")
        head = replace(data.draw(new_checkpoints(covers_within([*page.rows, new]))), on_conflict="branch")
        messages = data.draw(message_lists, label="messages")
        user, commit_id = self.owner(thread_id), new_id()
        if data.draw(st.booleans(), label="own"):
            # Like most commits: the id is also the checkpoint's, and the writer knows the thread.
            head = replace(head, checkpoint_id=commit_id)
        basis = data.draw(st.sampled_from([None, self.model.values(thread_id).basis]), label="basis")
        parts: dict[str, Any] = {"basis": basis, "values": new, "checkpoint": head, "messages": messages}
        parts["back_to"] = data.draw(some([None, None, None], back_tos), label="back to")
        self.apply(self.noted(data, commit(thread_id, commit_id=commit_id, user=user, at=later(at), **parts)))

    @rule(data=st.data(), at=seconds)
    def write(self, data: st.DataObject, at: float) -> None:
        """Apply a batch of one to three commits of any kind but forks and merges."""
        count = data.draw(st.sampled_from([1, 1, 2, 3]), label="commits")
        self.apply(*(self.drawn(data, at) for _ in range(count)))

    def drawn(self, data: st.DataObject, at: float) -> Commit:
        thread_id = data.draw(st.sampled_from(THREADS), label="thread")
        basis = self.model.values(thread_id).basis
        next_value = basis.next_value if basis else 0
        owner = self.owner(thread_id)
        user = data.draw(some([owner], USERS), label="user")
        first = data.draw(some([next_value], [0, next_value + 1]), label="first")
        parts: dict[str, Any] = {
            "values": st.none() | value_rows(first),
            "checkpoint": st.none() | new_checkpoints(covers_within(self.real.values(thread_id).rows)),
            "attachments": attachment_lists,
            "messages": message_lists,
            "thread": st.none() | field_sets([user if isinstance(user, str) else owner]),
            "remove": some([None], removals),
            "back_to": some([None], back_tos),
        }
        made: dict[str, Any] = {name: data.draw(part, label=name) for name, part in parts.items()}
        if not any(value for name, value in made.items() if name != "back_to"):
            made["thread"] = fields("a name", user_id=owner)
        fence = data.draw(some([None, None, self.last_tokens.get(thread_id)], list(self.tokens)), label="fence")
        keep = data.draw(st.booleans(), label="keep")
        made["move_messages"] = data.draw(st.booleans(), label="move")
        known = self.drawn_basis(data, thread_id)
        whole = commit(thread_id, user=user, at=later(at), basis=known, fence=fence, keep_attachments=keep, **made)
        return self.noted(data, whole)

    def noted(self, data: st.DataObject, made: Commit) -> Commit:
        """Return `made`, sometimes journaled, chained to another commit, or part of a copy."""
        if not made.fork and not made.merge:
            receipts = data.draw(some([()], st.lists(st.sampled_from(COMMITS), max_size=2)), label="receipts")
            made = replace(made, receipts=tuple(receipts))
        if made.checkpoint is None or made.checkpoint.checkpoint_id != made.commit_id:
            made = replace(made, commit_id=data.draw(some([made.commit_id], COMMITS), label="id"))
        if not self.real.capabilities.journals:
            return made
        afters = [After(None), After(self.last_commits.get(made.thread_id))]
        return replace(
            made,
            journal=data.draw(st.sampled_from([None, None, None, b"", b"noted"]), label="journal"),
            after=data.draw(some([None, None, None, afters[1]], afters), label="after"),
            begin=data.draw(some([None], st.builds(Begin, incarnation=st.builds(new_id), epoch=st.integers(0, 9)))),
        )

    def drawn_basis(self, data: st.DataObject, thread_id: str) -> Basis | None:
        return data.draw(some([None, self.model.values(thread_id).basis], self.bases), label="basis")

    def owner(self, thread_id: str) -> str | None:
        found = self.model.thread(thread_id)
        return found.user_id if found else None

    @precondition(lambda self: self.model.threads())
    @rule(data=st.data(), at=seconds)
    def fork(self, data: st.DataObject, at: float) -> None:
        there = self.model.thread_ids()
        absent = [name for name in THREADS if name not in there]
        known = [
            (name, each.namespace, checkpoint_id)
            for name in there
            for each in self.model.checkpoints(name, namespace=None)
            for checkpoint_id in (each.checkpoint_id, None)
        ]
        unknown = st.tuples(st.sampled_from(THREADS), st.sampled_from(NAMESPACES), st.sampled_from(CHECKPOINTS))
        source, namespace, checkpoint_id = data.draw(some(known, unknown) if known else unknown, label="source")
        thread_id = data.draw(some(absent or THREADS, THREADS), label="thread")
        copy = data.draw(st.sampled_from(CHECKPOINTS), label="as")
        fork = fork_of(source, checkpoint_id, namespace=namespace, as_checkpoint_id=copy)
        user = data.draw(some([self.owner(source)], USERS), label="user")
        described = data.draw(some([None], field_sets([user if isinstance(user, str) else self.owner(source)])))
        self.apply(self.noted(data, commit(thread_id, user=user, at=later(at), fork=fork, thread=described)))

    @precondition(lambda self: self.model.threads())
    @rule(data=st.data(), at=seconds)
    def merge(self, data: st.DataObject, at: float) -> None:
        """Merge adjacent rows, or a range that does not fit."""
        thread_id = data.draw(st.sampled_from(self.model.thread_ids()), label="thread")
        ranges = data.draw(subranges(self.model.values(thread_id).rows), label="ranges")
        merged = [data.draw(value_rows(first, count=end - first)) for first, end in ranges]
        basis = self.drawn_basis(data, thread_id)
        made = commit(thread_id, user=self.owner(thread_id), at=later(at), basis=basis, merge=merged)
        if self.is_clear(made):
            self.apply(made)

    @precondition(lambda self: self.model.threads())
    @rule(data=st.data(), at=seconds, state=some([False], [True]))
    def remove(self, data: st.DataObject, at: float, state: bool) -> None:
        """Remove values and other records."""
        thread_id = data.draw(st.sampled_from(self.model.thread_ids()), label="thread")
        dropped = tuple(data.draw(subranges(self.model.values(thread_id).rows), label="values"))
        drawn = data.draw(removals, label="others")
        values = () if state else dropped
        removal = Removal(state=state, checkpoints=drawn.checkpoints, messages=drawn.messages, values=values)
        made = commit(thread_id, user=self.owner(thread_id), at=later(at), remove=removal)
        if self.is_clear(made):
            self.apply(made)

    def is_clear(self, made: Commit) -> bool:
        """Return whether the outcome of `made` is specified with regard to values that a fork shares.

        It is unspecified for a range that contains shared values but no whole row of them and, in
        storages that copy values into forks, for any range that contains shared values.
        """
        page = self.model.values(made.thread_id)
        ranges = [*(made.remove.values if made.remove else ()), *((row.first, row.end) for row in made.merge)]
        return all(
            first >= page.fixed_before
            or (self.shares and any(first <= row.first and row.end <= min(end, page.fixed_before) for row in page.rows))
            for first, end in ranges
        )

    @precondition(lambda self: self.model.threads())
    @rule(data=st.data(), by_owner=some([False], [True]))
    def delete(self, data: st.DataObject, by_owner: bool) -> None:
        # Mostly by users who may not, so that threads live long enough to be interesting.
        thread_id = data.draw(st.sampled_from(self.model.thread_ids()), label="thread")
        owner = self.owner(thread_id)
        if by_owner or owner is not None:
            user = data.draw(st.sampled_from([owner, ANY_USER] if by_owner else [None, "eve"]), label="user")
            basis = self.drawn_basis(data, thread_id)
            as_of: int | None = None
            if self.real.capabilities.journals:
                # Another storage's sequence numbers may be its own.
                sequence = self.model.values(thread_id).sequence
                as_of = data.draw(st.sampled_from([None, sequence, sequence - 1]), label="as of")
            removal = Removal(thread=True, as_of=as_of)
            self.apply(self.noted(data, commit(thread_id, user=user, basis=basis, remove=removal)))

    @precondition(lambda self: self.commits)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        again = data.draw(st.lists(st.sampled_from(self.commits), min_size=1, max_size=2))
        self.apply(*(made for made in again if self.is_clear(made)))

    @rule(
        thread_id=st.sampled_from(THREADS),
        user=st.sampled_from(USERS),
        holder=st.sampled_from(HOLDERS),
        at=seconds,
        ttl=st.sampled_from([0, 2, 5, 30]),
    )
    def lease(self, thread_id: str, user: Any, holder: str, at: float, ttl: float) -> None:
        def answer(store: DrivenStorage) -> LeaseRecord | type[ClewError]:
            try:
                return store.lease(holder, thread_id, user=user, now=later(at), ttl=ttl)
            except ClewError as error:
                return type(error)

        expected, found = answer(self.model), answer(self.real)
        if isinstance(expected, LeaseRecord) and isinstance(found, LeaseRecord):
            if ttl == 0 and (expected.holder == holder or expected.expires_at <= later(at)):
                return  # The result for a lease that is released or did not exist is unspecified.
            if expected.token not in self.tokens:
                assert found.token > max(self.tokens.values())
                self.tokens[expected.token] = found.token
            self.last_tokens[thread_id] = expected.token
            expected = replace(expected, token=self.tokens[expected.token])
        assert found == expected

    @precondition(lambda self: self.real.capabilities.journals and self.model.journal())
    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        both = [by_thread(store.journal(limit=ALL)) for store in (self.model, self.real)]
        places = data.draw(st.lists(st.integers(0, len(both[0]) - 1), max_size=3), label="places")
        for store, entries in zip((self.model, self.real), both, strict=True):
            store.run(store.storage.trim([entries[place] for place in places]))

    @precondition(lambda self: self.real.capabilities.durable and self.since_opened > 2)
    @rule()
    def reopen(self) -> None:
        self.real.reopen()
        self.since_opened = 0

    def apply(self, *commits: Commit) -> None:
        """Apply the same commits to both storages and compare the outcomes."""
        expected = self.model.outcomes(*commits)
        outcomes = self.real.outcomes(*(self.translated(each) for each in commits))
        assert len(outcomes) == len(commits)
        for each, wanted, outcome in zip(commits, expected, outcomes, strict=True):
            if isinstance(wanted, Applied):
                assert isinstance(outcome, Applied), f"the outcome of {each} was {outcome!r}"
                assert self.same_basis(wanted.basis, outcome.basis)
                if wanted.basis is None and not self.real.capabilities.journals:
                    # Replication remembers deletions. The model, which has no journal here, does not.
                    outcome = replace(outcome, repeated=wanted.repeated)
                assert replace(outcome, basis=wanted.basis) == wanted
                self.commits.append(each)
                self.last_commits[each.thread_id] = each.commit_id
                self.since_opened += 1
            else:
                assert _kind(outcome, each) == _kind(wanted, each), (
                    f"the outcome of {each} was {outcome!r}, not {wanted!r}"
                )

    def translated(self, made: Commit) -> Commit:
        """Return `made` with the ids and tokens of the tested storage."""
        basis, fence = made.basis, made.fence
        if basis is not None:
            basis = replace(basis, incarnation=self.incarnations[basis.incarnation])
        return replace(made, basis=basis, fence=None if fence is None else self.tokens[fence])


if SEED is not None:
    seed(SEED)(StorageMachine)


def _kind(outcome: Applied | ClewError, made: Commit) -> type:
    """Return the error's type. A commit that does not fit the value log may raise either of two."""
    touches_rows = made.merge or (made.remove and made.remove.values)
    return ConflictError if touches_rows and isinstance(outcome, StaleBasisError) else type(outcome)

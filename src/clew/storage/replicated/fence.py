"""Fencing by term and incarnation: callers' knowledge of a thread expires with the roles.

After a failover, the primary's last commits are hidden (async mode) or merged under other value
numbers, so what a writer knew about the thread's values may be wrong. Epochs and lease tokens
therefore carry the term. Those of another term are outdated, and the writer reads the thread again,
as after a cleanup.
"""

from __future__ import annotations

from typing import Final, TypeVar

from msgspec.structs import replace

from clew.bounded import BoundedMap
from clew.errors import LeaseError
from clew.ids import new_id
from clew.model.commit import Applied, Begin, Commit
from clew.model.queries import CheckpointPage, Content, ValuePage
from clew.model.records import Basis, LeaseRecord
from clew.storage.protocol import Storage
from clew.storage.replicated.copies import chain_end
from clew.storage.replicated.failover import Side

_REMEMBERED: Final = 10_000
_SHIFT: Final = 40
_OUTDATED: Final = -1
"""An epoch and token that no store ever has."""
_Found = TypeVar("_Found", CheckpointPage, ValuePage, Content, Applied)


def with_term(found: _Found, term: int) -> _Found:
    """Return a store's answer with the term in its epoch, for callers."""
    basis = found.basis
    if basis is None or term == 1:
        return found
    return replace(found, basis=replace(basis, epoch=_with_term(basis.epoch, term)))


def lease_with_term(record: LeaseRecord, term: int) -> LeaseRecord:
    """Return a store's lease with the term in its token, for callers."""
    return replace(record, token=_with_term(record.token, term))


def without_term(commit: Commit, term: int) -> Commit:
    """Return a caller's commit for the store. A token or epoch of another term matches none in the
    store, which refuses the commit in its usual order of checks."""
    if commit.fence is not None:
        commit = replace(commit, fence=_without_term(commit.fence, term))
    if commit.basis is not None:
        basis: Basis = replace(commit.basis, epoch=_without_term(commit.basis.epoch, term))
        commit = replace(commit, basis=basis)
    return commit


def lease_lost(commit: Commit) -> LeaseError:
    """Return the error for a commit whose fence is outdated, in its store or by its term."""
    return LeaseError(
        f"thread {commit.thread_id!r}: the lease with token {commit.fence} is outdated: another holder took it, or the "
        "stores changed roles; take it again",
        thread_id=commit.thread_id,
        fence=commit.fence,
    )


def _with_term(number: int, term: int) -> int:
    # The first term changes nothing.
    return number + (term - 1 << _SHIFT)


def _without_term(number: int, term: int) -> int:
    return number & ((1 << _SHIFT) - 1) if number >> _SHIFT == term - 1 else _OUTDATED


class Incarnations:
    """Incarnations that unacknowledged commits have proposed for the threads that they may create.

    A retry on the other store proposes the same incarnation, because the first attempt may have
    created the thread. A retry on the same store proposes a new one: if the first attempt created
    the thread and the retry has to create it again, it was deleted in between, and a caller that knew it
    must get an error. A retry on the other store proposes a new one, too, if that store has had the thread,
    which its chain shows even after a deletion. This does not apply if the stores' commits are `merged`
    (async mode), because two incarnations would be two threads there.
    """

    def __init__(self, *, merged: bool) -> None:
        self._merged = merged
        self._proposed: BoundedMap[tuple[str, str], tuple[Side, Begin]] = BoundedMap(max_entries=_REMEMBERED)

    async def propose(self, commit: Commit, store: Storage, side: Side) -> Begin:
        """Return the incarnation for an attempt to apply `commit` to that store."""
        key = commit.thread_id, commit.commit_id
        known = self._proposed.get(key)
        anew = known is None or known[0] == side
        if not anew and not self._merged:
            anew = await chain_end(store, commit.thread_id) is not None
        begin = Begin(incarnation=new_id()) if anew or known is None else known[1]
        self._proposed.put(key, (side, begin))
        return begin

    def forget(self, commit: Commit) -> None:
        """Drop the proposal of `commit`, which has ended."""
        self._proposed.pop((commit.thread_id, commit.commit_id))

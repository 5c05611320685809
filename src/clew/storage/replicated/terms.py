"""What is only good in one term: tokens of leases, and what a writer knows of a thread's values.

While the primary's last commits are hidden (an async failover), or merged under other numbers, what a writer knew before is not
so any more. So the term is part of the tokens and epochs that callers see: those of another term are outdated, and writers
read the thread again as they do after a cleanup.
"""

from __future__ import annotations

from typing import Final, TypeVar

from msgspec.structs import replace

from clew.model.commit import Applied, Commit
from clew.model.queries import CheckpointPage, ValuePage
from clew.model.records import Basis, LeaseRecord

_SHIFT: Final = 40
_NONE: Final = -1
"""No store gives such a token, and none counts an epoch so."""
_Found = TypeVar("_Found", CheckpointPage, ValuePage, Applied)


def outer(found: _Found, term: int) -> _Found:
    """What a store has found, as callers in this term see it."""
    basis = found.basis
    if basis is None or term == 1:
        return found
    return replace(found, basis=replace(basis, epoch=_stamped(basis.epoch, term)))


def outer_lease(record: LeaseRecord, term: int) -> LeaseRecord:
    """The same for a lease."""
    return replace(record, token=_stamped(record.token, term))


def inner(commit: Commit, term: int) -> Commit:
    """A caller's commit as the store understands it. What is of another term fits nothing there: the store refuses it in the
    order in which it checks everything else."""
    if commit.fence is not None:
        commit = replace(commit, fence=_plain(commit.fence, term))
    if commit.basis is not None:
        basis: Basis = replace(commit.basis, epoch=_plain(commit.basis.epoch, term))
        commit = replace(commit, basis=basis)
    return commit


def _stamped(number: int, term: int) -> int:
    # The first term leaves them as they are.
    return number + (term - 1 << _SHIFT)


def _plain(number: int, term: int) -> int:
    return number & ((1 << _SHIFT) - 1) if number >> _SHIFT == term - 1 else _NONE

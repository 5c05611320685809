"""The rules of a commit: a table, and the function that applies it.

`RULES` lists every rule in the order of the checks, with the error of a commit that breaks it. `decide`
applies the rules to the facts of a storage; memory and SQLite call it. PostgreSQL and Redis decide on
their servers, which answer with the name of a rule; `refusal` turns that into the error. The contract
suite has cases for each rule (`clew.testing.contract.rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic

from clew.errors import ClewError, ConflictError, LeaseError, PermissionDeniedError, StorageError, ThreadDeletedError
from clew.model.commit import HEAD, Commit, NewCheckpoint, Removal
from clew.model.config import ANY_USER, User
from clew.model.records import Range
from clew.storage.conversions import union
from clew.storage.facts import Facts, StoredRow, Thread
from clew.storage.holders import lease_space, space_name
from clew.storage.protocol import StaleBasisError
from clew.storage.refusals import (
    chain_moved,
    epoch_moved,
    fork_exists,
    head_moved,
    lease_moved,
    not_the_owner,
    origin_missing,
    owner_stays,
    parent_gone,
    rows_differ,
    source_missing,
    thread_gone,
    values_moved,
    values_shared,
    written_since,
)

Refusal = Callable[[Commit, str | None, int | None], ClewError]
"""Makes the error of a refused commit from the id or number that the check found."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a commit. `name` is also the code with which a server refuses a commit.

    `refusal` makes the error of a commit that breaks the rule, and `error` is its type. Only the receipt
    rule has none: a repeated commit is answered, not refused.
    """

    name: str
    promise: str
    error: type[ClewError] | None = None
    refusal: Refusal | None = None

    def refuse(self, commit: Commit, named: str | None = None, number: int | None = None) -> ClewError:
        """The error for `commit`, which this rule refuses."""
        assert self.refusal is not None
        return self.refusal(commit, named, number)


OWNER: Final = Rule(
    "owner",
    "A thread with an owner accepts commits of that user and of ANY_USER only.",
    PermissionDeniedError,
    lambda commit, _named, _number: not_the_owner(commit.thread_id, commit.user),
)
RECEIPT: Final = Rule("receipt", "A commit whose receipt the thread has is a repetition, and is not applied again.")
DELETED: Final = Rule(
    "deleted", "A basis has the thread's current incarnation.", ThreadDeletedError, thread_gone
)  # fmt: skip
EPOCH: Final = Rule("epoch", "A basis has the thread's current epoch.", StaleBasisError, epoch_moved)
AFTER: Final = Rule(
    "after",
    "A commit `after` another one requires the other one to be the end of the thread's chain. So a late commit can't "
    "create a deleted thread again: the end of its chain is the deletion.",
    StaleBasisError,
    chain_moved,
)
AS_OF: Final = Rule(
    "as_of",
    "A removal `as_of` a sequence number requires the thread to be at that number, or to be deleted already.",
    StaleBasisError,
    written_since,
)
FIRST: Final = Rule(
    "first",
    "New values start at the thread's next value number (0 in a new thread).",
    StaleBasisError,
    values_moved,
)
FENCE: Final = Rule(
    "fence", "A fence is the token of the thread's last lease in its owner's space.", LeaseError, lease_moved
)
EXISTS: Final = Rule("exists", "A fork creates a thread that does not exist yet.", ConflictError, fork_exists)
SOURCE: Final = Rule(
    "source", "A fork's source is another thread, which the user may read.", ConflictError, source_missing
)  # fmt: skip
ORIGIN: Final = Rule("origin", "A fork starts at a checkpoint that its source has.", ConflictError, origin_missing)
SHARED: Final = Rule(
    "shared", "Values that a fork shares are neither removed nor merged.", ConflictError, values_shared
)
MERGE: Final = Rule("merge", "A merged row replaces whole rows without a gap.", StaleBasisError, rows_differ)
HEADED: Final = Rule(
    "head",
    "A new checkpoint that rejects conflicts has the namespace's head as its parent.",
    ConflictError,
    head_moved,
)
PARENT: Final = Rule(
    "parent",
    "Without a basis, a new checkpoint's parent must exist, or be None.",
    ConflictError,
    parent_gone,
)
NEW_OWNER: Final = Rule("new_owner", "Only ANY_USER changes a thread's owner.", PermissionDeniedError, owner_stays)

RULES: Final = (
    OWNER, RECEIPT, DELETED, EPOCH, AFTER, AS_OF, FIRST, FENCE,
    EXISTS, SOURCE, ORIGIN, SHARED, MERGE, HEADED, PARENT, NEW_OWNER,
)  # fmt: skip
"""Every rule of a commit, in the order of the checks. The first broken rule decides."""

_BY_NAME: Final = {rule.name: rule for rule in RULES}


def refusal(commit: Commit, code: str, named: str | None = None, number: int | None = None) -> ClewError:
    """The error for `commit`, which a server refused by the rule `code`.

    `named` is the end of the chain (for `after`) or the head (for `head` and `parent`) that the server found.
    `number` is the thread's number where the commit expected another one; for `merge`, it is the position of
    the row in the commit, counted from 1.
    """
    rule = _BY_NAME.get(code)
    if rule is None or rule.refusal is None:
        return StorageError(f"thread {commit.thread_id!r}: the server answered {code!r}, which this Clew does not know")
    return rule.refusal(commit, named, number)


@dataclass(slots=True)
class Decision(Generic[Thread]):
    """The decision to apply a commit, with the facts that its writing needs.

    `existing` is the thread that was found; `kept` is the same, or `None` if it is deleted or did not
    exist. `ended`: the end of the chain of a thread that does not exist. `repeated`: there is nothing to
    do. `origin`: source thread and checkpoint of a fork. `dropped`: the rows to remove. `replaced`: the
    rows that merged rows replace. `replaces`: the new checkpoint replaces the one with its id, and keeps
    that one's parent. `branches`: its parent is not the main namespace's head. `ends_leases`: the thread's
    leases are not in its new owner's space.
    """

    existing: Thread | None
    kept: Thread | None
    ended: str | None = None
    owner: str | None = None
    parent: str | None = None
    replaces: bool = False
    branches: bool = False
    ends_leases: bool = False
    repeated: bool = False
    origin: tuple[Thread, str] | None = None
    dropped: list[StoredRow] | tuple[()] = ()
    replaced: list[StoredRow] | tuple[()] = ()

    @property
    def last_in_chain(self) -> str | None:
        """The end of the thread's chain before the commit."""
        return self.existing.last_in_chain if self.existing is not None else self.ended


def decide(commit: Commit, facts: Facts[Thread]) -> Decision[Thread]:
    """Apply the rules to `commit`, in order. Raises the error of the first rule that it breaks."""
    user = commit.user
    existing = facts.thread(commit.thread_id)
    ended = None
    if existing is not None:
        owner = existing.owner
        if owner is not None and owner != user and user is not ANY_USER:
            raise OWNER.refuse(commit)
        if facts.has_applied(existing, commit):
            return Decision(existing, existing, repeated=True)
    elif next_in_chain(commit) is not None:
        ended = facts.end_of_missing(commit.thread_id)
        if ended == commit.commit_id:
            return Decision(None, None, repeated=True)
    removal = commit.remove
    kept = existing if removal is None or not removal.thread else None
    if (basis := commit.basis) is not None:
        if existing is None:
            # A deletion that is retried after a lost answer succeeds.
            if removal is None or not removal.thread:
                raise DELETED.refuse(commit)
        elif existing.incarnation != basis.incarnation:
            raise DELETED.refuse(commit)
        elif existing.epoch != basis.epoch:
            raise EPOCH.refuse(commit, number=existing.epoch)
    if commit.after is not None:
        last = existing.last_in_chain if existing is not None else ended
        if commit.after.commit_id != last:
            raise AFTER.refuse(commit, last)
    if removal is not None and removal.as_of is not None and (existing is not None or not removal.thread):
        sequence = existing.sequence if existing is not None else 0
        if removal.as_of != sequence:
            raise AS_OF.refuse(commit, number=sequence)
    if (values := commit.values) is not None:
        next_value = kept.next_value if kept is not None else 0
        if values.first != next_value:
            raise FIRST.refuse(commit, number=next_value)
    if commit.fence is not None:
        token = facts.last_token(commit.thread_id, lease_space(existing, user))
        if commit.fence != token:
            raise FENCE.refuse(commit, number=token)
    decision = Decision(existing, kept, ended)
    if kept is None and not adds(commit):
        return decision
    if commit.fork is not None:
        decision.origin = _origin(commit, kept, facts)
    if removal is not None or commit.merge:
        _decide_rows(commit, removal or Removal(), decision, facts)
    if (new := commit.checkpoint) is not None:
        _decide_parent(commit, new, decision, facts)
    if kept is not None:
        decision.owner = kept.owner
    else:
        decision.owner = owner_of_new(commit, decision.origin[0].owner if decision.origin else None)
    owner = decision.owner
    if commit.thread is not None:
        owner = commit.thread.user_id
        if owner != decision.owner and user is not ANY_USER:
            raise NEW_OWNER.refuse(commit)
    if commit.thread is not None or commit.fork is not None or existing is not kept:
        decision.ends_leases = space_name(owner) != lease_space(existing, user)
    return decision


def _origin(commit: Commit, kept: Thread | None, facts: Facts[Thread]) -> tuple[Thread, str]:
    """The source thread of a fork, and the checkpoint it starts at."""
    fork = commit.fork
    assert fork is not None
    if kept is not None:
        raise EXISTS.refuse(commit)
    source = facts.thread(fork.thread_id) if fork.thread_id != commit.thread_id else None
    if source is None or not is_open_to(source.owner, commit.user):
        raise SOURCE.refuse(commit)
    if fork.checkpoint_id is not None:
        found = facts.has_checkpoint(source, fork.namespace, fork.checkpoint_id)
        checkpoint_id = fork.checkpoint_id if found else None
    else:
        checkpoint_id = facts.head(source, fork.namespace, without=frozenset())
    if checkpoint_id is None:
        raise ORIGIN.refuse(commit)
    return source, checkpoint_id


def _decide_rows(commit: Commit, removal: Removal, decision: Decision[Thread], facts: Facts[Thread]) -> None:
    """Find the rows to remove and the rows to merge."""
    thread = None if removal.state else decision.kept
    ranges = union(removal.values) if thread is not None else []
    if thread is not None and (ranges or commit.merge):
        shared = facts.shared_before(thread)
        if min([first for first, _ in ranges] + [row.first for row in commit.merge]) < shared:
            raise SHARED.refuse(commit, number=shared)
        decision.dropped = [
            row for first, end in ranges for row in facts.rows(thread, first, end) if _inside(row, [(first, end)])
        ]
    replaced: list[StoredRow] = []
    for place, row in enumerate(commit.merge, 1):
        old = facts.rows(thread, row.first, row.end) if thread is not None else []
        old = [each for each in old if not _inside(each, ranges)]
        borders = [row.first, *(first + count for first, count, _ in old)]
        if not old or [first for first, _, _ in old] != borders[:-1] or borders[-1] != row.end:
            raise MERGE.refuse(commit, number=place)
        replaced += old
    decision.replaced = replaced


def _inside(row: StoredRow, ranges: Iterable[Range]) -> bool:
    first, count, _ = row
    return any(start <= first and first + count <= end for start, end in ranges)


_NONE_GONE: Final[frozenset[str]] = frozenset()


def _decide_parent(commit: Commit, new: NewCheckpoint, decision: Decision[Thread], facts: Facts[Thread]) -> None:
    """Decide the parent of the new checkpoint. A replaced one keeps its own, without a conflict."""
    thread, removal, gone = decision.kept, commit.remove, _NONE_GONE
    if removal is not None:
        if removal.state:
            thread = None
        gone = frozenset(
            checkpoint_id for namespace, checkpoint_id in removal.checkpoints if namespace == new.namespace
        )
    head = None
    if thread is not None:
        if new.checkpoint_id not in gone and facts.replaces(thread, new):
            decision.replaces = True
            return
        head = facts.head(thread, new.namespace, without=gone)
    parent = new.parent
    if parent is HEAD:
        parent = head
    elif parent != head:
        if new.on_conflict == "reject":
            raise HEADED.refuse(commit, head)
        if parent is not None and commit.basis is None:
            there = thread is not None and parent not in gone and facts.has_checkpoint(thread, new.namespace, parent)
            if not there:
                raise PARENT.refuse(commit, head)
    decision.parent, decision.branches = parent, parent != head and not new.namespace


# Properties of a commit alone


def adds(commit: Commit) -> bool:
    """Return whether `commit` adds anything, and so creates its thread."""
    return bool(
        commit.checkpoint is not None
        or commit.values is not None
        or commit.messages
        or commit.attachments
        or commit.thread is not None
        or commit.fork is not None
        or commit.merge
    )


def made_checkpoint(commit: Commit) -> tuple[str, str] | None:
    """Namespace and id of the checkpoint that `commit` makes, if any."""
    if commit.checkpoint:
        return commit.checkpoint.namespace, commit.checkpoint.checkpoint_id
    return (commit.fork.namespace, commit.fork.as_checkpoint_id) if commit.fork else None


def next_in_chain(commit: Commit) -> str | None:
    """The end of the thread's chain after `commit`; `None` if the commit ends the chain."""
    return commit.commit_id if commit.journal is not None or commit.after is not None else None


def is_open_to(owner: str | None, user: User) -> bool:
    """Return whether `user` may read and write what `owner` owns."""
    return owner is None or user is ANY_USER or owner == user


def check_owner(thread_id: str, owner: str | None, user: User) -> None:
    """Raise PermissionDeniedError if `user` may not write what `owner` owns."""
    if not is_open_to(owner, user):
        raise not_the_owner(thread_id, user)


def owner_of_new(commit: Commit, source_owner: str | None = None) -> str | None:
    """The owner of a new thread: the commit's user, or the source's owner if `ANY_USER` forks."""
    return source_owner if commit.user is ANY_USER else commit.user

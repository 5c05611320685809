"""The rules of a commit: a table of them, and the one function that decides by it.

`RULES` names every rule, in the order in which they are checked, with the error of a commit that breaks it. `decide`
applies the table to what a storage knows of a thread: memory and SQLite call it. PostgreSQL and Redis decide on their
servers, which answer with the name of a rule: `refusal` makes the error of that. The contract suite has a case for each
rule of the table (`clew.testing.contract.rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from clew.errors import ClewError, ConflictError, LeaseError, PermissionDeniedError, StorageError, ThreadDeletedError
from clew.model.commit import HEAD, Commit, NewCheckpoint, Removal
from clew.model.config import ANY_USER, User
from clew.model.records import Range
from clew.storage.packing import union
from clew.storage.protocol import StaleBasisError
from clew.storage.refusals import (
    chain_moved,
    epoch_moved,
    fork_exists,
    head_moved,
    lease_moved,
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
"""Makes the error of a refused commit from what the check found: an id or a number."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a commit. `name` is also the code by which a server refuses a commit.

    A commit that breaks it gets the error that `refusal` makes, which is of the type `error`. Only the receipt has none: a
    commit that was applied before is answered, not refused.
    """

    name: str
    promise: str
    error: type[ClewError] | None = None
    refusal: Refusal | None = None

    def refuse(self, commit: Commit, named: str | None = None, number: int | None = None) -> ClewError:
        """The error of `commit`, which this rule refuses."""
        assert self.refusal is not None
        return self.refusal(commit, named, number)


def not_the_owner(thread_id: str, user: User) -> PermissionDeniedError:
    message = f"thread {thread_id!r} belongs to another user than {user!r}"
    return PermissionDeniedError(message, thread_id=thread_id, user=user)


OWNER: Final = Rule(
    "owner",
    "A thread that has an owner takes commits of that user and of ANY_USER only.",
    PermissionDeniedError,
    lambda commit, _named, _number: not_the_owner(commit.thread_id, commit.user),
)
RECEIPT: Final = Rule("receipt", "A commit that the thread has a receipt of is not applied again: it is repeated.")
DELETED: Final = Rule(
    "deleted", "A basis is of the thread's present incarnation.", ThreadDeletedError, thread_gone
)  # fmt: skip
EPOCH: Final = Rule("epoch", "A basis is of the thread's present epoch.", StaleBasisError, epoch_moved)
AFTER: Final = Rule(
    "after", "A commit `after` another finds that one at the end of the thread's chain.", StaleBasisError, chain_moved
)
AS_OF: Final = Rule(
    "as_of", "A removal `as_of` a sequence number finds the thread at that number.", StaleBasisError, written_since
)
FIRST: Final = Rule(
    "first",
    "New values are numbered on from the thread's next value (0 in a new thread).",
    StaleBasisError,
    values_moved,
)
FENCE: Final = Rule("fence", "A fence is the token of the thread's last lease.", LeaseError, lease_moved)
EXISTS: Final = Rule("exists", "A fork makes a thread that does not exist.", ConflictError, fork_exists)
SOURCE: Final = Rule(
    "source", "A fork is of another thread, which its user may read.", ConflictError, source_missing
)  # fmt: skip
ORIGIN: Final = Rule("origin", "A fork is of a checkpoint that its source has.", ConflictError, origin_missing)
SHARED: Final = Rule(
    "shared", "Values that a fork shares are neither removed nor merged.", ConflictError, values_shared
)
MERGE: Final = Rule("merge", "A merged row takes the place of whole rows without a gap.", StaleBasisError, rows_differ)
HEADED: Final = Rule(
    "head",
    "A new checkpoint that rejects conflicts has the namespace's head as its parent.",
    ConflictError,
    head_moved,
)
PARENT: Final = Rule(
    "parent",
    "A new checkpoint of a commit without a basis has a parent that is there, or none.",
    ConflictError,
    parent_gone,
)
NEW_OWNER: Final = Rule("new_owner", "Only ANY_USER changes a thread's owner.", PermissionDeniedError, owner_stays)

RULES: Final = (
    OWNER, RECEIPT, DELETED, EPOCH, AFTER, AS_OF, FIRST, FENCE,
    EXISTS, SOURCE, ORIGIN, SHARED, MERGE, HEADED, PARENT, NEW_OWNER,
)  # fmt: skip
"""Every rule of a commit, in the order in which they are checked: the first that is broken decides."""

_BY_NAME: Final = {rule.name: rule for rule in RULES}


def refusal(commit: Commit, code: str, named: str | None = None, number: int | None = None) -> ClewError:
    """The error of `commit`, which a server refused by the rule `code` after finding `named` or `number`.

    `named` is the end of the chain (`after`) or the head (`head`, `parent`). `number` is what the thread has instead of what
    the commit expects; for `merge`, the place of the row in the commit, counted from 1.
    """
    rule = _BY_NAME.get(code)
    if rule is None or rule.refusal is None:
        return StorageError(f"thread {commit.thread_id!r}: the server answered {code!r}, which this Clew does not know")
    return rule.refusal(commit, named, number)


# What storages know

StoredRow = tuple[int, int, int]
"""A row of values: its first number, how many there are, and its size in bytes."""


class Known(Protocol):
    """A thread as a storage knows it."""

    @property
    def owner(self) -> str | None: ...
    @property
    def incarnation(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def next_value(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def last_in_chain(self) -> str | None: ...


Thread = TypeVar("Thread", bound=Known)


class Facts(Protocol[Thread]):
    """What a storage is asked about threads. `decide` asks only for what the commit needs."""

    def thread(self, thread_id: str) -> Thread | None: ...

    def has_applied(self, thread: Thread, commit: Commit) -> bool:
        """Whether the thread has a receipt of `commit`."""

    def last_token(self, thread_id: str) -> int | None:
        """The token of the thread's last lease."""

    def head(self, thread: Thread, namespace: str, *, without: frozenset[str]) -> str | None:
        """The id of the newest checkpoint in `namespace`, not counting those in `without`."""

    def has_checkpoint(self, thread: Thread, namespace: str, checkpoint_id: str) -> bool: ...

    def replaces(self, thread: Thread, new: NewCheckpoint) -> bool:
        """Whether the thread has the checkpoint that `new` names. A storage may say no, if its write fails otherwise."""

    def shared_before(self, thread: Thread) -> int:
        """The number under which values are shared with a fork."""

    def rows(self, thread: Thread, first: int, end: int) -> list[StoredRow]:
        """The rows that hold any of the values `first` up to `end`, in order."""


@dataclass(slots=True)
class Decision(Generic[Thread]):
    """A commit that may be applied, and what the writing needs to know.

    `existing` is the thread as it was found, `kept` the same unless it is to be deleted or created. `repeated`: there is
    nothing to do. `origin` is the thread and the checkpoint that a fork begins from. `dropped` are the rows that are removed,
    `replaced` those that the merged rows take the place of. `replaces`: the new checkpoint takes the place of one with its id
    and keeps that one's parent.
    """

    existing: Thread | None
    kept: Thread | None
    owner: str | None = None
    parent: str | None = None
    replaces: bool = False
    repeated: bool = False
    origin: tuple[Thread, str] | None = None
    dropped: list[StoredRow] | tuple[()] = ()
    replaced: list[StoredRow] | tuple[()] = ()

    @property
    def last_in_chain(self) -> str | None:
        """The end of the chain that the commit found."""
        return self.existing.last_in_chain if self.existing is not None else None


def decide(commit: Commit, facts: Facts[Thread]) -> Decision[Thread]:
    """What comes of `commit`, by the rules in their order. Raises the error of the first one that it breaks."""
    user = commit.user
    existing = facts.thread(commit.thread_id)
    if existing is not None:
        owner = existing.owner
        if owner is not None and owner != user and user is not ANY_USER:
            raise OWNER.refuse(commit)
        if facts.has_applied(existing, commit):
            return Decision(existing, existing, repeated=True)
    removal = commit.remove
    kept = existing if removal is None or not removal.thread else None
    if (basis := commit.basis) is not None:
        if existing is None:
            # A deletion that comes again, because its answer was lost, finds what it wants.
            if removal is None or not removal.thread:
                raise DELETED.refuse(commit)
        elif existing.incarnation != basis.incarnation:
            raise DELETED.refuse(commit)
        elif existing.epoch != basis.epoch:
            raise EPOCH.refuse(commit, number=existing.epoch)
    if commit.after is not None:
        last = existing.last_in_chain if existing is not None else None
        if commit.after.commit_id != last:
            raise AFTER.refuse(commit, last)
    if removal is not None and removal.as_of is not None:
        sequence = kept.sequence if kept is not None else 0
        if removal.as_of != sequence:
            raise AS_OF.refuse(commit, number=sequence)
    if (values := commit.values) is not None:
        next_value = kept.next_value if kept is not None else 0
        if values.first != next_value:
            raise FIRST.refuse(commit, number=next_value)
    if commit.fence is not None:
        token = facts.last_token(commit.thread_id)
        if commit.fence != token:
            raise FENCE.refuse(commit, number=token)
    decision = Decision(existing, kept)
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
    if commit.thread is not None and commit.thread.user_id != decision.owner and user is not ANY_USER:
        raise NEW_OWNER.refuse(commit)
    return decision


def _origin(commit: Commit, kept: Thread | None, facts: Facts[Thread]) -> tuple[Thread, str]:
    """The thread and the checkpoint that a fork begins from."""
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
    """Which rows go, and which are merged."""
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
    """The parent of the new checkpoint. One that is replaced keeps its own, and meets no conflict."""
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
    decision.parent = parent


# What follows from a commit alone


def adds(commit: Commit) -> bool:
    """Whether `commit` puts anything in, and so creates its thread."""
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
    """Namespace and id of the checkpoint that `commit` makes."""
    if commit.checkpoint:
        return commit.checkpoint.namespace, commit.checkpoint.checkpoint_id
    return (commit.fork.namespace, commit.fork.as_checkpoint_id) if commit.fork else None


def next_in_chain(commit: Commit) -> str | None:
    """What the thread's chain ends with once `commit` is applied."""
    return commit.commit_id if commit.journal is not None or commit.after is not None else None


def is_open_to(owner: str | None, user: User) -> bool:
    """Whether `user` may see and change what `owner` owns."""
    return owner is None or user is ANY_USER or owner == user


def check_owner(thread_id: str, owner: str | None, user: User) -> None:
    """That `user` may change what `owner` owns: else PermissionDeniedError."""
    if not is_open_to(owner, user):
        raise not_the_owner(thread_id, user)


def owner_of_new(commit: Commit, source_owner: str | None = None) -> str | None:
    """Who owns the thread that `commit` creates: its user, or whoever owns what `ANY_USER` forks."""
    return source_owner if commit.user is ANY_USER else commit.user

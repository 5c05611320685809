"""The contract of a storage: the operations of `Storage`, and what each guarantees.

To write a storage, implement `Storage` and subclass `clew.testing.StorageContract` (or
`DurableStorageContract`). The suite is the definition; this page summarises it.

**Commits.** `apply` takes commits of any threads and returns one outcome for each, in order: an
`Applied`, or the `ClewError` that refused it. Each commit is atomic: a refused commit changes nothing and
does not affect the others. A failure of the whole storage is raised instead. For each commit:

1. *Rules.* The table in `clew.storage.rules` says what refuses a commit. The rules are checked in
   order: owner, receipt, basis, chain, numbers, fence, fork, rows, parent, new owner. The first broken
   rule decides the error.
2. *Receipts.* A commit that the thread has a receipt of is not applied again, and its outcome says
   `repeated`. The store keeps the receipts of the thread's last 256 commits, and the receipt of a
   commit that made a checkpoint with its own id for as long as that checkpoint exists. Older ones are
   pruned, so their number is bounded. A commit's `receipts` are added to the thread's, too. A repeated
   outcome does not say what was removed.
3. *Owner.* A new thread belongs to the commit's user (to nobody, if that is `None` or `ANY_USER`).
4. *Removal* comes first, then everything else is added. Removing checkpoints or all state, and naming
   values to remove, increments the epoch.
5. *Checkpoint.* It gets the thread's next sequence number. See `NewCheckpoint` for parents and
   conflicts. A checkpoint whose id exists in the namespace replaces the existing one: it keeps that one's
   sequence and parent, and there is no conflict. `saved_at` is the commit's time. `created_at` is the one in
   the commit (a copy), or else that of the replaced checkpoint, or else the commit's time.
6. *Attachments* replace those with the same key; with `keep_attachments`, existing ones stay.
7. *Messages* with a known id replace that message in its place; others are appended. In a commit with
   a checkpoint, or with `move_messages`, a message that only other branches have moves to the end of this one.
8. *Thread* replaces the describing fields.
9. *Branches.* The thread gets a branch point (`clew.storage.branches`) if the commit has a `back_to`;
   or if its new checkpoint of the main namespace has a parent that exists, or `None`, and is not the
   head; or if it removes all checkpoints of the newest branch, so that the head is on another one.
   Other namespaces begin no branches.

A commit that only removes, or only brings receipts, does not create a thread. All times come from the
commit; the order never does. A commit increments the thread's sequence by one, and its epoch by at
most one.

**Journal.** A commit with `journal` atomically adds an entry to the store's journal, which stays there
until it is trimmed. This is how commits get to another store, in each thread's order. Such a commit,
and one with `after`, becomes the end of the thread's chain. Any other commit ends the chain: the next
one is after `None`. Deleting a thread removes nothing from the journal. A refused or repeated commit adds
no entry; one that finds no thread to remove from does. A thread that a commit creates, also by a fork, has
the incarnation and epoch of the commit's `begin`, if it has one.

A missing thread has a chain, too: its end is the last commit of a chain that left no thread, usually the
deletion. The store remembers it for `ENDS_KEPT` seconds at least, and repeats that commit if it comes again.
Only commits with `journal` or `after` see it or change it.

**Forks.** The new thread belongs to the commit's user, or to the source's owner if that is `ANY_USER`.
Its copy of the checkpoint has sequence 1, and so have its messages: those of the checkpoint's branch that
were added to the source up to the checkpoint. It has no branch points. Shared values don't count in the
fork's size. Values that a fork needs are under `fixed_before` in its source, until the fork is deleted or
cleared.

**Owners.** Everybody who knows its id can read and write a thread without an owner. It is listed under
`None` only.

**Queries** see every commit that was acknowledged before they started. Each is answered from one
snapshot. For another user's thread the answer is empty. An unknown `before` finds nothing; with
`before_sequence`, both bounds apply. In `stats`, the bytes of a day are bodies, metadata and messages.
Tokens are those of the messages, by the day of each message.

**Searches** across threads find the messages of the threads that the user owns: those without an owner
for `None`, all for `ANY_USER`. A storage that can't answer from one snapshot still finds every message
that was there, unchanged, while the search ran, and none twice.

**Own records.** Clew keeps records of its own in a separate space of every store, under names of the
type `Own`. They are not threads: no thread id or user id leads to one, no list or total shows them, and
deleting threads does not affect them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from clew.errors import ClewError, ConflictError
from clew.model.commit import Applied, Commit
from clew.model.config import RESERVED_USER, User
from clew.model.feed import FeedPage, FeedQuery
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    Content,
    JournalPage,
    JournalQuery,
    MessageQuery,
    SearchQuery,
    StorageStats,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import (
    AttachmentRecord,
    FoundMessage,
    JournalEntry,
    LeaseRecord,
    MessageRecord,
    ThreadRecord,
)

LONGEST_TTL: Final = 366 * 86_400
"""The longest time to live of a lease, in seconds."""
RECEIPTS_KEPT: Final = 256
"""How many of a thread's last commits are recognised, at least, if they are repeated."""
RECEIPTS_PRUNED: Final = 64
"""How many more receipts there may be before they are pruned."""
ENDS_KEPT: Final = 7 * 86_400
"""Seconds that a durable store remembers the end of a deleted thread's chain, at least, by its own clock."""
UNFINISHED: Final = ""
"""The owner of a thread that replication has not copied completely. No user has it, because user
ids are not empty. Every storage accepts it as an owner."""
COPYING: Final = RESERVED_USER
"""The owner of an unfinished copy that a user makes. `model.config` reserves this id."""


class Own(enum.Enum):
    """Names of the records that Clew keeps for itself. No user input becomes one."""

    ROLES = "roles"
    """Which of two stores serves."""
    SHIPPING = "shipping"
    """Which process ships commits to the other store."""
    CLEANUP = "cleanup"
    """Which process cleans up."""
    KEYS = "keys"
    """The ids of the keys that the store is encrypted with."""


class StaleBasisError(ConflictError):
    """The writer's view of the value log is outdated; it encodes again. Never reaches users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Properties in which storages may differ.

    `durable`: acknowledged commits survive the process. `suspends`: its coroutines wait on an event
    loop, so sync callers need one (otherwise they run in the calling thread). `shares_forks`: forks
    share values instead of copying them. `journals`: it keeps a journal (a replicating storage doesn't).
    """

    name: str
    durable: bool
    suspends: bool
    shares_forks: bool
    journals: bool = True


class Storage(Protocol):
    """A store of threads. The module's docstring says what the operations guarantee."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def setup(self) -> None:
        """Create or migrate the store. Idempotent, and safe in concurrent processes."""

    async def close(self) -> None:
        """Finish accepted work and release the resources that this storage opened. Idempotent."""

    async def ping(self) -> None:
        """Check that the store is available. Raises StorageError if it is not."""

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        """Apply each commit atomically and durably, and return the outcomes in order."""

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        """Return the checkpoints that `query` describes, newest first."""

    async def values(self, query: ValueQuery) -> ValuePage:
        """Return rows of a thread's value log, in order."""

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        """Return attachments, ordered by namespace, checkpoint and key."""

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        """Return messages of a thread, in order."""

    async def search(self, query: SearchQuery) -> list[FoundMessage]:
        """Return the messages with a text in all threads that the user owns, newest first.

        Steps over messages whose record is damaged. See the note on searches above.
        """

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        """Return threads of a user, the last active first."""

    async def content(self, thread_id: str) -> Content | None:
        """Return everything in a thread as of one moment, or `None`. Ignores the owner."""

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        """Take or renew the thread's lease for `holder` until `now + ttl`, and return it.

        If another holder has the lease, returns that lease unchanged. `ttl=0` releases the lease, or
        does nothing if `holder` does not have it. When the holder changes or an expired lease is taken,
        the new token is greater than all earlier tokens of the store. Raises PermissionDeniedError for
        another user's thread.

        The thread need not exist, and is not created. A lease belongs to the space of the thread's
        owner; before the thread exists, to that of the owner it would have if `user` created it (nobody
        for `ANY_USER`). Deleting the thread ends the lease in its owner's space. Changing the thread's
        owner, or creating it for another owner, ends all its leases.
        """

    async def stats(self, user: User) -> StorageStats:
        """Return totals of the user's threads, or of all threads for `ANY_USER`."""

    async def journal(self, query: JournalQuery) -> JournalPage:
        """Return the oldest journal entries. Between threads, the order is approximate.

        With `query.receipts`, also returns the thread's receipts, for a copy of the thread.
        """

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        """Remove entries from the journal. Missing entries are ignored."""

    async def feed(self, query: FeedQuery) -> FeedPage:
        """Return entries of the store's feed, in an order that keeps each thread's.

        Every commit that is acknowledged after a query has returned the current position is in the feed after
        that position, unless it changed nothing that watchers see (`storage.feed.parts_of`). Repeated and
        refused commits are not in the feed. Entries of all users are included: the caller must filter them.
        """

    async def own(self, name: Own) -> bytes | None:
        """Return Clew's own record `name`, or `None`."""

    async def put_own(self, name: Own, data: bytes, *, instead_of: bytes | None) -> bool:
        """Compare and swap: store `data` if the record is `instead_of` (`None`: missing).

        Returns whether the record is `data` afterwards. Durable and idempotent. Of concurrent calls, one
        wins.
        """

    async def reclaim(self) -> None:
        """Return unused space to the system, where the store can."""

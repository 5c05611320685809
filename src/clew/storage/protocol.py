"""The contract of a storage: fourteen operations, and what each promises.

Whoever writes a storage implements `Storage` and subclasses `clew.testing.StorageContract` (or `DurableStorageContract`);
the suite is the definition, this page is its summary.

**Commits.** `apply` takes commits of any threads and gives one outcome for each, in order: an `Applied`, or the
`ClewError` that kept this one from being applied. Each is atomic by itself; one that fails leaves no trace and does not
touch the others. A failure of the storage as a whole is raised instead. For one commit:

1. It is decided by the rules in `clew.storage.rules`, a table of what forbids a commit, in the order of the checks: owner,
   receipt, basis, chain, numbers, fence, fork, rows, parent, new owner. The first rule that is broken gives the error.
2. *Receipts.* A commit that the thread has a receipt of is not applied again; the outcome says `repeated`. The receipts of
   the thread's last 256 commits are kept, and that of a commit which made a checkpoint of its own id as long as that checkpoint
   is there. Older ones are pruned: their number is bounded, whatever is written. A commit with `receipts` makes those known
   too, as its own. A repeated outcome does not tell what was removed.
3. *Owner.* A new thread belongs to the commit's user (nobody, if that is `None` or `ANY_USER`).
4. *Remove*, then everything else is added. Taking out checkpoints or all state, and naming values to take out, counts the
   epoch up.
5. *Checkpoint.* It gets the thread's next sequence number. See `NewCheckpoint` for parent and conflict. An id that exists in
   the namespace is replaced in its place: same sequence, same parent, no conflict; its time and that of messages which come
   with it are the commit's.
6. *Attachments* replace those with the same key, or with `keep_attachments` leave them as they are.
7. *Messages* with a known id are replaced in their place; others go to the end.
8. *Thread* replaces the describing fields.

A commit that only removes, or only brings receipts, does not create a thread. All times come from the commit; the order
never does. One commit counts the thread's sequence up by one, and its epoch by at most one.

**Journal.** A commit with `journal` leaves that in the store's journal in the same moment, until it is trimmed: the way to take
commits to another store, in the order of each thread. Such a commit, and one with `after`, becomes the last one in the
thread's chain; any other commit ends the chain (what comes next is after `None`). Deleting a thread ends it too, but takes
nothing out of the journal. A commit that is refused or repeated leaves nothing; one that finds no thread to remove from leaves
its entry. A thread that a commit creates, by a fork too, has the incarnation and epoch that `begin` says, if it says so.

**Forks.** The new thread belongs to the commit's user, or to the source's owner if that is `ANY_USER`. Its copy of the
checkpoint is number 1, and so are the messages that it brings: those added to the source up to the checkpoint. Shared values
don't count for the fork's size. What a fork needs is `fixed_before` in its source, until the fork is deleted or cleared.

**Owners.** A thread that nobody owns can be read and written by everybody who knows its id, and is listed under `None` only.

**Queries** see everything acknowledged before they began, each one unchanging view, and answer with nothing for a thread of
another user. An unknown `before` finds nothing; with `before_sequence`, both bounds hold.
In `stats`, the bytes of a day are bodies, metadata and messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from clew.errors import ClewError, ConflictError
from clew.model.commit import Applied, Commit
from clew.model.config import User
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    JournalPage,
    JournalQuery,
    MessageQuery,
    StorageStats,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, JournalEntry, LeaseRecord, MessageRecord, ThreadRecord

LONGEST_TTL: Final = 366 * 86_400
"""A lease ends by itself after so many seconds at most."""
RECEIPTS_KEPT: Final = 256
"""How many of a thread's last commits are recognised at least if they come again."""
RECEIPTS_PRUNED: Final = 64
"""How many more there may be before they are pruned."""


RESERVED: Final = "clew:replication"
"""The thread and the user that replication keeps for itself. Every storage takes it as a user, whatever others it takes."""


class StaleBasisError(ConflictError):
    """The writer's view of the value log is out of date; it refreshes and encodes again. Never reaches users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a storage is, where storages may differ.

    `durable`: what is acknowledged survives the process. `suspends`: its coroutines wait on an event loop, so sync
    callers need one (a storage that doesn't suspend runs in the calling thread). `shares_forks`: a fork takes no
    copy of the values. `journals`: it keeps a journal (a storage that makes copies of a store itself doesn't).
    """

    name: str
    durable: bool
    suspends: bool
    shares_forks: bool
    journals: bool = True


class Storage(Protocol):
    """A place that keeps threads. See the module's own text for what the operations promise."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def setup(self) -> None:
        """Make the store ready, creating or migrating it. Idempotent; safe in many processes at once."""

    async def close(self) -> None:
        """Finish what was accepted and let go of what this storage opened. Closing twice is fine."""

    async def ping(self) -> None:
        """Answer, or raise StorageError."""

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        """Apply each commit atomically and durably; the outcomes, in order."""

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        """The checkpoints that `query` asks for, newest first, with as much detail as it wants."""

    async def values(self, query: ValueQuery) -> ValuePage:
        """Rows of a thread's value log, in order."""

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        """Attachments, ordered by namespace, checkpoint and key."""

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        """Messages of a thread, in their order."""

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        """Threads of a user, the last active first."""

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        """Take or renew the thread's lease for `holder` until `now + ttl` and return it; or return the lease of the other
        holder that still has it. `ttl=0` gives it back (nothing, if `holder` does not have it). Each time the holder changes
        or an expired lease is taken, the token is greater than any the store gave before. The thread need not exist, and is
        not created; of another user's thread: PermissionDeniedError. Deleting the thread ends its lease."""

    async def stats(self, user: User) -> StorageStats:
        """Totals of the user's threads, or of all with `ANY_USER`."""

    async def journal(self, query: JournalQuery) -> JournalPage:
        """The oldest entries of the journal: those of a thread in their order, others as nearly as the store can tell.
        With `query.receipts`, also the thread's receipts, as a copy of the thread needs them."""

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        """Take entries out of the journal. One that is not there any more is none."""

    async def reclaim(self) -> None:
        """Give space that is no longer needed back to the system, where the store can."""

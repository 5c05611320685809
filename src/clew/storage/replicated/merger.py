"""Merge of two histories: adds the secondary's commits to a primary that has its own.

This happens after a failover, for threads that the secondary had only in part. Each commit of the
secondary is applied on top of the primary's thread, under its own id, so that it is applied once
and its writer's retries are recognised. The secondary's newest checkpoint becomes the head; what
only the primary had becomes its sibling. A deletion of the thread wins, in either store.
"""

from __future__ import annotations

import logging
from typing import Final

from msgspec.structs import replace

from clew.errors import ClewError
from clew.ids import new_id
from clew.model.commit import Applied, BackTo, Commit, Removal
from clew.model.config import ANY_USER
from clew.model.queries import AttachmentQuery, CheckpointQuery, JournalQuery, MessageQuery, ThreadQuery, ValueQuery
from clew.model.records import (
    AttachmentRecord,
    CheckpointRecord,
    JournalEntry,
    MessageRecord,
    ThreadRecord,
)
from clew.storage.content import again, read_content
from clew.storage.protocol import UNFINISHED, StaleBasisError, Storage
from clew.storage.replicated.copies import (
    MANY,
    BusyError,
    Unbroken,
    chain_end,
    copy_commits,
    copy_thread,
    pending_entries,
    write_all,
)
from clew.storage.replicated.journal_format import COPY, unpack
from clew.storage.replicated.removals import Removals
from clew.storage.replicated.renamed import RenamedThread
from clew.storage.replicated.value_log import Rebase, ValueLog
from clew.storage.rules import adds

_log = logging.getLogger("clew.replication")
_TRIES: Final = 20
_SESSION: Final = 100
"""How many entries of a thread are merged at a time, so that other threads are not held up."""
_REPEATED: Final = Applied(basis=None, repeated=True)

Entries = tuple[JournalEntry, ...]


class Merger:
    """Merges a thread's entries in the secondary's journal into the primary's thread."""

    def __init__(self, secondary: Storage, primary: Storage, *, rebase: Rebase, unbroken: Unbroken) -> None:
        self._from = secondary
        self._into = primary
        self._rebase = rebase
        self._unbroken = unbroken

    async def merge(self, thread_id: str, *, serving: bool) -> None:
        """Merge the entries of the thread. With `serving`, the secondary's order and head win,
        whichever store was first."""
        entries = await pending_entries(self._from, thread_id, _SESSION)
        removed = Removals.from_entries(await pending_entries(self._into, thread_id))
        gone = await self._deleted(thread_id, removed)
        void = [entry for entry in entries if entry.incarnation in gone]
        if void:
            _log.warning("commits dropped: thread %r was deleted in the primary", thread_id)
            await self._from.trim(void)
        if void or not entries:
            # The remaining entries may fit now.
            return
        record = await self._record(thread_id)
        if record is None or record.user_id == UNFINISHED:
            # The primary has no thread, or an incomplete copy: only its removals have to be merged.
            if not await copy_thread(self._from, self._into, thread_id, self._unbroken, over=removed):
                raise self._busy(thread_id)
            return
        if await self._belongs_to_another(record, entries[0]):
            await self._put_aside(thread_id, serving=serving)
            return
        await self._mark(record)
        touched: set[str] = set()
        log: ValueLog | None = None
        for entry in entries:
            commit = unpack(entry) if entry.data != COPY else None
            if commit is not None:
                log = await self._merge_entry(entry, commit, removed, log, entries if serving else None)
                if (name := _checkpoint_of(commit)) is not None:
                    touched.add(name[0])
        if serving:
            # Each session moves the heads of its namespaces, because the next one may touch others.
            # The entries are trimmed after that: if this process fails, another one merges again.
            for namespace in sorted(touched):
                await self._move_head(namespace, entries)
        await self._from.trim(entries)

    async def _record(self, thread_id: str) -> ThreadRecord | None:
        found = await self._into.threads(ThreadQuery(user=ANY_USER, thread_id=thread_id))
        return found[0] if found else None

    async def _deleted(self, thread_id: str, removed: Removals) -> set[str]:
        """Return the incarnations that were deleted in the primary, not yet in the secondary."""
        now = (await self._into.values(ValueQuery(thread_id=thread_id, user=ANY_USER))).basis
        return removed.threads - ({now.incarnation} if now is not None else set())

    async def _belongs_to_another(self, record: ThreadRecord, entry: JournalEntry) -> bool:
        """Return whether two users created threads of this id, one in each store."""
        theirs = await self._from.threads(ThreadQuery(user=ANY_USER, thread_id=record.thread_id))
        if not theirs or theirs[0].user_id == record.user_id:
            return False
        mine = (await self._into.values(ValueQuery(thread_id=record.thread_id, user=ANY_USER))).basis
        return mine is None or mine.incarnation != entry.incarnation

    async def _put_aside(self, thread_id: str, *, serving: bool) -> None:
        """Copy the secondary's thread to the primary under another id, or merge it into an earlier
        copy."""
        page = await self._from.journal(JournalQuery(thread_id=thread_id, limit=MANY, receipts=True))
        content = await read_content(self._from, thread_id)
        if content is not None:
            name = f"{thread_id} ({content.basis.incarnation})"
            record = await self._record(name)
            if record is not None and record.user_id != UNFINISHED:
                renamed = RenamedThread(self._from, thread_id, name)
                merger = Merger(renamed, self._into, rebase=self._rebase, unbroken=self._unbroken)
                await merger.merge(name, serving=serving)
                return
            _log.warning(
                "thread renamed: %r belongs to another user in the primary, the secondary's is now %r", thread_id, name
            )
            copied = replace(content, thread=replace(content.thread, thread_id=name))
            end = await chain_end(self._into, name)
            commits = copy_commits(copied, new_id(), end, self._unbroken, receipts=page.receipts)
            # The secondary gets the copy, too.
            commits[-1] = replace(commits[-1], journal=COPY)
            await write_all(self._into, commits)
        await self._from.trim(page.entries)

    async def _mark(self, record: ThreadRecord) -> None:
        """Add an entry to the primary's journal that has the thread copied to the secondary. It
        also ends the chain, so that no commit of the secondary fits after the merged ones."""
        marker = Commit(
            commit_id=new_id(),
            thread_id=record.thread_id,
            user=ANY_USER,
            at=record.updated_at,
            remove=Removal(),
            journal=COPY,
        )
        await self._apply(marker)

    async def _merge_entry(
        self, entry: JournalEntry, commit: Commit, removed: Removals, log: ValueLog | None, serving: Entries | None
    ) -> ValueLog | None:
        """Apply the commit on top of the primary's thread. Returns the log after it, if known.

        `serving` has all entries of the session, if their order wins.
        """
        for _ in range(_TRIES):
            if log is None:
                log = await ValueLog.read(self._into, entry.thread_id)
            made = await self._translated(entry, removed.filter_commit(commit), removed, log)
            if made is None:
                return log
            outcome = await self._apply(made)
            if outcome is not None and not outcome.repeated:
                return log.after(made, outcome)
            if outcome is not None and (serving is None or await self._corrected(made, serving) is not None):
                return None
            log = None
        raise self._busy(entry.thread_id)

    async def _unmerged(self, entries: Entries) -> int | None:
        """Return the sequence number of the primary's thread, or `None` if another process has merged `entries`.

        Since then, the primary may have served, and its order counts. A change with this number as `as_of` is
        refused if another process merges after this call.
        """
        thread_id = entries[0].thread_id
        now = await self._into.values(ValueQuery(thread_id=thread_id, user=ANY_USER, ranges=()))
        pending = await pending_entries(self._from, thread_id, 1)
        return now.sequence if pending and pending[0].position <= entries[-1].position else None

    async def _corrected(self, made: Commit, entries: Entries) -> Applied | None:
        """Correct what the primary has from an unacknowledged attempt, in the secondary's order.

        Misplaced messages move to the end, a checkpoint with another parent is replaced, and what
        has come back after its removal is removed again.
        """
        as_of = await self._unmerged(entries)
        if as_of is None:
            return _REPEATED
        removal = await self._revived(made)
        anew = replace(
            made, commit_id=new_id(), checkpoint=None, values=None, attachments=(), messages=await self._misplaced(made)
        )
        if made.checkpoint is not None:
            name = made.checkpoint.namespace, made.checkpoint.checkpoint_id
            asked = CheckpointQuery(thread_id=made.thread_id, user=ANY_USER, namespace=name[0], checkpoint_id=name[1])
            found = (await self._into.checkpoints(asked)).checkpoints
            if found and found[0].parent_id != made.checkpoint.parent:
                kept = await self._attachments(self._into, made.thread_id, name)
                removal = replace(removal, checkpoints=(*removal.checkpoints, name))
                anew = replace(
                    anew,
                    back_to=None if anew.messages else await self._said_until(made.thread_id, found[0]),
                    checkpoint=made.checkpoint,
                    values=made.values,
                    attachments=(*kept, *made.attachments),
                )
        moved = (each.message_id for each in anew.messages)
        removal = replace(removal, messages=tuple(dict.fromkeys((*removal.messages, *moved))))
        if removal == Removal():
            return _REPEATED
        return await self._apply(replace(anew, remove=replace(removal, as_of=as_of), thread=None))

    async def _revived(self, made: Commit) -> Removal:
        """Return what `made` removed and the secondary does not have, but the primary does."""
        removal = made.remove or Removal()
        messages = [
            each
            for each in removal.messages
            if await self._has_message(self._into, made.thread_id, each)
            and not await self._has_message(self._from, made.thread_id, each)
        ]
        checkpoints = [
            each
            for each in removal.checkpoints
            if await self._has_checkpoint(self._into, made.thread_id, each)
            and not await self._has_checkpoint(self._from, made.thread_id, each)
        ]
        return Removal(messages=tuple(messages), checkpoints=tuple(checkpoints))

    async def _has_message(self, store: Storage, thread_id: str, message_id: str) -> bool:
        return bool(await store.messages(MessageQuery(thread_id=thread_id, user=ANY_USER, message_id=message_id)))

    async def _has_checkpoint(self, store: Storage, thread_id: str, name: tuple[str, str]) -> bool:
        asked = CheckpointQuery(thread_id=thread_id, user=ANY_USER, namespace=name[0], checkpoint_id=name[1])
        return bool((await store.checkpoints(asked)).checkpoints)

    async def _misplaced(self, made: Commit) -> tuple[MessageRecord, ...]:
        """Return the commit's messages if they come too early in the primary's order."""
        names = {each.message_id for each in made.messages}
        if not names:
            return ()
        asked = MessageQuery(thread_id=made.thread_id, user=ANY_USER, limit=None)
        theirs = await self._from.messages(asked)
        places = {each.message_id: place for place, each in enumerate(await self._into.messages(asked))}
        moved = tuple(each for each in theirs if each.message_id in names and each.message_id in places)
        if not moved:
            return ()
        first = min(places[each.message_id] for each in moved)
        before = theirs[: theirs.index(moved[0])]
        return moved if any(places.get(each.message_id, -1) > first for each in before) else ()

    async def _apply(self, commit: Commit) -> Applied | None:
        """Apply the commit. Returns `None` if the thread has changed since it was read."""
        (outcome,) = await self._into.apply((commit,))
        if isinstance(outcome, StaleBasisError):
            return None
        if isinstance(outcome, ClewError):
            raise outcome
        return outcome

    async def _translated(self, entry: JournalEntry, commit: Commit, removed: Removals, log: ValueLog) -> Commit | None:
        """Return the commit for the primary's current thread; `None` if nothing is left of it."""
        thread_id, basis = commit.thread_id, log.basis
        removal = _portable_removal(commit.remove, same=basis is None or basis.incarnation == entry.incarnation)
        if removal is not None and removal.thread:
            # The thread that it creates has a new value log.
            log = ValueLog(None, {})
        checkpoint, values = None, None
        attachments, messages = commit.attachments, commit.messages
        name = _checkpoint_of(commit)
        if name is not None:
            page = await self._from.checkpoints(
                CheckpointQuery(
                    thread_id=thread_id, user=ANY_USER, namespace=name[0], checkpoint_id=name[1], detail="state"
                )
            )
            if page.checkpoints:
                checkpoint, values = log.rebased(page.checkpoints[0], page.rows, self._rebase)
        if commit.fork is not None and name is not None:
            # The primary has another thread of this id: the content of the fork is merged into it.
            attachments += tuple(await self._attachments(self._from, thread_id, name))
            said = await self._from.messages(MessageQuery(thread_id=thread_id, user=ANY_USER, limit=None))
            messages = (*said, *messages)
        made = replace(
            commit,
            user=commit.user if log.basis is None and adds(commit) else ANY_USER,
            basis=basis,
            remove=removal,
            fork=None,
            values=values,
            merge=(),
            checkpoint=checkpoint,
            attachments=attachments,
            messages=messages,
            # A deletion is the end of the chain. No late commit can create the thread again.
            journal=COPY if removal is not None and removal.thread else None,
        )
        if commit.fork is not None:
            made = removed.filter_commit(made)
        # A removal from a missing thread needs no commit. Without a basis, it might arrive late,
        # after another process has merged the thread, and remove what that process merged.
        changes = made.remove is not None or made.back_to is not None
        return made if adds(made) or (changes and basis is not None) else None

    async def _attachments(self, store: Storage, thread_id: str, name: tuple[str, str]) -> list[AttachmentRecord]:
        namespace, checkpoint_id = name
        return await store.attachments(
            AttachmentQuery(thread_id=thread_id, user=ANY_USER, namespace=namespace, checkpoint_id=checkpoint_id)
        )

    async def _move_head(self, namespace: str, entries: Entries) -> None:
        """Make the secondary's head the primary's too. A retry may have brought it to the primary
        earlier, before what is now its sibling."""
        thread_id = entries[0].thread_id
        for _ in range(_TRIES):
            as_of = await self._unmerged(entries)
            if as_of is None:
                return
            head = await self._head(self._from, thread_id, namespace)
            there = await self._head(self._into, thread_id, namespace)
            if head is None or there is None or head.checkpoint_id == there.checkpoint_id:
                return
            name = (namespace, head.checkpoint_id)
            asked = CheckpointQuery(thread_id=thread_id, user=ANY_USER, namespace=namespace, checkpoint_id=name[1])
            page = await self._into.checkpoints(replace(asked, detail="body"))
            if not page.checkpoints:
                return
            record = page.checkpoints[0]
            moved = Commit(
                commit_id=new_id(),
                thread_id=thread_id,
                user=ANY_USER,
                at=record.saved_at,
                basis=page.basis,
                remove=Removal(checkpoints=(name,), as_of=as_of),
                checkpoint=again(record),
                attachments=tuple(await self._attachments(self._into, thread_id, name)),
                back_to=await self._said_until(thread_id, record),
            )
            if await self._apply(moved) is not None:
                return
        raise self._busy(thread_id)

    async def _said_until(self, thread_id: str, record: CheckpointRecord) -> BackTo | None:
        """Return the place that a branch for this checkpoint of the primary begins after. The checkpoint is
        about to get a new place, and its messages keep theirs."""
        if record.namespace:
            return None
        asked = MessageQuery(thread_id=thread_id, user=ANY_USER, branch=record.checkpoint_id, limit=None)
        said = await self._into.messages(asked)
        return BackTo(said[-1].message_id if said else None)

    def _busy(self, thread_id: str) -> BusyError:
        return BusyError(f"thread {thread_id!r} has concurrent writers in the primary")

    async def _head(self, store: Storage, thread_id: str, namespace: str) -> CheckpointRecord | None:
        page = await store.checkpoints(CheckpointQuery(thread_id=thread_id, user=ANY_USER, namespace=namespace))
        return page.checkpoints[0] if page.checkpoints else None


def _checkpoint_of(commit: Commit) -> tuple[str, str] | None:
    if commit.checkpoint is not None:
        return commit.checkpoint.namespace, commit.checkpoint.checkpoint_id
    return (commit.fork.namespace, commit.fork.as_checkpoint_id) if commit.fork is not None else None


def _portable_removal(removal: Removal | None, *, same: bool) -> Removal | None:
    """Return the part of `removal` that applies to the other history, where value numbers differ
    and a thread of another incarnation is another thread."""
    if removal is None:
        return None
    kept = replace(removal, thread=removal.thread and same, values=(), as_of=None)
    return kept if kept != Removal() else None

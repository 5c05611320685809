"""Taking what the secondary acknowledged over into a primary that has commits of its own: both histories stay.

This happens after a failover for threads of which the secondary had not got everything. Each commit of the secondary goes on
top of what the primary has, under its own id, so that it is taken over once and its writer's retries are recognised. The
secondary's newest checkpoint becomes the head, what only the primary had becomes its sibling. Deleting the thread wins, on
either side.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from msgspec.structs import replace

from clew.errors import ClewError, CorruptRecordError
from clew.ids import new_id
from clew.model.commit import Applied, Commit, NewCheckpoint, Removal
from clew.model.config import ANY_USER
from clew.model.queries import AttachmentQuery, CheckpointQuery, MessageQuery, ThreadQuery, ValueQuery
from clew.model.records import (
    AttachmentRecord,
    Basis,
    CheckpointRecord,
    JournalEntry,
    MessageRecord,
    Range,
    ThreadRecord,
    ValueRow,
)
from clew.storage.copying import again, read_content
from clew.storage.protocol import RESERVED, StaleBasisError, Storage
from clew.storage.replicated.copies import BusyError, Unbroken, copy_commits, copy_thread, waiting, write_all
from clew.storage.replicated.packing import COPY, unpack
from clew.storage.replicated.removed import Removed
from clew.storage.rules import adds

_log = logging.getLogger("clew.replication")
_TRIES: Final = 20
_SESSION: Final = 100
"""How many entries of a thread are merged in one go: other threads, and the health check, are to have their turn."""
_REPEATED: Final = Applied(basis=None, repeated=True)
_DIGEST: Final = 16
_NO_DIGEST: Final = bytes(_DIGEST)


class Rebased(Protocol):
    """A body for another value log; `row` has the values that the log lacks."""

    @property
    def body(self) -> bytes: ...
    @property
    def covers(self) -> tuple[Range, ...]: ...
    @property
    def row(self) -> ValueRow | None: ...


Rebase = Callable[[bytes, Sequence[ValueRow], Mapping[bytes, int], int], Rebased]
"""`clew.codec.rebase.rebase`: what bodies and values mean is the codec's business."""


@dataclass(frozen=True, slots=True)
class _Log:
    """What the primary's thread has: `known` are its values, by digest."""

    basis: Basis | None
    known: dict[bytes, int]

    def with_values(self, made: Commit, outcome: Applied) -> _Log | None:
        """The same after `made`; `None` if that has to be read."""
        if outcome.repeated or made.remove is not None or outcome.basis is None:
            return None
        if made.values is not None:
            self.known.update(_digests(made.values))
        return _Log(outcome.basis, self.known)


class Merging:
    """Takes a thread's entries from the secondary into the primary's own history of the thread."""

    def __init__(self, secondary: Storage, primary: Storage, *, rebase: Rebase, unbroken: Unbroken) -> None:
        self._from = secondary
        self._into = primary
        self._rebase = rebase
        self._unbroken = unbroken

    async def thread(self, thread_id: str, *, serving: bool) -> None:
        """Take over all entries of the thread. `serving`: the secondary's order and head are to be the primary's, whoever came
        first."""
        entries = await waiting(self._from, thread_id, _SESSION + 1)
        removed = Removed.by(await waiting(self._into, thread_id))
        gone = await self._deleted(thread_id, removed)
        void = [entry for entry in entries if entry.incarnation in gone]
        if void:
            _log.warning("thread %r was deleted in the primary: what the secondary wrote to it is void", thread_id)
            await self._from.trim(void)
        if void or not entries:
            # What is left may fit now.
            return
        record = await self._record(thread_id)
        if record is None or record.user_id == RESERVED:
            # Not there, or half copied: nothing of the primary's own is lost by copying, but for what it removed.
            if not await copy_thread(self._from, self._into, thread_id, self._unbroken, over=removed):
                raise BusyError(f"thread {thread_id!r} is written to in the primary")
            return
        if await self._belongs_to_another(record, entries[0]):
            entries = await waiting(self._from, thread_id)
            await self._put_aside(thread_id)
            await self._from.trim(entries)
            return
        await self._mark(record)
        touched: set[str] = set()
        log: _Log | None = None
        for entry in entries[:_SESSION]:
            commit = unpack(entry) if entry.data != COPY else None
            if commit is not None:
                log = await self._merge(entry, removed.left_of_commit(commit), log, serving=serving)
                if commit.checkpoint is not None:
                    touched.add(commit.checkpoint.namespace)
        await self._from.trim(entries[:_SESSION])
        if serving and len(entries) <= _SESSION:
            for namespace in touched:
                await self._seat(thread_id, namespace)

    async def _record(self, thread_id: str) -> ThreadRecord | None:
        found = await self._into.threads(ThreadQuery(user=ANY_USER, thread_id=thread_id))
        return found[0] if found else None

    async def _deleted(self, thread_id: str, removed: Removed) -> set[str]:
        """The incarnations of the thread that were deleted in the primary, and not yet in the secondary."""
        now = (await self._into.values(ValueQuery(thread_id=thread_id, user=ANY_USER))).basis
        return removed.threads - ({now.incarnation} if now is not None else set())

    async def _belongs_to_another(self, record: ThreadRecord, entry: JournalEntry) -> bool:
        """Whether two users began threads of this name, one in each store: they must not see each other's."""
        theirs = await self._from.threads(ThreadQuery(user=ANY_USER, thread_id=record.thread_id))
        if not theirs or theirs[0].user_id == record.user_id:
            return False
        mine = (await self._into.values(ValueQuery(thread_id=record.thread_id, user=ANY_USER))).basis
        return mine is None or mine.incarnation != entry.incarnation

    async def _put_aside(self, thread_id: str) -> None:
        """Keep the secondary's thread in the primary under another name."""
        content = await read_content(self._from, thread_id)
        if content is None:
            return
        name = f"{thread_id} ({content.basis.incarnation})"
        _log.warning("thread %r belongs to another user in the primary: the secondary's is %r now", thread_id, name)
        thread = replace(content.thread, thread_id=name)
        if await self._record(name) is None:
            await write_all(self._into, copy_commits(replace(content, thread=thread), new_id(), None, self._unbroken))
        await self._mark(thread)

    async def _mark(self, record: ThreadRecord) -> None:
        """Say in the primary's journal that the thread is to be copied to the secondary. What is merged then is not in the
        chain, so that nothing of the secondary's follows on it unread."""
        marker = Commit(
            commit_id=new_id(),
            thread_id=record.thread_id,
            user=ANY_USER,
            at=record.updated_at,
            remove=Removal(),
            journal=COPY,
        )
        await self._apply(marker)

    async def _merge(self, entry: JournalEntry, commit: Commit, log: _Log | None, *, serving: bool) -> _Log | None:
        """Apply the commit on top of what the primary has; what is known of the primary's values then, if that is known."""
        for _ in range(_TRIES):
            if log is None:
                log = await self._log(entry.thread_id)
            made = await self._translated(entry, commit, log)
            if made is None:
                return log
            outcome = await self._apply(made)
            if outcome is not None and not outcome.repeated:
                return log.with_values(made, outcome)
            if outcome is not None and (not serving or await self._corrected(made) is not None):
                return None
            log = None
        raise BusyError(f"thread {entry.thread_id!r} is written to in the primary")

    async def _corrected(self, made: Commit) -> Applied | None:
        """Put right what the primary had already, of a try that was never acknowledged: the secondary's order counts. Messages
        that stand before what they came after go to the end, a checkpoint with another parent is replaced, and what was removed
        after it had come back is removed again."""
        removal = await self._back_again(made)
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
                    checkpoint=made.checkpoint,
                    values=made.values,
                    attachments=(*kept, *made.attachments),
                )
        moved = (each.message_id for each in anew.messages)
        removal = replace(removal, messages=tuple(dict.fromkeys((*removal.messages, *moved))))
        if removal == Removal():
            return _REPEATED
        return await self._apply(replace(anew, remove=removal, thread=None))

    async def _back_again(self, made: Commit) -> Removal:
        """What `made` removed and the primary has all the same, though the secondary does not."""
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
        """The commit's messages, if in the primary they stand before one that they come after in the secondary."""
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

    async def _log(self, thread_id: str) -> _Log:
        page = await self._into.values(ValueQuery(thread_id=thread_id, user=ANY_USER))
        known: dict[bytes, int] = {}
        for row in page.rows:
            known.update(_digests(row))
        return _Log(page.basis, known)

    async def _apply(self, commit: Commit) -> Applied | None:
        """What came of the commit; `None` if the thread is not what it was when it was read."""
        (outcome,) = await self._into.apply((commit,))
        if isinstance(outcome, StaleBasisError):
            return None
        if isinstance(outcome, ClewError):
            raise outcome
        return outcome

    async def _translated(self, entry: JournalEntry, commit: Commit, log: _Log) -> Commit | None:
        """The commit for the primary's thread as it is now; `None` if nothing of it is to be taken over."""
        thread_id, basis = commit.thread_id, log.basis
        removal = _lasting(commit.remove, same=basis is None or basis.incarnation == entry.incarnation)
        if removal is not None and removal.thread:
            # What it makes new has a value log of its own.
            log = _Log(None, {})
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
                checkpoint, values = self._rebased(page.checkpoints[0], page.rows, log)
        if commit.fork is not None and name is not None:
            # The primary has another thread of this name: what the fork brought is merged into it.
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
        )
        # A removal from a thread that is not there needs no commit. Without a basis, one that comes late (its process was
        # stopped, and another has merged the thread since) would remove what is there by then.
        return made if adds(made) or (made.remove is not None and basis is not None) else None

    def _rebased(
        self, record: CheckpointRecord, rows: Sequence[ValueRow], log: _Log
    ) -> tuple[NewCheckpoint, ValueRow | None]:
        try:
            moved = self._rebase(record.body, rows, log.known, log.basis.next_value if log.basis is not None else 0)
        except CorruptRecordError as error:
            # It is damaged where it is, and stays so: the others go on.
            _log.warning("checkpoint %r is taken over damaged: %s", record.checkpoint_id, error)
            return replace(again(record), covers=()), None
        return replace(again(record), body=moved.body, covers=moved.covers), moved.row

    async def _attachments(self, store: Storage, thread_id: str, name: tuple[str, str]) -> list[AttachmentRecord]:
        namespace, checkpoint_id = name
        return await store.attachments(
            AttachmentQuery(thread_id=thread_id, user=ANY_USER, namespace=namespace, checkpoint_id=checkpoint_id)
        )

    async def _seat(self, thread_id: str, namespace: str) -> None:
        """Make the secondary's head the primary's too, if a retry had brought it there before what is its sibling now."""
        for _ in range(_TRIES):
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
            again_at_the_end = Commit(
                commit_id=new_id(),
                thread_id=thread_id,
                user=ANY_USER,
                at=record.created_at,
                basis=page.basis,
                remove=Removal(checkpoints=(name,)),
                checkpoint=again(record),
                attachments=tuple(await self._attachments(self._into, thread_id, name)),
            )
            if await self._apply(again_at_the_end) is not None:
                return
        raise BusyError(f"thread {thread_id!r} is written to in the primary")

    async def _head(self, store: Storage, thread_id: str, namespace: str) -> CheckpointRecord | None:
        page = await store.checkpoints(CheckpointQuery(thread_id=thread_id, user=ANY_USER, namespace=namespace))
        return page.checkpoints[0] if page.checkpoints else None


def _digests(row: ValueRow) -> dict[bytes, int]:
    """The numbers of a row's values by digest, without those whose content was taken out."""
    cut = ((row.digests[_DIGEST * at : _DIGEST * (at + 1)], row.first + at) for at in range(row.count))
    return {digest: number for digest, number in cut if digest != _NO_DIGEST}


def _checkpoint_of(commit: Commit) -> tuple[str, str] | None:
    if commit.checkpoint is not None:
        return commit.checkpoint.namespace, commit.checkpoint.checkpoint_id
    return (commit.fork.namespace, commit.fork.as_checkpoint_id) if commit.fork is not None else None


def _lasting(removal: Removal | None, *, same: bool) -> Removal | None:
    """What `removal` means for the other history: values are not the same there, and a thread of another incarnation is another
    thread."""
    if removal is None:
        return None
    kept = replace(removal, thread=removal.thread and same, values=(), as_of=None)
    return kept if kept != Removal() else None

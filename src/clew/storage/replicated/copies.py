"""Making a thread of one store exactly what it is in the other, so that the commits that follow there fit here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from msgspec.structs import replace

from clew.errors import ClewError
from clew.ids import new_id
from clew.model.commit import After, Begin, Commit, Removal
from clew.model.config import ANY_USER
from clew.model.queries import JournalQuery, ThreadQuery
from clew.model.records import Basis, JournalEntry, Range, ValueRow
from clew.storage.copying import Content, fields_of, parts, read_content
from clew.storage.packing import union
from clew.storage.protocol import RESERVED, StaleBasisError, Storage
from clew.storage.replicated.packing import COPY
from clew.storage.replicated.removed import Removed
from clew.storage.replicated.roles import LONG_AGO

Unbroken = Callable[[Sequence[ValueRow], int], Iterable[ValueRow]]
"""Makes rows lie side by side up to a number (`clew.codec.rows.unbroken`): what rows hold is the codec's business."""
TRIES: Final = 5
MANY: Final = 10_000
"""More entries than are ever read of one thread at once."""
_BATCH: Final = 50
"""How many commits of a copy go to the store in one call."""
_RECEIPTS: Final = 128
"""How many receipts of each kind a copy brings along: together, as many as a store keeps."""


class BusyError(Exception):
    """The thread is written to all the time, or somebody else is at it: later. Never leaves replication."""


async def chain_end(store: Storage, thread_id: str) -> str | None:
    """The last commit in the thread's chain; `None` if it has none, or is not there. Changes nothing."""
    probe = Commit(
        commit_id=new_id(), thread_id=thread_id, user=ANY_USER, at=LONG_AGO, remove=Removal(), after=After(new_id())
    )
    (outcome,) = await store.apply((probe,))
    if not isinstance(outcome, StaleBasisError):
        raise outcome if isinstance(outcome, ClewError) else AssertionError(f"{thread_id!r}: a probe was applied")
    actual: str | None = outcome.facts["actual"]
    return actual


async def waiting(store: Storage, thread_id: str, limit: int = MANY) -> tuple[JournalEntry, ...]:
    """The entries of the thread that its store still has to hand over, the oldest first."""
    return (await store.journal(JournalQuery(thread_id=thread_id, limit=limit))).entries


async def copy_thread(
    source: Storage, target: Storage, thread_id: str, unbroken: Unbroken, *, over: Removed | None = None
) -> bool:
    """Make `target`'s thread what `source`'s is, and trim the journal entries of `source` that this hands over.

    The copy has the chain and the receipts of the source, so that commits which follow fit, and commits which come again are
    recognised. Nothing that only `target` has is overwritten: returns `False` if it has entries of its own to hand over first.
    `over` is what such entries removed, if they have been read: the copy lacks it, and is to be copied back in turn.

    A concurrent writer on either side wins: BusyError, and the next try starts again. Until the copy is whole, it
    belongs to the reserved user.
    """
    for _ in range(TRIES):
        # In this order: what `target` has handed over by now is in what is read below; what it gets later moves its chain.
        found = await chain_end(target, thread_id)
        own = await waiting(target, thread_id)
        if own and (over is None or own[-1].position > over.position):
            return False
        end = await chain_end(source, thread_id)
        page = await source.journal(JournalQuery(thread_id=thread_id, limit=MANY, receipts=True))
        content = await read_content(source, thread_id)
        if await chain_end(source, thread_id) != end:
            continue
        left = over.left_of(content) if over is not None and content is not None else content
        if content is None:
            await _delete(target, thread_id, found)
        elif end is None:
            # Only a chain shows whether something was written while it was read.
            await _begin_chain(source, content)
            continue
        elif left is not None:
            commits = copy_commits(left, end, found, unbroken, receipts=page.receipts)
            if left != content:
                commits[-1] = replace(commits[-1], journal=COPY)
            await write_all(target, commits)
        else:
            # Deleted here: the entry that says so stays, for the source to follow.
            own = ()
        await source.trim(page.entries)
        if own:
            await target.trim(own)
        return True
    raise BusyError(f"thread {thread_id!r} was written to each time it was read")


async def _begin_chain(store: Storage, content: Content) -> None:
    """Give a thread that was never replicated a chain, without changing what is in it."""
    commit = Commit(
        commit_id=new_id(),
        thread_id=content.thread.thread_id,
        user=ANY_USER,
        at=content.thread.updated_at,
        remove=Removal(),
        after=After(None),
        journal=COPY,
    )
    (outcome,) = await store.apply((commit,))
    if isinstance(outcome, ClewError) and not isinstance(outcome, StaleBasisError):
        raise outcome


async def _delete(store: Storage, thread_id: str, found: str | None) -> None:
    if not await store.threads(ThreadQuery(user=ANY_USER, thread_id=thread_id)):
        return
    commit = Commit(
        commit_id=new_id(),
        thread_id=thread_id,
        user=ANY_USER,
        at=LONG_AGO,
        remove=Removal(thread=True),
        after=After(found),
    )
    await write_all(store, [commit])


async def write_all(store: Storage, commits: Sequence[Commit]) -> None:
    """Apply all commits of a copy. Raises BusyError if somebody else is at the thread."""
    for at in range(0, len(commits), _BATCH):
        for outcome in await store.apply(commits[at : at + _BATCH]):
            if isinstance(outcome, StaleBasisError):
                raise BusyError(str(outcome))
            if isinstance(outcome, ClewError):
                raise outcome


def copy_commits(
    content: Content, end: str, found: str | None, unbroken: Unbroken, *, receipts: Iterable[str] = ()
) -> list[Commit]:
    """The commits that put the thread of `content` in the place of the one whose chain ends with `found`.

    The first removes the old thread. The last has the id `end`, like the source's last commit. All others have ids of
    their own, so that none of them fits after a commit that came from elsewhere: one refused step keeps out all that follow.

    The last commit brings the receipts of the source's last commits, with and without a checkpoint, so a retry of one is
    recognised. It brings that of the first step too, in case that arrives again.
    """
    commits = list(_chained(content, end, found, unbroken))
    made = [each.checkpoint_id for each in content.checkpoints]
    known = (*list(receipts)[-_RECEIPTS:], *made[-_RECEIPTS:], commits[0].commit_id)
    commits[-1] = replace(commits[-1], receipts=tuple(each for each in dict.fromkeys(known) if each != end))
    return commits


def _chained(content: Content, end: str, found: str | None, unbroken: Unbroken) -> Iterator[Commit]:
    incarnation, epoch = content.basis.incarnation, content.basis.epoch
    gaps = _gaps(content) if epoch else ()
    epoch -= bool(gaps)
    begin: Begin | None = Begin(incarnation=incarnation, epoch=epoch)
    basis: Basis | None = None
    steps = _steps(content, gaps, end, unbroken)
    for number, (at, part) in enumerate(steps):
        commit_id = end if number == len(steps) - 1 else new_id()
        yield Commit(
            commit_id=commit_id,
            thread_id=content.thread.thread_id,
            user=ANY_USER,
            at=at,
            basis=basis,
            begin=begin,
            after=After(found),
            **part,
        )
        removed = part.get("remove")
        epoch += bool(removed and removed.values)
        found, begin, basis = commit_id, None, Basis(incarnation=incarnation, epoch=epoch, next_value=0)


def _steps(
    content: Content, gaps: tuple[Range, ...], end: str, unbroken: Unbroken
) -> list[tuple[datetime, dict[str, Any]]]:
    thread = content.thread
    # A row without values at the end, so that a gap before it is filled too.
    mark = ValueRow(first=content.basis.next_value, count=0, digests=b"", data=b"")
    rows = [row for row in unbroken([*content.rows, mark], mark.first) if row.count]
    steps = list(parts(content, rows))
    if gaps:
        # What filled the gaps goes again: it only took the numbers.
        steps.insert(1 + len(rows), (thread.created_at, {"remove": Removal(values=gaps)}))
    described = fields_of(thread)
    steps[0][1].update(remove=Removal(thread=True), thread=replace(described, user_id=RESERVED))
    at, last = steps[-1]
    made = last.get("checkpoint")
    if made is not None and made.checkpoint_id == end and at == thread.updated_at:
        last["thread"] = described
    else:
        steps.append((thread.updated_at, {"thread": described}))
    return steps


def _gaps(content: Content) -> tuple[Range, ...]:
    """The numbers of values that were taken out."""
    held = [(0, 0), *union((row.first, row.end) for row in content.rows), (content.basis.next_value,) * 2]
    return tuple((end, first) for (_, end), (first, _) in pairwise(held) if end < first)

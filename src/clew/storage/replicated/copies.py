"""Copies of threads: replaces one store's thread with the other's, so that later commits fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from msgspec.structs import replace

from clew.errors import ClewError, CorruptRecordError, TransientStorageError
from clew.ids import new_id
from clew.model.commit import After, Begin, Commit, Removal
from clew.model.config import ANY_USER
from clew.model.queries import Content, JournalQuery, ThreadQuery
from clew.model.records import Basis, JournalEntry, Range, ThreadRecord, ValueRow
from clew.storage.content import fields_of, parts, read_content, same_content, same_log
from clew.storage.conversions import union
from clew.storage.protocol import UNFINISHED, StaleBasisError, Storage
from clew.storage.replicated.journal_format import COPY, pack
from clew.storage.replicated.removals import Removals

Unbroken = Callable[[Content], Iterable[ValueRow]]
"""Returns a thread's rows for a copy, without gaps. Raises CorruptRecordError if a record of the
thread is damaged (`clew.codec.rows.unbroken`)."""
TRIES: Final = 5
MANY: Final = 10_000
"""A limit that no thread's number of entries reaches."""
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of commits that don't count as activity of their thread."""
_BATCH: Final = 50
"""How many commits of a copy go to the store in one call."""
_RECEIPTS: Final = 128
"""How many receipts of each kind a copy brings: together as many as a store keeps."""


class BusyError(Exception):
    """The thread has concurrent writers or is being copied: try later. Internal to replication."""


async def chain_end(store: Storage, thread_id: str) -> str | None:
    """Return the last commit in the thread's chain, if there is one. Changes nothing."""
    probe = Commit(
        commit_id=new_id(), thread_id=thread_id, user=ANY_USER, at=_LONG_AGO, remove=Removal(), after=After(new_id())
    )
    (outcome,) = await store.apply((probe,))
    if not isinstance(outcome, StaleBasisError):
        raise outcome if isinstance(outcome, ClewError) else AssertionError(f"{thread_id!r}: a probe was applied")
    actual: str | None = outcome.facts["actual"]
    return actual


async def pending_entries(store: Storage, thread_id: str, limit: int = MANY) -> tuple[JournalEntry, ...]:
    """Return the thread's entries in the store's journal, oldest first."""
    return (await store.journal(JournalQuery(thread_id=thread_id, limit=limit))).entries


async def copy_thread(
    source: Storage, target: Storage, thread_id: str, unbroken: Unbroken, *, over: Removals | None = None
) -> bool:
    """Replace `target`'s thread with `source`'s, and trim the thread's entries in `source`'s journal.

    The copy has the source's chain and receipts, so that the next commits fit and retries are
    recognised. Returns `False`, and changes nothing, if `target` has entries of its own, which must
    be shipped first. `over` has the removals in such entries, if they have been read. The copy omits what
    they removed, and is copied back later.

    Raises BusyError if there are concurrent writers in either store, and CorruptRecordError, with
    `target` unchanged, if a record in `source` is damaged. The copy belongs to the
    reserved user until it is complete.
    """
    for _ in range(TRIES):
        # The order matters: what `target` has shipped by now is in the content that is read below,
        # and what it gets later changes its chain.
        found = await chain_end(target, thread_id)
        own = await pending_entries(target, thread_id)
        if own and (over is None or own[-1].position > over.position):
            return False
        end = await chain_end(source, thread_id)
        page = await source.journal(JournalQuery(thread_id=thread_id, limit=MANY, receipts=True))
        content = await read_content(source, thread_id)
        if await chain_end(source, thread_id) != end:
            continue
        left = over.filter_content(content) if over is not None and content is not None else content
        if end is None:
            # Only a chain shows whether the thread was written to while it was read. If there is no
            # thread, only a chain stops late commits that would create it.
            await _begin_chain(source, thread_id, content)
            continue
        if content is None:
            await _delete(target, thread_id, end, found)
        elif found == end and not own and await _is_same(content, target):
            # Another process has copied it. To copy again would hide the thread in a store that may serve by now,
            # and for good if this process ended before the last step.
            pass
        elif left is not None:
            commits = copy_commits(left, end, found, unbroken, receipts=page.receipts)
            if left != content:
                commits[-1] = replace(commits[-1], journal=COPY)
            await write_all(target, commits)
        else:
            # The thread was deleted in `target`: the entry for that stays, and is shipped to
            # `source`.
            own = ()
        await source.trim(page.entries)
        if own:
            await target.trim(own)
        return True
    raise BusyError(f"thread {thread_id!r} has concurrent writers: it changed during {TRIES} reads in a row")


async def _is_same(content: Content, store: Storage) -> bool:
    try:
        there = await read_content(store, content.thread.thread_id)
    except CorruptRecordError:
        return False
    return there is not None and same_content(content, there) and same_log(content, there)


async def _begin_chain(store: Storage, thread_id: str, content: Content | None) -> None:
    """Give a thread that was never replicated a chain, without changing its content."""
    commit = Commit(
        commit_id=new_id(),
        thread_id=thread_id,
        user=ANY_USER,
        at=_LONG_AGO if content is None else content.thread.updated_at,
        remove=Removal(),
        after=After(None),
        journal=COPY,
    )
    (outcome,) = await store.apply((commit,))
    if isinstance(outcome, ClewError) and not isinstance(outcome, StaleBasisError):
        raise outcome


def end_of_chain(thread_id: str, at: datetime, *, term: int) -> Commit:
    """Return a commit to the serving secondary that changes nothing and ends the thread's chain.

    After it, no commit of the primary that the secondary lacks fits there, and the secondary's
    thread is copied over the primary's when that is back.
    """
    commit = Commit(commit_id=new_id(), thread_id=thread_id, user=ANY_USER, at=at, remove=Removal())
    return replace(commit, journal=pack(commit, term=term, lone=True))


async def _delete(store: Storage, thread_id: str, end: str, found: str | None) -> None:
    """Delete a thread whose chain ends with `found`. Its chain then ends with `end`, as in the other store."""
    if found == end and not await store.threads(ThreadQuery(user=ANY_USER, thread_id=thread_id)):
        return
    # A new id, because the store may know `end` as a commit that did not delete the thread.
    gone = Commit(
        commit_id=new_id(),
        thread_id=thread_id,
        user=ANY_USER,
        at=_LONG_AGO,
        remove=Removal(thread=True),
        after=After(found),
    )
    await write_all(store, [gone, replace(gone, commit_id=end, remove=Removal(), after=After(gone.commit_id))])


async def write_all(store: Storage, commits: Sequence[Commit]) -> None:
    """Apply all commits of a copy. Raises BusyError if the thread has concurrent writers."""
    for at in range(0, len(commits), _BATCH):
        for outcome in await store.apply(commits[at : at + _BATCH]):
            if isinstance(outcome, StaleBasisError):
                # A writer, or another process that copies the thread too.
                raise BusyError(f"thread {commits[0].thread_id!r} was written to while it was copied")
            if isinstance(outcome, ClewError):
                raise outcome


def copy_commits(
    content: Content, end: str, found: str | None, unbroken: Unbroken, *, receipts: Iterable[str] = ()
) -> list[Commit]:
    """Return the commits that replace a thread, whose chain ends with `found`, with `content`.

    The first one removes the old thread. The last one has the id `end` of the source's last commit.
    The others have new ids, so that none of them fits after a concurrent commit: if one is refused,
    so are all that follow.

    The last commit brings the receipts of the source's last commits, with and without a checkpoint,
    so that retries are recognised, and the receipt of the first step, which may arrive twice.
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
    # An empty row at the end, so that a gap before it is filled too.
    mark = ValueRow(first=content.basis.next_value, count=0, digests=b"", data=b"")
    rows = [row for row in unbroken(replace(content, rows=(*content.rows, mark))) if row.count]
    described = fields_of(thread)
    begun: dict[str, Any] = {"remove": Removal(thread=True), "thread": replace(described, user_id=UNFINISHED)}
    steps = [(thread.created_at, begun), *parts(content, rows)]
    if gaps:
        # Remove the values that filled the gaps: they only reserved the numbers.
        steps.insert(1 + len(rows), (thread.created_at, {"remove": Removal(values=gaps)}))
    at, last = steps[-1]
    made = last.get("checkpoint")
    if made is not None and made.checkpoint_id == end and at == thread.updated_at:
        last["thread"] = described
    else:
        steps.append((thread.updated_at, {"thread": described}))
    return steps


def _gaps(content: Content) -> tuple[Range, ...]:
    """Return the numbers of values that were removed."""
    held = [(0, 0), *union((row.first, row.end) for row in content.rows), (content.basis.next_value,) * 2]
    return tuple((end, first) for (_, end), (first, _) in pairwise(held) if end < first)


def must_be_complete(thread: ThreadRecord) -> None:
    """Raise TransientStorageError if the thread was being copied when the primary was lost."""
    if thread.user_id == UNFINISHED:
        raise TransientStorageError(
            f"thread {thread.thread_id!r} is incomplete in the secondary: it was being copied when the primary was lost; "
            "try again when the primary is back",
            thread_id=thread.thread_id,
        )


async def check_complete(store: Storage, thread_id: str) -> None:
    """Raise TransientStorageError if there is such a thread and it is an incomplete copy."""
    for found in await store.threads(ThreadQuery(user=ANY_USER, thread_id=thread_id)):
        must_be_complete(found)

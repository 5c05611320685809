"""Commits: arguments for the commit script, pipelined calls, and outcomes.

A commit is acknowledged only when the indexes of threads and of the journal list its thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clew.clock import SYSTEM_CLOCK
from clew.errors import ClewError, CorruptRecordError, StorageError
from clew.ids import new_id
from clew.model.commit import HEAD, Applied, Begin, Commit, ForkSource, Removal
from clew.model.records import Basis
from clew.storage.branches import moves_messages
from clew.storage.columns import damaged_thread, pack_labels
from clew.storage.conversions import bytes_text, micros, moment_or_none, text_bytes, union
from clew.storage.redis.caller import Argument, Call, Caller
from clew.storage.redis.feed import ClusterFeed
from clew.storage.redis.header import Header, read_header
from clew.storage.redis.journal import ListedJournals
from clew.storage.redis.keys import Keys
from clew.storage.redis.layout import (
    Copied,
    attachment_head,
    bytes_micros,
    checkpoint_tail,
    copied_checkpoint,
    entry_tail,
    group_name,
    group_prefix,
    incarnation_field,
    incarnation_name,
    owner_field,
    pack_fields,
    pack_message,
    pack_origin,
    pack_row,
    repacked_message,
    time_digits,
    user_field,
)
from clew.storage.redis.link import Link
from clew.storage.redis.queries import ask
from clew.storage.redis.scripts import COMMIT, SOURCE
from clew.storage.redis.thread_index import ListedThreads, Standing
from clew.storage.rules import refusal

# Arguments


@dataclass(frozen=True, slots=True)
class Source:
    """A fork's content. `header` is None if the source is missing, `copy` if its checkpoint is."""

    header: Header | None
    copy: Copied | None
    arguments: list[Argument]


def read_source(answer: list[Any], commit: Commit, fork: ForkSource) -> Source:
    """Convert the answer of the source script."""
    if not answer:
        return Source(None, None, [])
    header = read_header(answer[0], fork.thread_id)
    if len(answer) == 1:
        return Source(header, None, [])
    _, fields, labels, record, rows, attached, messages = answer
    copy = copied_checkpoint(record, fork.as_checkpoint_id, own=commit.commit_id == fork.as_checkpoint_id)
    arguments: list[Argument] = [header.owner, header.next_value, fields or b"D\0\0\0\0\0\0\0"]
    arguments += [pack_origin(fork.thread_id, copy.checkpoint_id), copy.times, labels]
    arguments += [len(rows), *rows, len(messages)]
    for stored in messages:
        message_id, tool_calls, size, tail = repacked_message(stored)
        arguments += [message_id, tail, tool_calls, size]
    arguments += [group_name(fork.namespace, fork.as_checkpoint_id), len(attached)]
    old = len(attachment_head(fork.namespace, copy.checkpoint_id, ""))
    new = attachment_head(fork.namespace, fork.as_checkpoint_id, "")[:-3]
    for stored in attached:
        member = new + stored[old - 3 :]
        arguments += [member, len(new) + 3 + int.from_bytes(stored[old - 3 : old], "big")]
    return Source(header, copy, arguments)


def commit_arguments(commit: Commit, ttl: int | None, source: Source | None) -> list[Argument]:
    """Return the commit script's arguments, in the order of rules.lua and content_rules.lua."""
    basis, fence, removal, begin = commit.basis, commit.fence, commit.remove, commit.begin
    parts, given = _parts(commit, source)
    return [
        user_field(commit.user),
        text_bytes(commit.commit_id),
        time_digits(commit.at),
        b"" if ttl is None else ttl,
        *(_new_thread(begin) if basis is None or removal is not None else (b"", b"0")),
        b"0" if begin is None else begin.epoch,
        b"" if basis is None else incarnation_field(basis.incarnation),
        b"" if basis is None else basis.epoch,
        b"" if commit.after is None else _optional_name(commit.after.commit_id),
        b"" if commit.journal is None else entry_tail(commit.commit_id, commit.at, commit.journal),
        b"" if fence is None else fence,
        parts,
        b"" if removal is None else b"t" if removal.thread else b"s" if removal.state else b"",
        b"" if removal is None or removal.as_of is None else removal.as_of,
        *given,
    ]


def _parts(commit: Commit, source: Source | None) -> tuple[bytes, list[Argument]]:
    """Return a letter for each kind of content (values and checkpoint share one), and arguments."""
    parts = b""
    given: list[Argument] = []
    if (values := commit.values) is not None or commit.checkpoint is not None or commit.fork is not None:
        parts = b"C"
        given += (b"", b"", b"") if values is None else (values.first, values.count, pack_row(values))
        given += _made(commit, source)
    if commit.remove is not None:
        parts += b"R"
        given += _removal(commit.remove)
    if commit.fork is not None:
        parts += b"F"
        if source is None or source.header is None:
            given.append(b"source")
        else:
            given += [b"origin"] if source.copy is None else [b"+", *source.arguments]
    if commit.merge:
        parts += b"G"
        given.append(len(commit.merge))
        for row in commit.merge:
            given += (row.first, row.count, pack_row(row))
    if commit.attachments:
        parts += b"A"
        given += (1 if commit.keep_attachments else 0, len(commit.attachments))
        for each in commit.attachments:
            head = attachment_head(each.namespace, each.checkpoint_id, each.key)
            given += (group_name(each.namespace, each.checkpoint_id), len(head), head + each.data)
    if commit.messages:
        parts += b"M"
        given.append(len(commit.messages))
        for message in commit.messages:
            given += pack_message(message)
        if moves_messages(commit):
            parts += b"S"
    if (thread := commit.thread) is not None:
        parts += b"D"
        labels = b"G" + pack_labels(thread.labels) if thread.labels else b""
        given += (owner_field(thread.user_id), pack_fields(thread), labels)
    if commit.receipts:
        parts += b"P"
        given += (len(commit.receipts), *map(text_bytes, commit.receipts))
    if (back_to := commit.back_to) is not None:
        parts += b"B"
        given.append(b"^" if back_to.parent else _optional_name(back_to.message_id))
    return parts, given


def _made(commit: Commit, source: Source | None) -> tuple[Argument, ...]:
    """Return namespace, id, parent (`-` for none), whether it rejects conflicts, size and record.

    The parent is empty if the commit makes no checkpoint.
    """
    if (new := commit.checkpoint) is not None:
        parent = b"^" if new.parent is HEAD else _optional_name(new.parent)
        rejects = b"1" if new.on_conflict == "reject" else b"0"
        tail = checkpoint_tail(new, commit.at, own=commit.commit_id == new.checkpoint_id)
        size = len(new.metadata) + len(new.body)
        return text_bytes(new.namespace), text_bytes(new.checkpoint_id), parent, rejects, size, tail
    if (fork := commit.fork) is not None:
        copy = source.copy if source is not None else None
        named = text_bytes(fork.namespace), text_bytes(fork.as_checkpoint_id), b"-", b"0"
        return (*named, 0, b"") if copy is None else (*named, copy.size, copy.tail)
    return b"", b"", b"", b"0", b"0", b""


def _new_thread(begin: Begin | None) -> tuple[Argument, int]:
    """Return the incarnation and the ordinal of a thread that the commit may create."""
    return new_id() if begin is None else incarnation_field(begin.incarnation), _next_ordinal()


_last_ordinal = 0


def _next_ordinal() -> int:
    """Return a number that grows per process; between processes, clocks decide the order."""
    global _last_ordinal
    _last_ordinal = max(_last_ordinal + 1, micros(SYSTEM_CLOCK.now()))
    return _last_ordinal


def _removal(removal: Removal) -> list[Argument]:
    given: list[Argument] = [len(removal.checkpoints)]
    for namespace, checkpoint_id in removal.checkpoints:
        given += (text_bytes(namespace), text_bytes(checkpoint_id), group_name(namespace, checkpoint_id))
    given += [len(removal.messages), *map(text_bytes, removal.messages)]
    ranges = union(removal.values)
    given.append(len(ranges))
    for first, end in ranges:
        given += (first, end)
    return given


def _optional_name(name: str | None) -> bytes:
    return b"-" if name is None else b"+" + text_bytes(name)


# Outcomes


def outcome(answer: list[Any], commit: Commit) -> tuple[Applied | ClewError, Standing | None]:
    """Return the outcome, and the thread's standing (None if refused, or no thread is left)."""
    if not answer[0]:
        return _refusal(answer, commit), None
    code, incarnation, epoch, next_value, owner, moves, updated, removed, sequence, parent, times, *_ = answer
    if not incarnation:
        return Applied(basis=None, removed=removed, repeated=code == 2), None
    created_at = saved_at = None
    if times:
        saved_at, created_at = moment_or_none(bytes_micros(times[:8])), moment_or_none(bytes_micros(times[8:]))
    elif sequence:
        new, saved_at = commit.checkpoint, commit.at
        created_at = saved_at if new is None or new.created_at is None else new.created_at
    applied = Applied(
        basis=Basis(incarnation=incarnation_name(incarnation), epoch=epoch, next_value=next_value),
        parent_id=bytes_text(parent[1:]) if parent else None,
        sequence=sequence,
        created_at=created_at,
        saved_at=saved_at,
        removed=removed,
        repeated=code == 2,
    )
    return applied, Standing(incarnation, moves, owner, updated)


def listing_of(answer: list[Any]) -> int:
    """Return the listing that the journal index must have; 0 if the commit left no entry."""
    return int(answer[11]) if answer[0] else 0


def told_of(answer: list[Any]) -> list[Any]:
    """Return what the caller has to write to the feed: nothing, if the script has written it, or if there is
    no entry."""
    return answer[12] or [] if answer[0] else []


def _refusal(answer: list[Any], commit: Commit) -> ClewError:
    """Return the error for the rule that the script names."""
    _, rule, named, number = answer
    if rule == b"damaged":
        return damaged_thread(commit.thread_id, "its numbers are out of range")
    if rule == b"spaces":
        message = f"thread {commit.thread_id!r} has no room for another namespace; use another thread"
        return StorageError(message, thread_id=commit.thread_id)
    name = bytes_text(named[1:]) if named.startswith(b"+") else None
    return refusal(commit, rule.decode(), name, None if number == b"" else number)


# Sending


class _Sent(NamedTuple):
    """A sent commit, or the error that prevented sending it."""

    commit: Commit
    call: Call | ClewError


class Applier:
    """Applies commits through one session."""

    def __init__(self, caller: Caller, keys: Keys, ttl: int | None) -> None:
        self._caller = caller
        self._keys = keys
        self._ttl = ttl
        self._feed = keys.feed if caller.router.single else None
        """The feed's key, if the script may write it."""
        self._cluster_feed = None if caller.router.single else ClusterFeed(caller, keys)
        self._threads = ListedThreads(keys)
        self._journals = ListedJournals(keys)

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        """Return the outcomes in order. Raises StorageError if no commit reached a server."""
        sent: list[_Sent] = []
        outcomes: list[Applied | ClewError] = []
        for commit in commits:
            if commit.fork is not None:
                # A fork reads its source, which an earlier commit of this batch may create.
                outcomes += [await self._outcome(each) for each in sent]
                sent.clear()
            # Without a coroutine if the connection is open: most batches are one commit.
            sent.append(self._send_now(commit) or await self._send(commit))
        for each in sent:
            answer = await each.call.future if isinstance(each.call, Call) else None
            result = self._settled_outcome(each, answer) if type(answer) is list else None
            outcomes.append(result if result is not None else await self._outcome(each))
        if (
            outcomes
            and isinstance(outcomes[0], StorageError)
            and all(isinstance(each, StorageError) for each in outcomes)
        ):
            raise outcomes[0]
        return outcomes

    def _send_now(self, commit: Commit) -> _Sent | None:
        """Send the commit on the open connection; None if there is none, or the commit is a fork."""
        if commit.fork is not None:
            return None
        key = self._keys.thread(commit.thread_id)
        try:
            link = self._caller.router.node_for(key).for_commits()
            return None if link is None else self._send_on(link, commit, key, None)
        except StorageError:
            return None

    async def _send(self, commit: Commit) -> _Sent:
        """Send the commit, so that it is on its way before the next one."""
        key = self._keys.thread(commit.thread_id)
        try:
            source = await self._source(commit) if commit.fork is not None else None
            link = await self._caller.router.node_for(key).link(commits=True)
            return self._send_on(link, commit, key, source)
        except CorruptRecordError as error:
            return _Sent(commit, error)
        except StorageError as error:
            return _Sent(commit, await self._caller.rediscover(error))

    def _send_on(self, link: Link, commit: Commit, key: bytes, source: Source | None) -> _Sent:
        arguments = commit_arguments(commit, self._ttl, source)
        keys = (key,) if self._feed is None else (key, self._feed)
        return _Sent(commit, Call(self._caller, link, COMMIT, *keys, *arguments, keys=len(keys), commits=True))

    async def _source(self, commit: Commit) -> Source | None:
        fork = commit.fork
        if fork is None:
            return None
        asked = b"" if fork.checkpoint_id is None else b"+" + text_bytes(fork.checkpoint_id)
        answer = await ask(
            self._caller,
            SOURCE,
            self._keys,
            fork.thread_id,
            user_field(commit.user),
            text_bytes(fork.namespace),
            asked,
            group_prefix(fork.namespace),
        )
        return read_source(answer, commit, fork)

    def _settled_outcome(self, sent: _Sent, answer: list[Any]) -> Applied | ClewError | None:
        """Return the outcome, or None if the indexes must be written first."""
        thread_id = sent.commit.thread_id
        if self._cluster_feed is not None and told_of(answer) and not self._cluster_feed.is_unwatched():
            return None
        result, standing = outcome(answer, sent.commit)
        if standing is None and isinstance(result, Applied):
            self._threads.forget(thread_id)
        if not self._journals.has(thread_id, listing_of(answer)):
            return None
        return result if standing is None or self._threads.has(thread_id, standing) else None

    async def _outcome(self, sent: _Sent) -> Applied | ClewError:
        if isinstance(sent.call, ClewError):
            return sent.call
        try:
            answer = await sent.call.answer()
            settled = self._settled_outcome(sent, answer)
            if settled is not None:
                return settled
            thread_id = sent.commit.thread_id
            result, standing = outcome(answer, sent.commit)
            journal_calls = self._journals.calls(thread_id, listing_of(answer))
            if standing is None or self._threads.has(thread_id, standing):
                await self._caller.call_all(journal_calls)
            else:
                await self._threads.add(self._caller, thread_id, standing, journal_calls)
            self._journals.remember(thread_id, listing_of(answer))
            if self._cluster_feed is not None and told_of(answer):
                await self._cluster_feed.tell(thread_id, told_of(answer))
        except CorruptRecordError as error:
            return damaged_thread(sent.commit.thread_id, str(error))
        except ClewError as error:
            return error
        return result

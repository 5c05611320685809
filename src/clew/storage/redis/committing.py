"""Commits as arguments of the commit script, and what it answers as outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from clew.clock import SYSTEM_CLOCK
from clew.errors import ClewError, ConflictError
from clew.ids import new_id
from clew.model.commit import HEAD, Applied, Begin, Commit, ForkSource, NewCheckpoint, Removal
from clew.model.config import ANY_USER, User
from clew.model.records import Basis
from clew.storage.packing import bytes_text, micros, text_bytes, union
from clew.storage.redis.calling import Argument
from clew.storage.redis.layout import (
    Header,
    attachment_head,
    bytes_time,
    checkpoint_tail,
    copied_checkpoint,
    entry_tail,
    group_name,
    incarnation_field,
    incarnation_name,
    owner_field,
    pack_fields,
    pack_message,
    pack_origin,
    pack_row,
    read_header,
    repacked_message,
    time_digits,
)
from clew.storage.rules import refusal


def user_field(user: User) -> bytes:
    return b"*" if user is ANY_USER else owner_field(user)


@dataclass(frozen=True, slots=True)
class Source:
    """What a fork takes along, read from its source; `checkpoint_id` is None and the rest empty if that is not there."""

    header: Header | None
    checkpoint_id: str | None
    arguments: list[Argument]


def read_source(answer: list[Any], commit: Commit, fork: ForkSource) -> Source:
    """The answer of the source script."""
    if not answer:
        return Source(None, None, [])
    header = read_header(answer[0], fork.thread_id)
    if len(answer) == 1:
        return Source(header, None, [])
    _, fields, record, rows, attached, messages = answer
    own = commit.checkpoint is None and commit.commit_id == fork.as_checkpoint_id
    copy = copied_checkpoint(record, fork.as_checkpoint_id, own=own)
    arguments: list[Argument] = [header.owner, header.next_value, fields or b"D\0\0\0\0\0\0\0"]
    arguments += [pack_origin(fork.thread_id, copy.checkpoint_id), copy.tail, copy.size, copy.created]
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
    return Source(header, copy.checkpoint_id, arguments)


def commit_arguments(commit: Commit, ttl: int | None, source: Source | None) -> list[Argument]:
    """The arguments that the commit script reads, one after the other."""
    basis, fence = commit.basis, commit.fence
    parts = b""
    given: list[Argument] = []
    if commit.remove is not None:
        parts += b"R"
        given += _removal(commit.remove)
    if commit.fork is not None and source is not None:
        parts += b"F"
        given += [text_bytes(commit.fork.namespace), text_bytes(commit.fork.as_checkpoint_id)]
        given += [b"+", *source.arguments] if source.checkpoint_id is not None else [b"-"]
    if (values := commit.values) is not None:
        parts += b"V"
        given += (values.first, values.count, pack_row(values))
    if commit.merge:
        parts += b"G"
        given.append(len(commit.merge))
        for row in commit.merge:
            given += (row.first, row.count, pack_row(row))
    if (new := commit.checkpoint) is not None:
        parts += b"C"
        tail = checkpoint_tail(new, commit.at, own=commit.commit_id == new.checkpoint_id)
        given += (text_bytes(new.namespace), text_bytes(new.checkpoint_id), _parent(new))
        given += (1 if new.on_conflict == "reject" else 0, len(new.metadata) + len(new.body), tail)
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
    if (thread := commit.thread) is not None:
        parts += b"D"
        given += (owner_field(thread.user_id), pack_fields(thread))
    begin = commit.begin
    if commit.journal is not None or commit.after is not None or begin is not None:
        parts += b"N"
        given += (_after(commit), 0 if begin is None else begin.epoch)
        given.append(b"" if commit.journal is None else entry_tail(commit.commit_id, commit.at, commit.journal))
    return [
        user_field(commit.user),
        text_bytes(commit.commit_id),
        time_digits(commit.at),
        b"" if ttl is None else ttl,
        *(_new_thread(begin) if basis is None or commit.remove is not None else (b"", 0)),
        b"" if basis is None else incarnation_field(basis.incarnation),
        b"" if basis is None else basis.epoch,
        b"" if fence is None else fence,
        parts,
        *given,
    ]


def _new_thread(begin: Begin | None) -> tuple[Argument, int]:
    """What a thread is known by if the commit creates it, and its number."""
    return new_id() if begin is None else incarnation_field(begin.incarnation), _next_ordinal()


_last_ordinal = 0


def _next_ordinal() -> int:
    """A number that grows with each thread that this process makes; those of several processes go by their clocks."""
    global _last_ordinal
    _last_ordinal = max(_last_ordinal + 1, micros(SYSTEM_CLOCK.now()))
    return _last_ordinal


def _removal(removal: Removal) -> list[Argument]:
    whole = b"t" if removal.thread else b"s" if removal.state else b""
    given: list[Argument] = [whole, b"" if removal.as_of is None else removal.as_of, len(removal.checkpoints)]
    for namespace, checkpoint_id in removal.checkpoints:
        given += (text_bytes(namespace), text_bytes(checkpoint_id), group_name(namespace, checkpoint_id))
    given += [len(removal.messages), *map(text_bytes, removal.messages)]
    ranges = union(removal.values)
    given.append(len(ranges))
    for first, end in ranges:
        given += (first, end)
    return given


def _parent(new: NewCheckpoint) -> bytes:
    if new.parent is HEAD:
        return b"^"
    return b"-" if new.parent is None else b"+" + text_bytes(new.parent)


def _after(commit: Commit) -> bytes:
    """The end that the thread's chain must have: '' for any."""
    if commit.after is None:
        return b""
    return b"-" if commit.after.commit_id is None else b"+" + text_bytes(commit.after.commit_id)


class Standing(NamedTuple):
    """How a commit left its thread: which incarnation under which of its owners, and when it was last active."""

    incarnation: bytes
    moves: int
    owner: bytes
    updated: bytes


def outcome(answer: list[Any], commit: Commit, source: Source | None) -> tuple[Applied | ClewError, Standing | None]:
    """What came of `commit`, and how its thread stands (`None`: it was refused, or there is no thread)."""
    if not answer[0]:
        return _refusal(answer, commit, source), None
    code, incarnation, epoch, next_value, owner, moves, updated, removed, sequence, parent, created, _ = answer
    if not incarnation:
        return Applied(basis=None, removed=removed), None
    applied = Applied(
        basis=Basis(incarnation=incarnation_name(incarnation), epoch=epoch, next_value=next_value),
        parent_id=bytes_text(parent[1:]) if parent else None,
        sequence=sequence,
        created_at=(bytes_time(created) if created else commit.at) if sequence else None,
        removed=removed,
        repeated=code == 2,
    )
    return applied, Standing(incarnation, moves, owner, updated)


def listing_of(answer: list[Any]) -> int:
    """What an index of the journal must know the thread by; 0 if the commit left no entry."""
    return int(answer[11]) if answer[0] else 0


def _refusal(answer: list[Any], commit: Commit, source: Source | None) -> ClewError:
    """The error for what the script found, by the table of rules."""
    _, reason, *facts = answer
    match reason:
        case b"basis":
            incarnation, epoch = facts
            known = commit.basis is not None and incarnation_name(incarnation) == commit.basis.incarnation
            return refusal(commit, "epoch" if known else "deleted", number=epoch)
        case b"chain":
            return refusal(commit, "after", bytes_text(facts[0][1:]) if facts[0].startswith(b"+") else None)
        case b"head" | b"parent":
            return refusal(commit, reason.decode(), bytes_text(facts[0][1:]) if facts[0] else None)
        case b"as_of" | b"first":
            return refusal(commit, reason.decode(), number=facts[0])
        case b"fence":
            return refusal(commit, "fence", number=None if facts[0] == b"" else facts[0])
        case b"merge":
            firsts = [row.first for row in commit.merge]
            return refusal(commit, "merge", number=firsts.index(facts[0]) + 1)
        case b"origin":
            return refusal(commit, "source" if source is None or source.header is None else "origin")
        case b"spaces":
            message = f"thread {commit.thread_id!r}: the commit was refused: {reason!r}"
            return ConflictError(message, thread_id=commit.thread_id)
    return refusal(commit, reason.decode())

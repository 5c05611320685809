"""Commits as arguments of the commit script, and what it answers as outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from clew.clock import SYSTEM_CLOCK
from clew.errors import ClewError, StorageError
from clew.ids import new_id
from clew.model.commit import HEAD, Applied, Begin, Commit, ForkSource, Removal
from clew.model.config import ANY_USER, User
from clew.model.records import Basis
from clew.storage.packing import bytes_text, micros, text_bytes, union
from clew.storage.redis.calling import Argument
from clew.storage.redis.layout import (
    Copied,
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
    """What a fork takes along, read from its source; `copy` is None and the rest empty if that is not there."""

    header: Header | None
    copy: Copied | None
    arguments: list[Argument]


def read_source(answer: list[Any], commit: Commit, fork: ForkSource) -> Source:
    """The answer of the source script."""
    if not answer:
        return Source(None, None, [])
    header = read_header(answer[0], fork.thread_id)
    if len(answer) == 1:
        return Source(header, None, [])
    _, fields, record, rows, attached, messages = answer
    copy = copied_checkpoint(record, fork.as_checkpoint_id, own=commit.commit_id == fork.as_checkpoint_id)
    arguments: list[Argument] = [header.owner, header.next_value, fields or b"D\0\0\0\0\0\0\0"]
    arguments += [pack_origin(fork.thread_id, copy.checkpoint_id), copy.created]
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
    """The arguments of the commit script: those that rules.lua names, then those that deciding.lua reads in their order."""
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


def _made(commit: Commit, source: Source | None) -> tuple[Argument, ...]:
    """The checkpoint that the commit makes: namespace, id, parent, whether it rejects conflicts, size, record. No parent is
    `-`; if that field is empty, the commit makes no checkpoint."""
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


def _parts(commit: Commit, source: Source | None) -> tuple[bytes, list[Argument]]:
    """A letter for each thing that the commit brings, and the arguments of these. Values and a checkpoint have one letter."""
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
    if (thread := commit.thread) is not None:
        parts += b"D"
        given += (owner_field(thread.user_id), pack_fields(thread))
    if commit.receipts:
        parts += b"P"
        given += (len(commit.receipts), *map(text_bytes, commit.receipts))
    return parts, given


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


class Standing(NamedTuple):
    """How a commit left its thread: which incarnation under which of its owners, and when it was last active."""

    incarnation: bytes
    moves: int
    owner: bytes
    updated: bytes


def outcome(answer: list[Any], commit: Commit) -> tuple[Applied | ClewError, Standing | None]:
    """What came of `commit`, and how its thread stands (`None`: it was refused, or there is no thread)."""
    if not answer[0]:
        return _refusal(answer, commit), None
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


def _refusal(answer: list[Any], commit: Commit) -> ClewError:
    """The error for the rule that the script names, with what it found."""
    _, rule, named, number = answer
    if rule == b"spaces":
        message = f"thread {commit.thread_id!r} has no room for another namespace; use another thread"
        return StorageError(message, thread_id=commit.thread_id)
    name = bytes_text(named[1:]) if named.startswith(b"+") else None
    return refusal(commit, rule.decode(), name, None if number == b"" else number)

"""Commit translation: commits to parameters of SQL functions, and their answers to outcomes.

There are three functions. `commit` applies any commit. Two fast paths assume more:
`commit_fast_appends` takes commits that only add, one for each of many threads; `commit_fast_save`
takes one that only adds values and a checkpoint. A fast path applies nothing if the thread is not
as the commit expects; then `commit` decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clew.errors import ClewError
from clew.model.commit import HEAD, Applied, BackTo, Commit, NewCheckpoint
from clew.model.config import ANY_USER
from clew.model.message import folded
from clew.model.records import Basis, MessageRecord, Range
from clew.storage.branches import moves_messages
from clew.storage.columns import damaged_thread
from clew.storage.conversions import micros, moment_or_none, union
from clew.storage.postgres.texts import escaped, escaped_or_none, text_size, unescaped_or_none
from clew.storage.postgres.users import UserColumn
from clew.storage.protocol import RECEIPTS_KEPT, RECEIPTS_PRUNED
from clew.storage.rules import adds, next_in_chain, refusal

Row = Any
Parameters = list[Any]
FAST_SAVE_PARAMETERS, FAST_APPENDS_PARAMETERS, COMMIT_PARAMETERS = 22, 46, 71
_NO_VALUES = (None,) * 4
_NO_CHECKPOINT = (None,) * 10


def is_append(commit: Commit) -> bool:
    """Return whether `commit` only adds. `commit_fast_appends` takes it, and may still skip it."""
    if commit.remove is not None or commit.fork or commit.thread or commit.merge or commit.back_to or commit.receipts:
        return False
    new = commit.checkpoint
    if new is None:
        return bool((commit.values or commit.messages or commit.attachments) and not _repeats_attachments(commit))
    if new.created_at is not None:
        return False
    # The fast paths know the head in the thread's row only, which is the main namespace's.
    return (new.namespace == "" or _allows_any_parent(commit, new)) and not _repeats_attachments(commit)


def _repeats_attachments(commit: Commit) -> bool:
    if not commit.attachments:
        return False
    keys = {(each.namespace, each.checkpoint_id, each.key) for each in commit.attachments}
    return len(keys) != len(commit.attachments)


def _allows_any_parent(commit: Commit, new: NewCheckpoint) -> bool:
    """Return whether the new checkpoint keeps the parent that it names, even if that is not the head.

    Not in the main namespace, where another parent begins a branch: `commit` adds its point.
    """
    return commit.basis is not None and new.on_conflict == "branch" and new.parent is not HEAD and new.namespace != ""


def is_save(commit: Commit) -> bool:
    """Return whether an append has only values and a checkpoint, so that `commit_fast_save` can take it."""
    new = commit.checkpoint
    return (
        new is not None
        and new.checkpoint_id == commit.commit_id
        and not commit.messages
        and not commit.attachments
        and commit.fence is None
        and commit.basis is not None
        and next_in_chain(commit) is None
    )


def fast_save_parameters(commit: Commit, users: UserColumn) -> Parameters:
    """Return the parameters of `commit_fast_save` for a save."""
    basis, values, new = commit.basis, commit.values, commit.checkpoint
    assert basis is not None
    assert new is not None
    parent = new.parent
    return [
        escaped(commit.thread_id),
        commit.user is ANY_USER,
        users.stored(commit.user),
        micros(commit.at),
        escaped(basis.incarnation),
        basis.epoch,
        *(_NO_VALUES if values is None else (values.first, values.count, values.digests, values.data)),
        escaped(new.checkpoint_id),
        parent is HEAD or _allows_any_parent(commit, new),
        parent is HEAD,
        None if parent is HEAD or parent is None else escaped(parent),
        escaped(new.namespace),
        escaped_or_none(new.node_name),
        new.step,
        escaped_or_none(new.run_id),
        new.size,
        [number for each in new.covers for number in each],
        new.metadata,
        new.body,
    ]


def fast_save_outcome(commit: Commit, answer: Row) -> Applied | None:
    """Return the outcome of `commit_fast_save`; `None` if it applied nothing."""
    incarnation, epoch, next_value, sequence, parent, _ = answer
    if sequence is None:
        return None
    return Applied(
        basis=Basis(incarnation=incarnation, epoch=epoch, next_value=next_value),
        parent_id=unescaped_or_none(parent),
        sequence=sequence,
        created_at=commit.at,
        saved_at=commit.at,
    )


def fast_append_parameters(commits: Sequence[Commit], arrivals: Sequence[int], users: UserColumn) -> Parameters:
    """Return an array for each column of `commit_fast_appends`. `commits` are sorted by thread."""
    count = len(commits)
    # Empty columns are not sent, because the driver encodes every element.
    parameters: Parameters = [
        None if column[0] is None and column.count(None) == count else column
        for column in zip(*[_append_columns(commit, users) for commit in commits], strict=True)
    ]
    may_be_new = any(commit.basis is None for commit in commits)
    parameters.insert(2, arrivals if may_be_new else None)
    attached = [
        (place, escaped(each.namespace), escaped(each.checkpoint_id), escaped(each.key), each.data)
        for place, commit in enumerate(commits, 1)
        if commit.attachments
        for each in commit.attachments
    ]
    messages = [
        (place, *row)
        for place, commit in enumerate(commits, 1)
        if commit.messages
        for row in message_rows(commit.messages)
    ]
    return parameters + _columns(attached, 5) + _columns(messages, 10) + _chain_columns(commits)


def _chain_columns(commits: Sequence[Commit]) -> list[Any]:
    """Return the columns about chains, the journal and the beginning of new threads."""
    if not any(commit.begin is not None or next_in_chain(commit) for commit in commits):
        return [None] * 5
    rows = [
        (
            escaped_or_none(next_in_chain(commit)),
            escaped_or_none(commit.after.commit_id) if commit.after else None,
            commit.journal,
            escaped(commit.begin.incarnation) if commit.begin else None,
            commit.begin.epoch if commit.begin else None,
        )
        for commit in commits
    ]
    return [None if column.count(None) == len(column) else column for column in zip(*rows, strict=True)]


_ANYONE, _NAMES_PARENT, _PARENT_IS_HEAD, _AFTER = 1, 2, 4, 8


def _append_columns(commit: Commit, users: UserColumn) -> tuple[Any, ...]:
    """Return the columns of one commit, with `None` for defaults."""
    thread_id, user, basis, values, new = commit.thread_id, commit.user, commit.basis, commit.values, commit.checkpoint
    commit_id: str | None = commit.commit_id
    flags = _ANYONE if user is ANY_USER else 0
    if commit.after is not None:
        flags |= _AFTER
    if new is None:
        made: tuple[Any, ...] = _NO_CHECKPOINT
    else:
        checkpoint_id, parent, namespace = new.checkpoint_id, new.parent, new.namespace
        if commit_id == checkpoint_id:
            commit_id = None
        if parent is HEAD:
            parent = None
        else:
            flags |= _NAMES_PARENT if _allows_any_parent(commit, new) else _NAMES_PARENT | _PARENT_IS_HEAD
        made = (
            escaped(checkpoint_id),
            None if parent is None else escaped(parent),
            escaped(namespace) if namespace else None,
            escaped_or_none(new.node_name),
            new.step,
            escaped_or_none(new.run_id),
            new.size,
            _ranges_text(new.covers),
            new.metadata or None,
            new.body,
        )
    count = others = None
    if commit.messages:
        kept = {message.message_id: message for message in commit.messages}
        count = len(kept)
        others = sum(map(_message_size, kept.values()))
    if commit.attachments:
        others = (others or 0) + sum(len(each.data) for each in commit.attachments)
    return (
        escaped(thread_id),
        _folded_id(thread_id),
        flags or None,
        users.stored(user),
        None if commit_id is None else escaped(commit_id),
        micros(commit.at),
        None if basis is None else basis.incarnation,
        None if basis is None else basis.epoch,
        commit.fence,
        *(_NO_VALUES if values is None else (values.first, values.count, values.digests, values.data)),
        *made,
        count,
        others,
    )


def _ranges_text(ranges: Sequence[Range]) -> str:
    return "{" + ",".join([f"{first},{end}" for first, end in ranges]) + "}"


def _folded_id(thread_id: str) -> str | None:
    search = folded(thread_id)
    return None if search == thread_id else escaped(search)


def _message_size(message: MessageRecord) -> int:
    return text_size(message.text) + len(message.data)


def message_rows(messages: Sequence[MessageRecord]) -> list[tuple[Any, ...]]:
    """Return the columns of each message. If an id repeats, the last one takes the first place."""
    kept = {message.message_id: message for message in messages}
    return [
        (
            escaped(each.message_id),
            escaped(each.text),
            each.tool_calls,
            escaped_or_none(each.run_id),
            micros(each.created_at),
            _message_size(each),
            each.data,
            each.input_tokens,
            each.output_tokens,
        )
        for each in kept.values()
    ]


def commit_parameters(commit: Commit, users: UserColumn) -> Parameters:
    """Return the parameters of `commit`. Raises ConfigError if the owner column can't hold a user."""
    basis, removal, fork, values, new = commit.basis, commit.remove, commit.fork, commit.values, commit.checkpoint
    parameters: Parameters = [
        escaped(commit.thread_id),
        _folded_id(commit.thread_id),
        commit.user is ANY_USER,
        users.stored(commit.user),
        escaped(commit.commit_id),
        micros(commit.at),
        escaped(basis.incarnation) if basis else None,
        basis.epoch if basis else None,
        commit.fence,
        adds(commit),
    ]
    if removal:
        ranges = union(removal.values)
        parameters += [
            removal.thread,
            removal.state,
            *_columns([(escaped(space), escaped(name)) for space, name in removal.checkpoints], 2),
            *_columns([(escaped(name),) for name in removal.messages], 1),
            # A removal of values ends the epoch even if its ranges are empty.
            *(_columns(ranges or [(0, 0)], 2) if removal.values else [None] * 2),
            removal.as_of,
        ]
    else:
        parameters += [False, False, None, None, None, None, None, None]
    if fork:
        parameters += map(escaped_or_none, (fork.thread_id, fork.namespace, fork.checkpoint_id, fork.as_checkpoint_id))
    else:
        parameters += [None] * 4
    parameters += [values.first, values.count, values.digests, values.data] if values else _NO_VALUES
    parameters += _columns([(row.first, row.count, row.digests, row.data) for row in commit.merge], 4)
    if new:
        parameters += [
            escaped(new.checkpoint_id),
            escaped(new.namespace),
            new.parent is HEAD,
            None if new.parent is HEAD or new.parent is None else escaped(new.parent),
            new.on_conflict == "reject",
            escaped_or_none(new.node_name),
            new.step,
            escaped_or_none(new.run_id),
            new.size,
            [number for each in new.covers for number in each],
            new.metadata,
            new.body,
            None if new.created_at is None else micros(new.created_at),
        ]
    else:
        parameters += [None] * 13
    parameters.append(commit.keep_attachments)
    # If a key repeats, the last attachment wins; with `keep_attachments`, the first.
    ordered = reversed(commit.attachments) if commit.keep_attachments else commit.attachments
    attachments = {(each.namespace, each.checkpoint_id, each.key): each.data for each in ordered}
    parameters += _columns([(*map(escaped, key), data) for key, data in attachments.items()], 4)
    parameters += _columns(message_rows(commit.messages), 9)
    if described := commit.thread:
        owner = users.stored(described.user_id)
        parameters += [True, escaped(described.text), described.data, escaped_or_none(described.run_id), owner]
        parameters.append([label.hex() for label in described.labels])
    else:
        parameters += [False, None, None, None, None, None]
    begin, after = commit.begin, commit.after
    parameters += [escaped(begin.incarnation), begin.epoch] if begin else [None, None]
    parameters += [True, escaped_or_none(after.commit_id)] if after else [False, None]
    parameters.append(commit.journal)
    # If a receipt repeats, the last one counts. Those that would be pruned at once are left out.
    receipts = [*dict.fromkeys(reversed(commit.receipts))][: RECEIPTS_KEPT + RECEIPTS_PRUNED - 1]
    parameters.append([escaped(each) for each in reversed(receipts)] or None)
    parameters += [_back_to(commit.back_to), moves_messages(commit)]
    return parameters


def _back_to(back_to: BackTo | None) -> str | None:
    if back_to is None:
        return None
    if back_to.parent:
        return "^"
    return "-" if back_to.message_id is None else "+" + escaped(back_to.message_id)


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[Any]:
    return list(zip(*rows, strict=True)) if rows else [None] * count


def fast_append_outcomes(commits: Sequence[Commit], arrivals: Sequence[int], answer: Row) -> list[Applied | None]:
    """Return the outcomes in the order of arrival; `None` for commits that the server skipped."""
    outcomes: list[Applied | None] = [None] * len(commits)
    if answer["applied"]:
        *arrays, _ = answer.values()
        for place, incarnation, epoch, next_value, sequence, parent in zip(*arrays, strict=True):
            commit, arrival = commits[place - 1], arrivals[place - 1]
            basis = Basis(incarnation=incarnation, epoch=epoch, next_value=next_value)
            if commit.checkpoint is None:
                outcomes[arrival] = Applied(basis=basis)
            else:
                parent = unescaped_or_none(parent)
                outcomes[arrival] = Applied(
                    basis=basis, parent_id=parent, sequence=sequence, created_at=commit.at, saved_at=commit.at
                )
    return outcomes


def outcome(commit: Commit, answer: Mapping[str, Any]) -> Applied | ClewError:
    """Return the outcome of `commit`: applied, or the error that refuses it."""
    code = answer["outcome"]
    if code == "damaged":
        return damaged_thread(commit.thread_id, "its numbers are out of range")
    if code not in ("applied", "repeated"):
        return refusal(commit, code, unescaped_or_none(answer["named"]), answer["number"])
    basis = None
    if answer["incarnation"] is not None:
        basis = Basis(incarnation=answer["incarnation"], epoch=answer["epoch"], next_value=answer["next_value"])
    saved_at, created_at = answer["saved_at"], answer["created_at"]
    return Applied(
        basis=basis,
        parent_id=unescaped_or_none(answer["parent"]),
        sequence=answer["sequence"] or 0,
        created_at=None if created_at is None else moment_or_none(created_at),
        saved_at=None if saved_at is None else moment_or_none(saved_at),
        removed=answer["removed"],
        repeated=code == "repeated",
    )

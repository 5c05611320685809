"""Branches of a conversation: which messages belong to a moment of a thread.

Every commit increments the thread's sequence number, and a message has the number of its commit. So
a thread that never branched needs nothing more: the messages up to a checkpoint are those with its
number or a lower one. When a commit goes back, the thread gets a *branch point* (`parent`, `start`):
from number `start` on, the conversation continues after number `parent`, and what lies between them
is on other branches. PL/pgSQL (`visible_…`) and Lua (`visible`) have the same functions.

Points are stored with the thread, because checkpoints may be removed while their messages stay. A
thread keeps its newest `MOST_POINTS`; messages that only an older point hid appear again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Protocol

from clew.model.commit import Commit
from clew.model.queries import ValuePage
from clew.model.records import Range
from clew.storage.columns import damaged_thread

MOST_POINTS: Final = 1000
DAMAGED_POINTS: Final = "its branch points can't be read; its messages can, with branches='all'"
LAST_NUMBER: Final = (1 << 63) - 1


def visible(points: Sequence[Range], upto: int = LAST_NUMBER) -> list[Range]:
    """The sequence numbers of the branch that ends with number `upto`: first and last, in order."""
    found: list[Range] = []
    for parent, start in reversed(points):
        if start <= upto:
            found.append((start, upto))
            upto = parent
    found.append((0, upto))
    return found[::-1]


def is_within(ranges: Sequence[Range], number: int) -> bool:
    """Return whether one of `ranges` (see `visible`) has `number`."""
    place = bisect_right(ranges, (number, LAST_NUMBER)) - 1
    return place >= 0 and number <= ranges[place][1]


def checked_points(points: Sequence[Range] | None, sequence: int) -> tuple[tuple[Range, ...], str]:
    """Return the points of a thread with this sequence number, and what is wrong with them, if anything.

    `None` stands for stored points that can't be unpacked. Damaged ones are not returned.
    """
    if points is None:
        return (), DAMAGED_POINTS
    starts = [0, *(start for _, start in points), sequence + 1]
    valid = all(parent < start for parent, start in points) and all(one < other for one, other in pairwise(starts))
    return (tuple(points), "") if valid else ((), DAMAGED_POINTS)


def points_of(thread_id: str, page: ValuePage) -> tuple[Range, ...]:
    """Return the thread's branch points. Raises CorruptRecordError if they are damaged."""
    if page.damage:
        raise damaged_thread(thread_id, page.damage)
    return page.points


def with_point(points: Sequence[Range], parent: int, start: int) -> tuple[Range, ...]:
    """`points` with one more, without the oldest if there are too many."""
    return (*points, (parent, start))[-MOST_POINTS:]


def is_left(points: Sequence[Range], head: int | None) -> bool:
    """Return whether the head, at number `head`, is not on the newest branch.

    Then the checkpoints of the newest branch were removed, and the conversation is that of the head's branch again.
    """
    return bool(points) and head is not None and head < points[-1][1]


def said_here(commit: Commit, points: Sequence[Range]) -> list[Range] | None:
    """The sequence numbers of the branch that `commit`'s messages are said on; `None` if it does not matter.

    If only other branches have a message, it moves here.
    """
    return visible(points) if points and commit.messages and moves_messages(commit) else None


def moves_messages(commit: Commit) -> bool:
    """Return whether the messages belong to the head's branch, even if only other branches have had their ids."""
    return commit.move_messages or commit.checkpoint is not None


class Numbers(Protocol):
    """The sequence numbers of a thread's records after a commit's removals; `None` if there is none."""

    def of_message(self, message_id: str) -> int | None: ...
    def of_checkpoint(self, namespace: str, checkpoint_id: str) -> int | None: ...
    def of_head(self) -> int | None:
        """The newest checkpoint of the main namespace."""


class Decided(Protocol):
    """The rules' decision about a commit's new checkpoint (`clew.storage.rules.Decision`)."""

    parent: str | None
    replaces: bool
    branches: bool


def parent_of_branch(commit: Commit, decided: Decided, points: Sequence[Range], numbers: Numbers) -> int | None:
    """The sequence number that the new branch of `commit` continues from; `None` if it begins no branch.

    A parent that no longer exists begins no branch, because its number is unknown.
    """
    back_to, new, removal = commit.back_to, commit.checkpoint, commit.remove
    if back_to is not None and not back_to.parent:
        return 0 if back_to.message_id is None else numbers.of_message(back_to.message_id)
    if new is not None and not decided.replaces and (decided.branches or back_to is not None):
        return 0 if decided.parent is None else numbers.of_checkpoint(new.namespace, decided.parent)
    if points and removal is not None and removal.checkpoints:
        head = numbers.of_head()
        return head if is_left(points, head) else None
    return None

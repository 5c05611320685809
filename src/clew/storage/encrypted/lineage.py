"""Where the records of a fork come from.

A storage makes a fork without showing anybody what is in it, so what a fork brings stays sealed for the thread that it was
written to. The fork's own description, which is sealed for the fork, says which thread that is: its *lineage*. Nobody without
a key can make one up, so a record that was put into another thread can't be opened there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct


class Origin(Struct, frozen=True, array_like=True):
    """What a thread was forked from: that checkpoint is `as_checkpoint_id` in the fork."""

    thread_id: str
    checkpoint_id: str
    as_checkpoint_id: str


Lineage = tuple[Origin, ...]
"""A fork's origin, the origin's own, and so on; of a thread that is no fork, nothing."""


def threads_of(thread_id: str, lineage: Sequence[Origin]) -> Iterator[str]:
    """The threads that what is read in `thread_id` may have been written to, the nearest first."""
    yield thread_id
    for origin in lineage:
        yield origin.thread_id


def places_of(thread_id: str, checkpoint_id: str, lineage: Sequence[Origin]) -> Iterator[tuple[str, str]]:
    """The thread and the id that a checkpoint, or what is attached to it, may have been written as."""
    yield thread_id, checkpoint_id
    for origin in lineage:
        if checkpoint_id != origin.as_checkpoint_id:
            return
        checkpoint_id = origin.checkpoint_id
        yield origin.thread_id, checkpoint_id

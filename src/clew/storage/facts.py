"""Facts about threads that a storage supplies to the rules of a commit."""

from __future__ import annotations

from typing import Protocol, TypeVar

from clew.model.commit import Commit, NewCheckpoint

StoredRow = tuple[int, int, int]
"""A row of values: first number, count, and size in bytes."""


class Known(Protocol):
    """The fields of a storage's thread that the rules need."""

    @property
    def owner(self) -> str | None: ...
    @property
    def incarnation(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def next_value(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def last_in_chain(self) -> str | None: ...


Thread = TypeVar("Thread", bound=Known)


class Facts(Protocol[Thread]):
    """Facts about threads, supplied by a storage. `decide` asks only for what the commit needs."""

    def thread(self, thread_id: str) -> Thread | None: ...

    def end_of_missing(self, thread_id: str) -> str | None:
        """The end of the chain of a thread that does not exist: its deletion, as long as the store remembers it."""

    def has_applied(self, thread: Thread, commit: Commit) -> bool:
        """Return whether the thread has a receipt of `commit`."""

    def last_token(self, thread_id: str, space: str) -> int | None:
        """The token of the thread's last lease in `space`."""

    def head(self, thread: Thread, namespace: str, *, without: frozenset[str]) -> str | None:
        """The id of the newest checkpoint in `namespace` that is not in `without`."""

    def has_checkpoint(self, thread: Thread, namespace: str, checkpoint_id: str) -> bool: ...

    def replaces(self, thread: Thread, new: NewCheckpoint) -> bool:
        """Return whether the thread has this checkpoint. May return False if the write fails in that case."""

    def shared_before(self, thread: Thread) -> int:
        """The number under which a fork shares the values."""

    def rows(self, thread: Thread, first: int, end: int) -> list[StoredRow]:
        """The rows that hold any value from `first` to before `end`, in order."""

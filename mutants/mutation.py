"""A mutation: one change of one source file, and a copy of the sources with it."""

from __future__ import annotations

import compileall
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"

Storage = Literal["memory", "sqlite", "postgres", "redis"]

NOTIONS = {
    "kept": "A thread recognises at least its last 256 commits.",
    "pruned": "A thread's receipts are bounded.",
    "planted": "The receipts that a commit brings count from then on.",
    "journal": "A commit and its journal entry are written together, or neither.",
    "nothing": "A refused commit leaves nothing.",
    "branch": "A conversation that goes back leaves a branch point.",
    "feed": "While somebody watches, each commit is in the feed.",
}
"""Guarantees of a commit that are not in the table of rules, named like rules."""


class MutationError(Exception):
    """A mutation does not fit its source, or breaks more than its rule."""


class Change(ABC):
    """One change of a source file: in `file`, `new` replaces `old`, which occurs exactly once.

    If `may_hang` is set, tests that exceed the time limit have detected the mutant. Otherwise that
    is an error: the tests may be slow without it, too.
    """

    __slots__ = ()

    file: str
    old: str
    new: str
    may_hang: bool

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name for tables and errors."""

    @property
    @abstractmethod
    def path(self) -> str:
        """The path of the file below `src/`."""

    def mutated(self, sources: Path = SOURCES) -> str:
        """Return the mutated text. Raises MutationError unless `old` occurs exactly once."""
        text = (sources / self.path).read_text()
        if (found := text.count(self.old)) != 1:
            raise MutationError(f"{self.name} in {self.file}: {self.old!r} occurs {found} times, not once")
        if self.old == self.new:
            raise MutationError(f"{self.name} in {self.file}: nothing is changed")
        mutated = text.replace(self.old, self.new)
        if self.file.endswith(".py"):
            try:
                compile(mutated, self.path, "exec")
            except SyntaxError as error:
                raise MutationError(f"{self.name} in {self.file}: {error}") from error
        return mutated


@dataclass(frozen=True, slots=True)
class Mutation(Change):
    """A change that breaks `rule`. `file` is below `src/clew/storage/`.

    `storage` is the one whose tests must fail. Every commit that the rules
    allow must still be applied.
    """

    rule: str
    storage: Storage
    file: str
    old: str
    new: str
    may_hang: bool = False

    @property
    def name(self) -> str:
        return self.rule

    @property
    def path(self) -> str:
        return f"clew/storage/{self.file}"


@dataclass(frozen=True, slots=True)
class Regression(Change):
    """A change that puts back a fault that was fixed: `promise` is broken again. `file` is below `src/clew/`.

    `tests` is the file of the tests that must fail, below `tests/`, and `chosen` selects them, as
    for `-k`. They are tests that `make test` runs. Usual calls must still work.
    """

    promise: int
    file: str
    old: str
    new: str
    tests: str
    chosen: str
    may_hang: bool = False

    @property
    def name(self) -> str:
        return f"promise {self.promise}"

    @property
    def path(self) -> str:
        return f"clew/{self.file}"


def copy_sources(directory: Path) -> Path:
    """Copy `src/` into `directory`, compile it, and return the path of the copy."""
    copy = directory / "src"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(copy, quiet=2)
    return copy


def mutate(base: Path, directory: Path, mutation: Change) -> Path:
    """Copy `base` (from `copy_sources`) with the mutation into `directory`; return its path."""
    copy = directory / "src"
    shutil.copytree(base, copy)
    changed = copy / mutation.path
    changed.write_text(mutation.mutated(base))
    for compiled in changed.parent.glob(f"__pycache__/{changed.stem}.*"):
        compiled.unlink()
    return copy

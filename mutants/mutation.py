"""A mutation: one change of one source file, and a copy of the sources with it."""

from __future__ import annotations

import compileall
import shutil
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


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change that breaks `rule`: in `file` (below `src/clew/storage/`), `new` replaces
    `old`, which occurs exactly once.

    `storage` is the one whose tests must fail. Every commit that the rules
    allow must still be applied.
    """

    rule: str
    storage: Storage
    file: str
    old: str
    new: str

    @property
    def path(self) -> str:
        """The path of the file below `src/`."""
        return f"clew/storage/{self.file}"

    def mutated(self, sources: Path = SOURCES) -> str:
        """Return the mutated text. Raises MutationError unless `old` occurs exactly once."""
        text = (sources / self.path).read_text()
        if (found := text.count(self.old)) != 1:
            raise MutationError(f"{self.rule} in {self.file}: {self.old!r} occurs {found} times, not once")
        if self.old == self.new:
            raise MutationError(f"{self.rule} in {self.file}: nothing is changed")
        mutated = text.replace(self.old, self.new)
        if self.file.endswith(".py"):
            try:
                compile(mutated, self.path, "exec")
            except SyntaxError as error:
                raise MutationError(f"{self.rule} in {self.file}: {error}") from error
        return mutated


def copy_sources(directory: Path) -> Path:
    """Copy `src/` into `directory`, compile it, and return the path of the copy."""
    copy = directory / "src"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(copy, quiet=2)
    return copy


def mutate(base: Path, directory: Path, mutation: Mutation) -> Path:
    """Copy `base` (from `copy_sources`) with the mutation into `directory`; return its path."""
    copy = directory / "src"
    shutil.copytree(base, copy)
    changed = copy / mutation.path
    changed.write_text(mutation.mutated(base))
    for compiled in changed.parent.glob(f"__pycache__/{changed.stem}.*"):
        compiled.unlink()
    return copy

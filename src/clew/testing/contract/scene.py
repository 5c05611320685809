"""Scenes and cases: the thread that a rule is tested on, and the parts of a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec.structs import replace

from clew.ids import new_id
from clew.model.commit import Commit
from clew.model.records import Basis
from clew.testing.build import checkpoint, commit, row
from clew.testing.driver import DrivenStorage

ANN, BOB = "ann", "bob"
Needs = Literal["journals", "shares_forks"]


@dataclass(slots=True)
class Scene:
    """Ann's thread `t` before the tested commit: checkpoints `c0`, `c1` and later commits."""

    store: DrivenStorage
    basis: Basis
    sequence: int
    head: str
    tokens: list[int] = field(default_factory=list)
    """The tokens of the thread's leases, oldest first."""
    last: str | None = None
    """The end of the thread's chain."""

    def usual(self, commit_id: str | None = None, **parts: Any) -> Commit:
        """Return an agent's next commit. `parent` and `on_conflict` are those of its checkpoint."""
        commit_id = commit_id or new_id()
        named = {name: parts.pop(name) for name in ("parent", "on_conflict", "namespace") if name in parts}
        end = self.basis.next_value
        usual: dict[str, Any] = {
            "user": ANN,
            "basis": self.basis,
            "values": row(end),
            "checkpoint": checkpoint(parts.pop("as_id", commit_id), covers=[(0, 1), (end, end + 1)], **named),
        }
        return commit("t", commit_id=commit_id, **usual | parts)

    def other(self, **parts: Any) -> Commit:
        """Return an untypical commit to the thread."""
        return commit("t", user=ANN, **{"basis": self.basis, **parts})

    def apply(self, made: Commit) -> None:
        """Apply a commit that a case needs, and update the scene."""
        outcome = self.store.apply(made)
        if made.thread_id == "t":
            self.saw(made, outcome.basis)

    def saw(self, made: Commit, basis: Basis | None = None) -> None:
        """Update the scene for `made`, which is applied before the tested commit."""
        if basis is None:
            basis = replace(self.basis, next_value=made.values.end if made.values else self.basis.next_value)
        self.basis = basis
        self.sequence += 1
        if made.checkpoint and made.checkpoint.namespace == "":
            self.head = made.checkpoint.checkpoint_id
        self.last = made.commit_id if made.journal is not None or made.after else None


def new_scene(store: DrivenStorage) -> Scene:
    """Return a store with thread `t`, from which every case starts."""
    first = commit("t", commit_id="c0", user=ANN, values=row(0, 3), checkpoint=checkpoint("c0", covers=[(0, 3)]))
    basis = store.apply(first).basis
    assert basis is not None
    scene = Scene(store, basis, sequence=1, head="c0")
    scene.apply(scene.usual("c1"))
    return scene


def a_usual_one(scene: Scene) -> Commit:
    return scene.usual()


Step = Callable[[Scene], None]
Make = Callable[[Scene], Commit]


def applied(*makers: Make) -> Step:
    """Return a step that applies commits, each made after the previous ones were applied."""

    def prepare(scene: Scene) -> None:
        for make in makers:
            scene.apply(make(scene))

    return prepare


nothing = applied()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to break a rule.

    `prepare` sets up the scene. `refused` and `allowed` make the two commits from it.
    `clear` removes the obstacle for the refused commit, and returns the commit to retry
    under the same id. `before` makes a commit after which the storage knows the thread.
    `needs` names the required capabilities.
    """

    refused: Make
    allowed: Make
    clear: Callable[[Scene, Commit], Commit]
    prepare: Step = nothing
    before: Make = a_usual_one
    needs: tuple[Needs, ...] = field(default=())

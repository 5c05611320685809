"""The scene of a rule's case: a thread as the next commit finds it, and what makes up a case."""

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
    """Thread `t` of Ann as the next commit finds it: checkpoints `c0`, `c1` and whatever came after them."""

    store: DrivenStorage
    basis: Basis
    sequence: int
    head: str
    tokens: list[int] = field(default_factory=list)
    """Those of the thread's leases, the last one last."""
    last: str | None = None
    """The end of the thread's chain."""

    def usual(self, commit_id: str | None = None, **parts: Any) -> Commit:
        """The commit that an agent makes next. `parent` and `on_conflict` are those of its checkpoint."""
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
        """A commit to the thread that is not of the usual kind."""
        return commit("t", user=ANN, **{"basis": self.basis, **parts})

    def apply(self, made: Commit) -> None:
        """Apply what a case needs, and see the thread as it is then."""
        outcome = self.store.apply(made)
        if made.thread_id == "t":
            self.saw(made, outcome.basis)

    def saw(self, made: Commit, basis: Basis | None = None) -> None:
        """Go on from `made`, which is applied before the commit in question, and left `basis` if that is known."""
        if basis is None:
            basis = replace(self.basis, next_value=made.values.end if made.values else self.basis.next_value)
        self.basis = basis
        self.sequence += 1
        if made.checkpoint and made.checkpoint.namespace == "":
            self.head = made.checkpoint.checkpoint_id
        self.last = made.commit_id if made.journal is not None or made.after else None


def new_scene(store: DrivenStorage) -> Scene:
    """A store with thread `t`, as every case begins."""
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
    """Commits that a case needs, each made when those before it are applied."""

    def prepare(scene: Scene) -> None:
        for make in makers:
            scene.apply(make(scene))

    return prepare


nothing = applied()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to meet a rule.

    `prepare` makes what the case needs. `refused` and `allowed` make the two commits from the thread as it is. `clear`
    takes away what was in the way of the refused commit, and returns it as it may be tried again, under the same id.
    `before` makes the commit that makes a storage know the thread. `needs` names a capability.
    """

    refused: Make
    allowed: Make
    clear: Callable[[Scene, Commit], Commit]
    prepare: Step = nothing
    before: Make = a_usual_one
    needs: tuple[Needs, ...] = field(default=())

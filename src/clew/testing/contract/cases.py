"""Cases for the rules of a commit: for each rule, a commit that it refuses and
a similar one that it allows.

Wherever the rule permits, they have the shape that storages have fast paths for: a child of the
head with the commit's own id and new values, from a writer that knows the thread. `CASES` has at
least one entry for each rule, and `clew.testing.contract.rules` runs each of them on every path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from clew.ids import new_id
from clew.model.commit import HEAD, After, Begin, Commit, Removal
from clew.model.config import ANY_USER
from clew.testing.build import checkpoint, commit, deletion, fields, fork_of, later, message, row
from clew.testing.contract.scene import ANN, BOB, Case, Make, Needs, Scene, Step, a_usual_one, applied, new_scene


def right(**parts: Any) -> Callable[[Scene, Commit], Commit]:
    """Return a `clear` that corrects the commit itself."""
    return lambda _, refused: replace(refused, **parts)


def after(*makers: Make) -> Callable[[Scene, Commit], Commit]:
    """Return a `clear` that applies other commits, which remove the obstacle."""

    def clear(scene: Scene, refused: Commit) -> Commit:
        applied(*makers)(scene)
        return refused

    return clear


def forgotten(scene: Scene, refused: Commit) -> Commit:
    """Delete the thread with its receipts, and create it again."""
    scene.store.apply(deletion(user=ANN))
    anew = new_scene(scene.store)
    return replace(refused, basis=anew.basis, values=row(anew.basis.next_value))


def begun_again(scene: Scene, refused: Commit) -> Commit:
    """Delete the thread, and create it again with the incarnation that the commit expects."""
    assert refused.basis is not None and refused.values is not None
    begin = Begin(incarnation=refused.basis.incarnation, epoch=refused.basis.epoch)
    scene.store.apply(deletion(user=ANN))
    scene.store.apply(
        commit(user=ANN, begin=begin, values=row(0, refused.values.first), checkpoint=checkpoint("again"))
    )
    return refused


def fork(thread_id: str, source: str, checkpoint_id: str | None = None, **parts: Any) -> Commit:
    return commit(thread_id, user=ANN, fork=fork_of(source, checkpoint_id), **parts)


def of_thread(thread_id: str, **parts: Any) -> Commit:
    """Return the first commit of another thread."""
    commit_id = new_id()
    whole: dict[str, Any] = {"user": ANN, "values": row(0), "checkpoint": checkpoint(commit_id), **parts}
    return commit(thread_id, commit_id=commit_id, **whole)


def two_leases(scene: Scene) -> None:
    for number, holder in enumerate(("me", "you")):
        scene.tokens.append(scene.store.lease(holder, user=ANN, now=later(60 * number), ttl=1).token)


a_fork_of_it = applied(lambda _: fork("f", "t"), a_usual_one, a_usual_one)


def removed(checkpoint_id: str) -> Make:
    return lambda scene: scene.other(remove=Removal(checkpoints=(("", checkpoint_id),)))


def moved(thread_id: str, user: str) -> Make:
    return lambda _: commit(thread_id, user=ANY_USER, thread=fields(user_id=user))


def receipt_case(prepare: Step, refused: Make, *, needs: tuple[Needs, ...] = ()) -> Case:
    """Return a case in which `x` was applied before, and an equal commit was not."""
    return Case(prepare=prepare, refused=refused, allowed=a_usual_one, clear=forgotten, needs=needs)


def x(scene: Scene) -> Commit:
    return scene.usual("x")


def x_as(checkpoint_id: str) -> Make:
    """Make commit `x` with a checkpoint of another id."""
    return lambda scene: scene.usual("x", as_id=checkpoint_id)


CASES: dict[str, dict[str, Case]] = {
    "owner": {
        "another": Case(
            refused=lambda scene: scene.usual(user=BOB),
            allowed=lambda scene: scene.usual(user=ANN),
            clear=after(moved("t", BOB)),
        ),
        "nobody": Case(
            refused=lambda scene: scene.usual(user=None),
            allowed=lambda scene: scene.usual(user=ANY_USER),
            clear=right(user=ANY_USER),
        ),
    },
    "receipt": {
        "own": receipt_case(applied(x), x),
        "messages": receipt_case(applied(lambda scene: scene.other(commit_id="x", messages=[message("m")])), x),
        "removed": receipt_case(applied(x, a_usual_one, removed("x")), x),
        "cleared": receipt_case(applied(x, lambda scene: scene.other(remove=Removal(state=True))), x),
        "replaced": receipt_case(applied(x, lambda scene: scene.usual(as_id="x", values=None)), x_as("y")),
        "other": receipt_case(applied(x_as("y")), x_as("z")),
        "own of another": receipt_case(applied(x), x_as("y")),
        "planted": receipt_case(
            applied(lambda scene: scene.other(thread=fields(user_id=ANN), receipts=["w", "x"])), x, needs=("journals",)
        ),
    },
    "deleted": {
        "another": Case(
            refused=lambda scene: scene.usual(basis=replace(scene.basis, incarnation="another")),
            allowed=a_usual_one,
            clear=begun_again,
            needs=("journals",),
        ),
        "gone": Case(
            refused=lambda scene: of_thread("new", basis=scene.basis),
            allowed=lambda _: of_thread("new"),
            clear=right(basis=None),
        ),
    },
    "epoch": {
        "later": Case(
            refused=lambda scene: scene.usual(basis=replace(scene.basis, epoch=scene.basis.epoch + 1)),
            allowed=a_usual_one,
            clear=after(removed("c0")),
        ),
        "earlier": Case(
            prepare=applied(removed("c0")),
            refused=lambda scene: scene.usual(basis=replace(scene.basis, epoch=scene.basis.epoch - 1)),
            allowed=a_usual_one,
            clear=lambda scene, refused: replace(refused, basis=scene.basis),
        ),
    },
    "after": {
        "another": Case(
            refused=lambda scene: scene.usual(after=After("elsewhere")),
            allowed=lambda scene: scene.usual(after=After(scene.last)),
            clear=after(lambda scene: scene.other(commit_id="elsewhere", messages=[message("m")], journal=b"j")),
            before=lambda scene: scene.usual(journal=b"j"),
            needs=("journals",),
        ),
        "none": Case(
            prepare=applied(lambda scene: scene.usual(journal=b"j")),
            refused=lambda scene: scene.usual(after=After(None)),
            allowed=lambda scene: scene.usual(after=After(scene.last)),
            clear=lambda scene, refused: replace(refused, after=None),
            before=lambda scene: scene.usual(after=After(scene.last), journal=b"j"),
            needs=("journals",),
        ),
        "deleted thread": Case(
            prepare=applied(
                lambda _: of_thread("gone", journal=b"j"),
                lambda _: commit("gone", commit_id="end", user=ANN, remove=Removal(thread=True), journal=b"j"),
            ),
            refused=lambda _: of_thread("gone", after=After(None)),
            allowed=lambda _: of_thread("gone", after=After("end")),
            clear=lambda scene, refused: replace(refused, after=After("end")),
            needs=("journals",),
        ),
        "deleted thread in the journal": Case(
            prepare=applied(
                lambda _: commit("gone", commit_id="end", user=ANN, remove=Removal(), after=After(None)),
            ),
            refused=lambda _: of_thread("gone", after=After("elsewhere"), journal=b"j"),
            allowed=lambda _: of_thread("gone", after=After("end"), journal=b"j"),
            clear=lambda scene, refused: replace(refused, after=None),
            needs=("journals",),
        ),
    },
    "as_of": {
        "earlier": Case(
            refused=lambda scene: scene.other(
                remove=Removal(checkpoints=(("", "c0"),), values=((0, 3),), as_of=scene.sequence - 1)
            ),
            allowed=lambda scene: scene.other(
                remove=Removal(checkpoints=(("", "c0"),), values=((0, 3),), as_of=scene.sequence)
            ),
            clear=lambda scene, refused: replace(
                refused, remove=Removal(checkpoints=(("", "c0"),), as_of=scene.sequence)
            ),
        ),
        "of the whole thread": Case(
            refused=lambda scene: scene.other(
                remove=Removal(thread=True, as_of=scene.sequence - 1), messages=[message("anew")]
            ),
            allowed=lambda scene: scene.other(
                remove=Removal(thread=True, as_of=scene.sequence), messages=[message("anew")]
            ),
            clear=lambda scene, refused: replace(refused, remove=Removal(thread=True, as_of=scene.sequence)),
        ),
    },
    "first": {
        "above": Case(
            refused=lambda scene: scene.usual(values=row(scene.basis.next_value + 1)),
            allowed=a_usual_one,
            clear=after(a_usual_one),
        ),
        "below": Case(
            refused=lambda scene: scene.usual(values=row(scene.basis.next_value - 1, 2)),
            allowed=lambda scene: scene.usual(values=row(scene.basis.next_value, 2)),
            clear=lambda scene, refused: replace(refused, values=row(scene.basis.next_value)),
        ),
        "new thread": Case(
            refused=lambda _: of_thread("new", values=row(1)),
            allowed=lambda _: of_thread("new", values=row(0)),
            clear=after(lambda _: of_thread("new")),
        ),
    },
    "fence": {
        "old": Case(
            prepare=two_leases,
            refused=lambda scene: scene.usual(fence=scene.tokens[0]),
            allowed=lambda scene: scene.usual(fence=scene.tokens[-1]),
            clear=lambda scene, refused: replace(refused, fence=scene.tokens[-1]),
            before=lambda scene: scene.usual(fence=scene.tokens[-1]),
        ),
        "never given": Case(
            refused=lambda scene: scene.usual(fence=9_999),
            allowed=lambda scene: scene.usual(fence=None),
            clear=right(fence=None),
        ),
    },
    "exists": {
        "there": Case(
            prepare=applied(lambda _: of_thread("u")),
            refused=lambda _: fork("u", "t"),
            allowed=lambda _: fork("f", "t"),
            clear=after(lambda _: deletion("u", user=ANN)),
        ),
    },
    "source": {
        "missing": Case(
            refused=lambda _: fork("f", "nowhere"),
            allowed=lambda _: fork("f", "t"),
            clear=after(lambda _: of_thread("nowhere")),
        ),
        "of another": Case(
            prepare=applied(lambda _: of_thread("his", user=BOB)),
            refused=lambda _: fork("f", "his"),
            allowed=lambda _: fork("f", "t"),
            clear=after(moved("his", ANN)),
        ),
    },
    "origin": {
        "missing": Case(
            refused=lambda _: fork("f", "t", "nowhere"),
            allowed=lambda _: fork("f", "t", "c1"),
            clear=after(lambda scene: scene.usual("nowhere")),
        ),
        "empty": Case(
            prepare=applied(lambda _: of_thread("empty", checkpoint=None)),
            refused=lambda _: fork("f", "empty"),
            allowed=lambda _: fork("f", "t"),
            clear=after(lambda _: commit("empty", user=ANN, checkpoint=checkpoint("c"))),
        ),
    },
    "shared": {
        "merged": Case(
            prepare=a_fork_of_it,
            refused=lambda scene: scene.other(merge=[row(0, 4)]),
            allowed=lambda scene: scene.other(merge=[row(4, 2)]),
            clear=after(lambda _: deletion("f", user=ANN)),
            needs=("shares_forks",),
        ),
        "removed": Case(
            prepare=a_fork_of_it,
            refused=lambda scene: scene.other(remove=Removal(values=((3, 4),))),
            allowed=lambda scene: scene.other(remove=Removal(values=((4, 5),))),
            clear=after(lambda _: deletion("f", user=ANN)),
            needs=("shares_forks",),
        ),
    },
    "merge": {
        "past the end": Case(
            refused=lambda scene: scene.other(merge=[row(0, scene.basis.next_value + 1)]),
            allowed=lambda scene: scene.other(merge=[row(0, scene.basis.next_value)]),
            clear=after(a_usual_one),
        ),
        "within a row": Case(
            refused=lambda scene: scene.other(merge=[row(1, 3)]),
            allowed=lambda scene: scene.other(merge=[row(0, 4)]),
            clear=right(merge=(row(0, 4),)),
        ),
    },
    "head": {
        "another": Case(
            refused=lambda scene: scene.usual(parent="later", on_conflict="reject"),
            allowed=lambda scene: scene.usual(parent=scene.head, on_conflict="reject"),
            clear=after(lambda scene: scene.usual("later", values=None)),
        ),
        "earlier": Case(
            refused=lambda scene: scene.usual(parent="c0", on_conflict="reject"),
            allowed=lambda scene: scene.usual(parent="c0", on_conflict="branch"),
            clear=lambda _, refused: replace(refused, checkpoint=checkpoint(refused.commit_id, parent=HEAD)),
        ),
        "none": Case(
            refused=lambda scene: scene.usual(parent=None, on_conflict="reject"),
            allowed=lambda scene: scene.usual(parent=HEAD, on_conflict="reject"),
            clear=lambda _, refused: replace(refused, checkpoint=checkpoint(refused.commit_id, parent=HEAD)),
        ),
        "namespace": Case(
            prepare=applied(
                lambda scene: scene.usual("s0", namespace="sub"), lambda scene: scene.usual("s1", namespace="sub")
            ),
            refused=lambda scene: scene.usual(namespace="sub", parent="s0", on_conflict="reject"),
            allowed=lambda scene: scene.usual(namespace="sub", parent="s1", on_conflict="reject"),
            clear=lambda _, refused: replace(refused, checkpoint=checkpoint(refused.commit_id, namespace="sub")),
        ),
    },
    "parent": {
        "missing": Case(
            refused=lambda scene: scene.usual(basis=None, parent="gone"),
            allowed=lambda scene: scene.usual(basis=None, parent=scene.head),
            clear=after(lambda scene: scene.usual("gone", values=None)),
        ),
        "removed": Case(
            prepare=applied(removed("c0")),
            refused=lambda scene: scene.usual(basis=None, parent="c0"),
            allowed=lambda scene: scene.usual(parent="c0"),
            clear=lambda scene, refused: replace(refused, basis=scene.basis),
        ),
    },
    "new_owner": {
        "another": Case(
            refused=lambda scene: scene.usual(thread=fields(user_id=BOB)),
            allowed=lambda scene: scene.usual(thread=fields(user_id=ANN)),
            clear=right(user=ANY_USER),
        ),
    },
}
"""The cases of each rule, by the names of the rule and the case."""

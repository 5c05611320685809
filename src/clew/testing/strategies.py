"""Hypothesis strategies for the machine, with few names, so that commits affect each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from clew.model.commit import HEAD, BackTo, NewCheckpoint, Removal, ThreadFields
from clew.model.config import ANY_USER, User
from clew.model.records import MOST_TOKENS, AttachmentRecord, MessageRecord, Range, ValueRow
from clew.testing.build import attachment, checkpoint, fields, labels_of, later, message, row

_T = TypeVar("_T")
_Other = TypeVar("_Other")

THREADS = ["t", "u:{%}", "f\0'", "g"]
USERS: list[User] = [None, "ann", "bob", ANY_USER]
NAMESPACES = ["", "sub"]
CHECKPOINTS = ["c0", "c1", "c2", "é"]
MESSAGES = ["m0", "m1", "m2", "m3"]
COMMITS = ["one", "two"]
"""Ids of commits that are repeated, or named as applied elsewhere."""
HOLDERS = ["me", "you"]
RUNS = [None, "r0", "r1"]
LABELS = ["red", "blue", "green"]
TEXTS = ["", "hello", "Hello World", "100%_sure", "東京都 Straße", "nul\0inside", "a"]
NEEDLES = ["", "o", "lo", "hello", "%", "_", "京", "京都", "strasse", "\0", "l\0i", "a"]

seconds = st.sampled_from([0.0, 0.0, 1.0, 2.5, 7.0, -3.0, 90_000.0])
"""Times that repeat and go backwards, and sometimes reach the next day."""


def some(usual: Sequence[_T], others: Sequence[_Other] | st.SearchStrategy[_Other]) -> st.SearchStrategy[_T | _Other]:
    """Return mostly one of `usual`, sometimes one of `others`."""
    rare = others if isinstance(others, st.SearchStrategy) else st.sampled_from(others or usual)
    common: st.SearchStrategy[Any] = st.sampled_from(usual)
    return st.integers(0, 7).flatmap(lambda chance: rare if chance == 7 else common)


def value_rows(first: int, *, count: int | None = None) -> st.SearchStrategy[ValueRow]:
    counts = st.integers(1, 3) if count is None else st.just(count)
    return st.builds(
        lambda count, data: row(first, count, data=data), counts, st.sampled_from([b"", b"data", b"\0\xff"])
    )


@st.composite
def covers_within(draw: st.DrawFn, rows: Sequence[ValueRow]) -> list[Range]:
    """Return ranges of existing values, each within one row."""
    if not rows:
        return []
    chosen = draw(st.lists(st.sampled_from(rows), max_size=3))
    return [(each.first + draw(st.integers(0, each.count - 1)), each.end) for each in chosen]


@st.composite
def subranges(draw: st.DrawFn, rows: Sequence[ValueRow]) -> list[Range]:
    """Return one or two ranges between row borders, sometimes slightly off."""
    borders = sorted({each.first for each in rows} | {each.end for each in rows}) or [0, 1]
    ends = sorted(draw(st.lists(st.sampled_from(borders), min_size=2, max_size=4, unique=True)))
    ends[-1] += draw(st.sampled_from([0, 0, 0, 1]))
    return list(zip(ends[::2], ends[1::2], strict=False))


@st.composite
def new_checkpoints(draw: st.DrawFn, covers: st.SearchStrategy[list[Range]]) -> NewCheckpoint:
    return checkpoint(
        draw(st.sampled_from(CHECKPOINTS)),
        namespace=draw(st.sampled_from(NAMESPACES)),
        parent=draw(st.sampled_from([HEAD, HEAD, None, *CHECKPOINTS])),
        on_conflict=draw(st.sampled_from(["branch", "reject"])),
        node_name=draw(st.sampled_from([None, "node"])),
        step=draw(st.sampled_from([None, 0, 7])),
        run_id=draw(st.sampled_from(RUNS)),
        size=draw(st.integers(0, 9)),
        metadata=draw(st.sampled_from([b"", b"metadata"])),
        body=draw(st.sampled_from([b"", b"body", b"\0\xff"])),
        covers=draw(covers),
        created_at=draw(some([None], seconds.map(later))),
    )


_message = st.builds(
    lambda message_id, text, tool_calls, run_id, at, data, tokens: message(
        message_id, text, tool_calls=tool_calls, run_id=run_id, created_at=later(at), data=data, tokens=tokens
    ),
    st.sampled_from(MESSAGES),
    st.sampled_from(TEXTS),
    st.integers(0, 2),
    st.sampled_from(RUNS),
    seconds,
    st.sampled_from([b"", b"data"]),
    st.sampled_from([(0, 0), (0, 0), (7, 0), (300, MOST_TOKENS)]),
)
_attachment = st.builds(
    lambda checkpoint_id, key, data, namespace: attachment(checkpoint_id, key, data, namespace=namespace),
    st.sampled_from(CHECKPOINTS),
    st.sampled_from(["k0", "k1"]),
    st.sampled_from([b"", b"one", b"other"]),
    st.sampled_from(NAMESPACES),
)
message_lists: st.SearchStrategy[list[MessageRecord]] = st.just([]) | st.lists(_message, max_size=3)
attachment_lists: st.SearchStrategy[list[AttachmentRecord]] = st.just([]) | st.lists(_attachment, max_size=2)


def field_sets(owners: Sequence[str | None]) -> st.SearchStrategy[ThreadFields]:
    return st.builds(
        lambda text, run_id, user_id, labels: fields(text, run_id=run_id, user_id=user_id, labels=labels),
        st.sampled_from(TEXTS),
        st.sampled_from(RUNS),
        some(owners, [None, "ann", "bob"]),
        st.lists(st.sampled_from(LABELS), max_size=2),
    )


_named: st.SearchStrategy[Any] = st.lists(
    st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(CHECKPOINTS)), max_size=3, unique=True
)
removals: st.SearchStrategy[Removal] = st.builds(
    lambda thread, state, checkpoints, messages: Removal(
        thread=thread, state=state, checkpoints=tuple(checkpoints), messages=tuple(messages)
    ),
    st.integers(0, 9).map(lambda chance: chance == 9),
    st.integers(0, 3).map(lambda chance: chance == 3),
    _named,
    st.lists(st.sampled_from(MESSAGES), max_size=2, unique=True),
)

_limits = st.sampled_from([None, 0, 1, 2])
_needles = st.none() | st.sampled_from(NEEDLES)
checkpoint_queries: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "namespace": st.sampled_from([*NAMESPACES, None]),
        "limit": _limits,
        "detail": st.sampled_from(["info", "body", "state"]),
    },
    optional={
        "checkpoint_id": st.sampled_from(CHECKPOINTS),
        "before": st.sampled_from(CHECKPOINTS),
        "run_id": st.sampled_from(RUNS),
    },
)
message_queries: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"search": _needles, "offset": st.integers(0, 3), "limit": _limits, "newest": st.booleans()},
    optional={
        **{name: st.sampled_from(MESSAGES) for name in ("message_id", "after", "before")},
        "branch": st.sampled_from([HEAD, *CHECKPOINTS]),
        "namespace": st.sampled_from(NAMESPACES),
    },
)
search_queries: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"needle": st.sampled_from(NEEDLES[1:]), "limit": _limits},
    optional={"before": st.tuples(seconds.map(later), st.sampled_from(THREADS), st.sampled_from(MESSAGES))},
)
back_tos: st.SearchStrategy[BackTo] = st.sampled_from([BackTo(None), BackTo(parent=True), *map(BackTo, MESSAGES)])
thread_queries: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"search": _needles, "offset": st.integers(0, 2), "limit": _limits},
    optional={
        "thread_id": st.sampled_from(THREADS),
        "labels": st.lists(st.sampled_from(LABELS), max_size=2).map(lambda names: labels_of(*names)),
        "before": st.tuples(seconds.map(later), st.sampled_from(THREADS)),
    },
)
journal_queries: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"thread_id": st.sampled_from(THREADS), "limit": st.sampled_from([0, 1, 2])}
) | st.fixed_dictionaries({"without": st.frozensets(st.sampled_from(THREADS))})

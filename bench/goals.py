"""Goals for the figures, computed from the measures of one workload on one storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bench.figure import Figure
from bench.measure import Measure

SAVE = {"sqlite": 2.0, "postgres": 1.5, "redis": 1.5}
SAVERS = {"sqlite": (3.0, None), "postgres": (1.5, 2.5), "redis": (2.5, None)}
STORED = {"sqlite": 1.0, "postgres": 1.2}
BEFORE = ", before"
"""The end of the name of a target that is an earlier version."""
AHEAD = {"save": 35.0, "savers": 25.0}
"""Required speed-up over LangGraph's saver on PostgreSQL."""


class Table:
    """The measures of one workload on one storage."""

    def __init__(self, storage: str, measures: Sequence[Measure]) -> None:
        self.storage = storage
        self.measures = measures

    def whats(self, prefix: str) -> list[str]:
        """Return the measures whose names begin like this, in order."""
        return list(dict.fromkeys(each.what for each in self.measures if each.what.startswith(prefix)))

    def get(self, what: str, target: str) -> Measure | None:
        return next((each for each in self.measures if (each.what, each.target) == (what, target)), None)

    def ratio(
        self,
        what: str,
        mine: str,
        other: str,
        bound: float,
        *,
        at_least: bool = False,
        faster: bool = False,
        name: str = "",
    ) -> Iterator[Figure]:
        """Return the ratio of `mine` to `other`, or the inverse with `faster`."""
        own, theirs = self.get(what, mine), self.get(what, other)
        if own is None or theirs is None or not own.median or not theirs.median:
            return
        value = theirs.median / own.median if faster else own.median / theirs.median
        label = name or f"{what}: {mine} {'ahead of' if faster else 'against'} {other}"
        yield Figure(label, value, bound, f"{shown(own)} against {shown(theirs)}", at_least=at_least or faster)


def shown(measure: Measure) -> str:
    """Return a measure in human-readable form."""
    value, spread = measure.median, f" ±{measure.spread:.0%}" if measure.count > 1 else ""
    if measure.unit == "ms":
        return f"{value:.3f} ms{spread}" if value < 10 else f"{value:.1f} ms{spread}"
    if measure.unit == "B":
        return (
            f"{value / 1e6:,.2f} MB"
            if abs(value) >= 1e6
            else f"{value / 1e3:,.1f} KB"
            if abs(value) >= 1e3
            else f"{value:,.0f} B"
        )
    if measure.unit == "/s":
        return f"{value:,.0f}/s{spread}"
    return f"{value:,.2f}{measure.unit}"


def growing(table: Table) -> Iterator[Figure]:
    saves = table.whats("save, turn ")
    if table.storage in SAVE and saves:
        yield from _with_encoding(table, saves[-1], SAVE[table.storage])
    if table.storage == "postgres":
        for what in saves:
            yield from table.ratio(what, "clew update", "raw", 1.2)
        yield from table.ratio(saves[-1], "clew", "langgraph", AHEAD["save"], faster=True)
    if table.storage == "memory":
        for what in saves:
            for peer in ("langgraph", "llmfy"):
                yield from table.ratio(what, "clew", peer, 1.0, faster=True)
    own = table.get("JSON", "conversation")
    for names, bound in ((table.whats("stored, turn "), STORED), (table.whats("stored after"), {"sqlite": 0.6})):
        taken = table.get(names[-1], "clew") if names else None
        if taken is not None and own is not None and table.storage in bound:
            how = f"{taken.median:,.0f} of {own.median:,.0f} bytes of JSON"
            yield Figure(
                f"{taken.what}: of the conversation's JSON", taken.median / own.median, bound[table.storage], how
            )
    if table.storage in ("sqlite", "postgres"):
        for what in table.whats("load"):
            yield from table.ratio(what, "clew", "raw", 1.5)


def _with_encoding(table: Table, what: str, bound: float) -> Iterator[Figure]:
    own, raw, encoding = (table.get(what, name) for name in ("clew", "raw", "encoding"))
    if own is not None and raw is not None and encoding is not None:
        how = f"{shown(own)} against a write {shown(raw)} + encoding {shown(encoding)}"
        yield Figure(
            f"{what}: clew against raw + one encoding", own.median / (raw.median + encoding.median), bound, how
        )


def savers(table: Table) -> Iterator[Figure]:
    whole, update = SAVERS.get(table.storage, (None, None))
    for what in table.whats("")[:1]:
        if whole is not None:
            yield from table.ratio(what, "clew", "raw", whole, at_least=True)
        if update is not None:
            yield from table.ratio(what, "clew update", "raw", update, at_least=True)
        if table.storage == "postgres":
            yield from table.ratio(what, "clew", "langgraph", AHEAD["savers"], at_least=True)


def readers(table: Table) -> Iterator[Figure]:
    for what in [each for each in table.whats("") if "loads a second" in each]:
        if table.storage in ("sqlite", "postgres"):
            yield from table.ratio(what, "clew", "raw", 1.0, at_least=True)


def graph(table: Table) -> Iterator[Figure]:
    for what in table.whats("a turn")[-1:]:
        yield from table.ratio(what, "clew", "langgraph", 5.0, faster=True)
        yield from table.ratio(what, "clew", "langgraph delta", 1.0, faster=True)
    for what in table.whats("stored"):
        yield from table.ratio(what, "clew", "langgraph", 0.01)
        yield from table.ratio(what, "clew", "langgraph delta", 1.0)


def threads(table: Table) -> Iterator[Figure]:
    """Compare each call among many threads with the same call among few."""
    calls: dict[str, list[str]] = {}
    for what in table.whats(""):
        calls.setdefault(what.partition(" among ")[0], []).append(what)
    for call, (few, many) in calls.items():
        one, other = table.get(few, "clew"), table.get(many, "clew")
        if one is not None and other is not None:
            name = f"{call}: {many.partition(' among ')[2]} against {few.partition(' among ')[2]}"
            yield Figure(name, other.median / one.median, 1.5, f"{shown(other)} against {shown(one)}")


def shapes(table: Table) -> Iterator[Figure]:
    for measure in table.measures:
        if measure.target == "clew" and "committed" in measure.what:
            yield Figure(measure.what, measure.median, 2.5, "bodies, values and digests of the commits")


def long(table: Table) -> Iterator[Figure]:
    for what in table.whats("save"):
        own, raw = table.get(what, "clew"), table.get(what, "raw")
        if own is not None and raw is not None:
            yield Figure(
                f"{what}: over raw", own.median - raw.median, 4.0, f"{shown(own)} against {shown(raw)}", unit=" ms"
            )
    for what in table.whats("resident memory a save"):
        own = table.get(what, "clew")
        if own is not None:
            yield Figure(f"{what}, of a turn's 1 KB", own.median / 1e3, 16.0, f"{shown(own)} a save")


SLOWER = 1.05
"""Required ratio to an earlier version of Clew."""


def against(measures: Sequence[Measure]) -> Iterator[Figure]:
    """Compare each measure with that of the earlier version."""
    table = Table("", measures)
    for measure in measures:
        if measure.unit in ("ms", "B", "/s"):
            more = measure.unit == "/s"
            bound = 1 / SLOWER if more else SLOWER
            name = f"{measure.what}: {measure.target} against before"
            yield from table.ratio(
                measure.what, measure.target, measure.target + BEFORE, bound, at_least=more, name=name
            )


SEARCH = {"few": 20.0, "many": 100.0}
"""Milliseconds for a search for a word that few or many messages have."""


def search(table: Table) -> Iterator[Figure]:
    if table.storage in ("sqlite", "postgres"):
        for kind, prefix in (("few", "a word that 20 messages"), ("many", "a word that one in ten")):
            for what in table.whats(prefix):
                own = table.get(what, "clew")
                if own is not None:
                    yield Figure(what, own.median, SEARCH[kind], shown(own), unit=" ms")
    for what in table.whats("processor time of a save"):
        yield from table.ratio(what, "with the index", "without the index", 1.05)


def watch(table: Table) -> Iterator[Figure]:
    for what, bound, unit in (
        ("event after the acknowledgement, the slowest of 100", 200.0, " ms"),
        ("one idle watcher, of a core", 0.1, " %"),
        ("each of many idle watchers, of a core", 0.1, " %"),
    ):
        measure = table.get(what, "clew")
        if measure is not None:
            yield Figure(what, measure.median, bound, shown(measure), unit=unit)
    yield from table.ratio("a save", "watched", "unwatched", 1.05)
    yield from table.ratio("processor time of a save", "watched", "unwatched", 1.05)


GOALS: dict[str, Callable[[Table], Iterator[Figure]]] = {
    "growing": growing,
    "savers": savers,
    "readers": readers,
    "graph": graph,
    "threads": threads,
    "shapes": shapes,
    "long": long,
    "search": search,
    "watch": watch,
}


def goals_of(workload: str, storage: str, measures: Sequence[Measure]) -> list[Figure]:
    """Return the goals of a workload for which all measures exist."""
    if workload not in GOALS or not measures:
        return []
    return list(GOALS[workload](Table(storage, measures)))

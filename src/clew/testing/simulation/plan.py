"""Plan of a run: what a seed decides in advance, as numbered decisions that can be left out.

Clients have concurrent lanes; a lane is a sequence of steps. Troubles happen at fixed times. What
is drawn during the run (delays, losses, the order of callbacks) comes from separate random streams
of the seed for each client, so that leaving out one decision changes little else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Literal

Op = Literal[
    "save", "append", "say", "forget", "drop", "attach", "describe", "fork", "clear", "delete", "thin", "compact", "turn",
    "follow", "answer", "rewind", "look", "look-fresh",
]  # fmt: skip
Lane = Literal["own", "shared", "talk", "victims", "turns", "loose", "strict", "back"]
TroubleKind = Literal["kill", "stop", "jump", "crash", "pause", "fill", "cut", "lossy", "slow", "twice"]
"""`kill`, `stop` and `jump` (of the wall clock) happen to a client; `crash`, `pause` and `fill` to
a server; the others to the connections between a client and a server."""

SECONDS: Final = 8.0
"""The approximate virtual time of a run before all faults are healed."""
STEPS: Final = 350
"""The least number of steps of all clients. About two thirds are commits that are acknowledged."""
_WORK: Final[Mapping[Lane, Mapping[Op, int]]] = {
    "own": {
        "save": 40, "forget": 12, "drop": 8, "attach": 6, "describe": 5, "fork": 4, "clear": 2, "delete": 2, "thin": 4,
        "compact": 3, "look": 10, "look-fresh": 3,
    },
    "shared": {"append": 50, "look": 20, "look-fresh": 4, "compact": 2},
    "talk": {"say": 45, "forget": 25, "look": 20, "look-fresh": 3},
    "victims": {"append": 40, "say": 15, "delete": 12, "look": 20},
    "turns": {"turn": 60, "look": 10},
    "loose": {"append": 40, "say": 15, "clear": 6, "delete": 8, "look": 10},
    "strict": {"follow": 60, "delete": 2, "look": 10, "look-fresh": 4},
    "back": {"answer": 50, "rewind": 20, "look": 10, "look-fresh": 4},
}  # fmt: skip
_WHOLE: Final = ("clear", "delete")
"""Removals of a thread's whole state or content."""
_WITHOUT_REMOVALS: Final = ("own", "strict")
"""Lanes that have no such removals in a scenario without `removals`."""
_THREADS: Final[Mapping[Lane, int]] = {"shared": 2, "talk": 2, "victims": 2, "turns": 1, "loose": 2, "strict": 1}
TROUBLES: Final[Mapping[TroubleKind, int]] = {
    "kill": 6, "stop": 4, "jump": 3, "crash": 8, "pause": 6, "fill": 1, "cut": 8, "lossy": 6, "slow": 4, "twice": 4,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A call of a client, at the time `at` or as soon as it can. `draw` decides the rest.

    The times don't depend on the steps before, so leaving out a step changes little for the others.
    """

    number: int
    client: int
    lane: Lane
    op: Op
    thread: str
    draw: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A fault that begins at `at` and lasts `length` seconds; `amount` is its strength."""

    number: int
    at: float
    kind: TroubleKind
    client: int
    server: int
    length: float
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The decisions of a run. Another `salt` gives them another order of events."""

    seed: int
    clients: int
    steps: tuple[Step, ...]
    troubles: tuple[Trouble, ...]
    skews: tuple[float, ...]
    rates: tuple[float, ...]
    salt: int = 0

    @property
    def numbers(self) -> list[int]:
        return [*(each.number for each in self.troubles), *(each.number for each in self.steps)]

    def without(self, numbers: Collection[int]) -> Plan:
        """Return the plan without some of its decisions."""
        return replace(
            self,
            steps=tuple(each for each in self.steps if each.number not in numbers),
            troubles=tuple(each for each in self.troubles if each.number not in numbers),
        )

    def only(self, numbers: Collection[int]) -> Plan:
        """Return the plan with only some of its decisions."""
        return self.without(set(self.numbers) - set(numbers))

    def lanes(self, client: int) -> dict[Lane, list[Step]]:
        lanes: dict[Lane, list[Step]] = {}
        for step in self.steps:
            if step.client == client:
                lanes.setdefault(step.lane, []).append(step)
        return lanes


def make_plan(
    seed: int,
    name: str,
    *,
    lanes: Sequence[Lane],
    removals: bool,
    servers: int,
    steps: int,
    clients: int = 3,
    troubles: Mapping[TroubleKind, int] = TROUBLES,
) -> Plan:
    """Return the plan of a seed for the scenario `name`, with at least `steps` steps in all."""
    chance = Random(f"{seed} {name}")
    numbers = iter(range(1_000_000))
    # Some runs have few troubles, some have many. Most have good clocks.
    troubled = chance.choice((2, 6, 10, 16))
    wrong = chance.choice((0.0, 0.0, 0.5, 5.0, 60.0))
    made: list[Step] = []
    taken = [
        [lane for lane in lanes if lane in ("own", "talk", "strict") or chance.random() < 0.7] for _ in range(clients)
    ]
    each = -(-steps // sum(map(len, taken)))
    for client, mine in enumerate(taken):
        for lane in mine:
            # A third of the steps comes after most troubles, so that each run has commits to judge
            # and shows the recovery.
            spans = chance.choices(((0, SECONDS), (SECONDS, 1.5 * SECONDS)), (2, 1), k=each)
            times = sorted(chance.uniform(*span) for span in spans)
            bare = not removals and lane in _WITHOUT_REMOVALS
            ops = {op: often for op, often in _WORK[lane].items() if not (bare and op in _WHOLE)}
            made += [
                Step(
                    number=next(numbers),
                    client=client,
                    lane=lane,
                    op=op,
                    thread=_thread(lane, client, chance),
                    draw=chance.random(),
                    at=at,
                )
                for at, op in zip(times, chance.choices(list(ops), list(ops.values()), k=each), strict=True)
            ]
    kinds = list(troubles)
    planned = [
        Trouble(
            number=next(numbers),
            at=chance.uniform(0.1, SECONDS),
            kind=kind,
            client=chance.randrange(clients),
            server=chance.randrange(servers),
            length=_length(kind, chance),
            amount=chance.random(),
        )
        for kind in chance.choices(kinds, [troubles[each] for each in kinds], k=troubled)
    ]
    return Plan(
        seed=seed,
        clients=clients,
        steps=tuple(made),
        troubles=tuple(sorted(planned, key=lambda each: each.at)),
        skews=tuple(chance.uniform(-wrong, wrong) for _ in range(clients)),
        rates=tuple(1.0 + chance.uniform(-0.01, 0.01) for _ in range(clients)),
    )


def _length(kind: TroubleKind, chance: Random) -> float:
    length = chance.choice((0.1, 0.5, 1.5, 3.0, 5.0))
    if kind == "stop" and chance.random() < 0.3:
        return 20 * length
    # Every write fails while a disk is full, so a long time shows no more than a short one.
    return min(length, 1.5) if kind == "fill" else length


def _thread(lane: Lane, client: int, chance: Random) -> str:
    if lane in ("own", "back"):
        return f"{lane}-{client}"
    name = {"victims": "victim", "turns": "turn"}.get(lane, lane)
    return f"{name}-{chance.randrange(_THREADS[lane])}"

"""Plan of a run: everything that a seed decides beforehand, as a list of numbered decisions that can be left out one by one.

Clients have lanes, which run beside each other; a lane has steps, one after the other. Troubles come at set times. Whatever is
drawn while the run goes on (delays, losses, the order of callbacks) is drawn by streams of the seed's own for each client, so
that leaving out one decision changes little else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Literal

Op = Literal[
    "save", "append", "say", "forget", "drop", "attach", "describe", "fork", "clear", "delete", "thin", "compact", "turn",
    "look", "look-fresh",
]  # fmt: skip
Lane = Literal["own", "shared", "talk", "victims", "turns", "loose"]
TroubleKind = Literal["kill", "stop", "jump", "crash", "pause", "fill", "cut", "lossy", "slow", "twice"]
"""`kill`, `stop` and `jump` (of the wall clock) happen to a client; `crash`, `pause` and `fill` to a server; the others to the
way from a client to a server."""

SECONDS: Final = 8.0
"""About how long a run takes, in virtual time, before everything is healed."""
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
}  # fmt: skip
_WHOLE: Final = ("clear", "delete")
"""Removals of all that a thread has."""
_THREADS: Final[Mapping[Lane, int]] = {"shared": 2, "talk": 2, "victims": 2, "turns": 1, "loose": 2}
TROUBLES: Final[Mapping[TroubleKind, int]] = {
    "kill": 6, "stop": 4, "jump": 3, "crash": 8, "pause": 6, "fill": 1, "cut": 8, "lossy": 6, "slow": 4, "twice": 4,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that a client does, at a time or as soon as it can. `draw` decides what is still open about it.

    The times don't depend on the steps before: so a step that is left out changes little for the others."""

    number: int
    client: int
    lane: Lane
    op: Op
    thread: str
    draw: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that goes wrong at a time, for so long; `amount` is how much of it."""

    number: int
    at: float
    kind: TroubleKind
    client: int
    server: int
    length: float
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What happens in a run. `salt` gives the same decisions another order of events."""

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
        """The same plan without some of its decisions."""
        return replace(
            self,
            steps=tuple(each for each in self.steps if each.number not in numbers),
            troubles=tuple(each for each in self.troubles if each.number not in numbers),
        )

    def only(self, numbers: Collection[int]) -> Plan:
        """The same plan with some of its decisions alone."""
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
    clients: int = 3,
    steps: int = 300,
    troubles: Mapping[TroubleKind, int] = TROUBLES,
) -> Plan:
    """The plan of a seed for the scenario `name`: so many `steps`, or a few more, in the lanes of all clients together."""
    chance = Random(f"{seed} {name}")
    numbers = iter(range(1_000_000))
    # Some runs have little trouble, some have much; some have wrong clocks, most have good ones.
    troubled = chance.choice((2, 6, 10, 16))
    wrong = chance.choice((0.0, 0.0, 0.5, 5.0, 60.0))
    made: list[Step] = []
    taken = [[lane for lane in lanes if lane in ("own", "talk") or chance.random() < 0.7] for _ in range(clients)]
    each = -(-steps // sum(map(len, taken)))
    for client, mine in enumerate(taken):
        for lane in mine:
            # Some come when the troubles are over, so that each run has commits to judge, and shows how it recovers.
            times = sorted(chance.uniform(0, SECONDS if chance.random() < 0.7 else 1.5 * SECONDS) for _ in range(each))
            ops = {op: often for op, often in _WORK[lane].items() if removals or lane != "own" or op not in _WHOLE}
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
            length=chance.choice((0.1, 0.5, 1.5, 3.0, 5.0)) * (20 if kind == "stop" and chance.random() < 0.3 else 1),
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


def _thread(lane: Lane, client: int, chance: Random) -> str:
    if lane == "own":
        return f"own-{client}"
    name = {"shared": "shared", "talk": "talk", "victims": "victim", "turns": "turn", "loose": "loose"}[lane]
    return f"{name}-{chance.randrange(_THREADS[lane])}"

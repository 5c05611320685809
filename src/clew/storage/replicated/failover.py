"""Which of the two stores serves, and what to do next: decided from what was heard, without I/O and without a clock.

What was heard goes in as events (`after`), what to do comes out (`next_step` for an operation that waits, `next_duty` for the
health check in the background). Whoever runs it does what it says and tells what came of it.

The roles are a record in both stores. Each change has a higher term than the one before, and is made in the *secondary*
with a compare-and-set: so of one term there is one record. A process acts on what it read for `interval` seconds; whoever finds
a new term waits `settle` seconds (a little more) before it acknowledges anything by it. So no two processes serve by
different terms at the same time, as long as both hear the secondary.

A process that hears only the primary can't tell whether the secondary has taken over. In sync mode (`strict`) it serves
nothing: no read is ever behind, and no commit could be acknowledged anyway. In async mode it goes on with the primary, since
that is what async mode is for; but one that has never heard the secondary first waits, so that others can tell the primary.

                  the primary is lost                     it is back, and has caught up
    primary  ──────────────────────────►  secondary  ──────────────────────────────────►  closing  ──►  primary
     serves        term + 1                 serves      term + 1, operations wait      drained  same term
                                               ▲                                          │
                                               └───────────── the primary is lost again ──┘  term + 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

Side = Literal["primary", "secondary"]
NEARLY: Final = 100
"""With at most so many entries left to take over, the primary has nearly caught up: the rest takes a moment."""


class Roles(Struct, frozen=True, kw_only=True):
    """Who serves. `closing`: the primary will, once it has taken over the last entries; nobody serves until then.

    `settled`: so long ago that nobody acts by the term before. A process that has just begun need not wait."""

    term: int
    active: Side
    closing: bool = False
    settled: bool = False

    def follows(self, other: Roles) -> bool:
        """Whether this came after `other`. A failback ends in the term in which it began."""
        return self.order > other.order

    @property
    def order(self) -> tuple[int, bool, bool]:
        return self.term, not self.closing, self.settled


@dataclass(frozen=True, slots=True)
class Silent:
    """What a store that does not answer says."""


SILENT: Final = Silent()
Answer = Roles | None | Silent
"""What a store says of the roles; `None`: it has no record of them."""


class Settings(Struct, frozen=True, kw_only=True):
    """`max_attempts`: after so many failovers in a row that could not be written, operations don't try any more, and each
    health check tries once. `delay`: for how long the primary has to answer before it serves again. `strict`: the secondary has
    to confirm that the primary serves."""

    interval: float
    strict: bool = False
    auto_failover: bool = True
    max_attempts: int = 3
    delay: float = 30.0

    @property
    def settle(self) -> float:
        # Clocks don't all run at the same rate.
        return self.interval * 1.1


class State(Struct, frozen=True, kw_only=True):
    """What one process knows. Times are its monotonic clock's: when it last asked, when it first asked (`began`), and when it
    last asked and the secondary answered (`confirmed`)."""

    roles: Roles | None = None
    asked: float | None = None
    began: float | None = None
    confirmed: float | None = None
    usable: float = 0.0
    primary: Answer = SILENT
    secondary: Answer = SILENT
    primary_since: float | None = None
    backlog: int | None = None
    attempts: int = 0
    failovers: int = 0
    failed_over_at: float | None = None


# What can happen.


class Heard(Struct, frozen=True, kw_only=True):
    """Both stores were asked for the roles, beginning at `asked`."""

    primary: Answer
    secondary: Answer
    asked: float


class Lost(Struct, frozen=True):
    """An operation failed because the store could not be reached, and so did another try. An error of any other kind (an
    unknown thread, a refused commit) is none of this module's business."""

    side: Side


class Changed(Struct, frozen=True):
    """The roles were written to that store."""

    side: Side
    roles: Roles


class Missed(Struct, frozen=True):
    """The store could not be reached to write the roles."""

    side: Side


class Beaten(Struct, frozen=True):
    """Another process changed the roles first."""


class Backlog(Struct, frozen=True):
    """So many entries wait in the secondary to be taken to the primary."""

    count: int


Event = Heard | Lost | Changed | Missed | Beaten | Backlog


# What to do.


class Use(Struct, frozen=True):
    """Work with this store."""

    side: Side
    term: int


class Wait(Struct, frozen=True):
    """Nothing may be acknowledged yet."""

    seconds: float


class Ask(Struct, frozen=True):
    """Ask both stores for the roles, then see."""


class Change(Struct, frozen=True):
    """Write the roles to that store, if nobody has changed them meanwhile."""

    side: Side
    roles: Roles


class Finish(Struct, frozen=True):
    """Take the rest of the entries to the primary, then write the roles there: it serves."""

    roles: Roles


class Fail(Struct, frozen=True):
    """Nothing can be done: tell the caller."""

    reason: str


class Rest(Struct, frozen=True):
    """Nothing is to be done."""


Step = Use | Wait | Ask | Change | Fail
Duty = Ask | Change | Finish | Rest


def after(state: State, event: Event, now: float, settings: Settings) -> State:
    """What is known once `event` has happened."""
    match event:
        case Heard():
            return _heard(state, event, now, settings)
        case Lost(side="primary"):
            return replace(state, primary=SILENT, primary_since=None)
        case Lost():
            return replace(state, secondary=SILENT)
        case Changed(side=side, roles=roles):
            begins = state.roles is None or state.roles.term < roles.term
            state = _adopt(state, roles, now + settings.settle if begins and roles.term > 1 else now, now)
            return replace(state, primary=roles) if side == "primary" else replace(state, secondary=roles)
        case Missed(side=side):
            silenced = after(state, Lost(side), now, settings)
            return replace(silenced, attempts=state.attempts + 1)
        case Beaten():
            return replace(state, asked=None)
        case Backlog(count=count):
            return replace(state, backlog=count)


def _heard(state: State, heard: Heard, now: float, settings: Settings) -> State:
    since = None
    if not isinstance(heard.primary, Silent):
        since = state.primary_since if state.primary_since is not None else now
    records = [answer for answer in (heard.primary, heard.secondary) if isinstance(answer, Roles)]
    best = max(records, key=lambda roles: roles.order, default=None)
    known = state.roles
    state = replace(
        state,
        asked=heard.asked,
        began=heard.asked if state.began is None else state.began,
        confirmed=state.confirmed if isinstance(heard.secondary, Silent) else heard.asked,
        primary=heard.primary,
        secondary=heard.secondary,
        primary_since=since,
    )
    if best is not None and (known is None or best.follows(known)):
        # Others may still act by the term before, if there was one. No clock but this process's own tells for how long.
        settled = best.term == 1 or best.settled
        same_term = known is not None and known.term == best.term
        state = _adopt(state, best, now if settled or same_term else now + settings.settle, now)
    if not isinstance(known_answer(state, _serving(state.roles)), Silent):
        state = replace(state, attempts=0)
    return state


def _adopt(state: State, roles: Roles, usable: float, now: float) -> State:
    if state.roles is None or roles.follows(state.roles):
        began = roles.active == "secondary" and (state.roles is None or state.roles.active == "primary")
        resumed = state.roles is not None and state.roles.closing and began
        state = replace(
            state,
            roles=roles,
            usable=max(usable, state.usable),
            attempts=0,
            backlog=None,
            failovers=state.failovers + (began and not resumed),
            failed_over_at=_since(state, now) if roles.active == "secondary" or roles.closing else None,
        )
    return state


def _since(state: State, now: float) -> float:
    return now if state.failed_over_at is None else state.failed_over_at


def next_step(state: State, now: float, settings: Settings) -> Step:
    """What an operation that waits has to do."""
    if not is_fresh(state, now, settings):
        return Ask()
    primary, secondary = (not isinstance(answer, Silent) for answer in (state.primary, state.secondary))
    roles = state.roles
    if roles is None:
        if not primary:
            return Fail("the primary does not answer, and the stores have not been used together yet")
        return Change("primary", Roles(term=1, active="primary"))
    if roles.closing:
        if not secondary:
            return Fail("the secondary does not answer; the primary has not caught up with it")
        return Wait(settings.interval / 10) if primary else _take_over(roles)
    if roles.active == "primary" and not primary:
        if not secondary:
            return Fail("neither the primary nor the secondary answers")
        if not isinstance(state.secondary, Roles):
            return Fail("the primary does not answer, and the secondary has never been told that it may take over")
        if not settings.auto_failover:
            return Fail("the primary does not answer, and auto_failover is off")
        if state.attempts >= settings.max_attempts:
            return Fail(f"the primary does not answer, and {state.attempts} attempts to fail over did not succeed")
        return _take_over(roles)
    if roles.active == "secondary" and not secondary:
        return Fail("the secondary serves and does not answer; the primary has not caught up with it")
    if roles.active == "primary" and not is_confirmed(state, now, settings):
        if settings.strict:
            return Fail("the secondary does not answer, and only it can tell whether it has taken over (sync mode)")
        if state.confirmed is None and state.began is not None and now < state.began + settings.settle:
            return Wait(state.began + settings.settle - now)
    if roles.active == "primary" and state.secondary is None:
        # From the first commit on that is acknowledged, the secondary may take over.
        return Change("secondary", roles)
    if now < state.usable:
        return Wait(state.usable - now)
    return Use(roles.active, roles.term)


def next_duty(state: State, now: float, settings: Settings) -> Duty:
    """What the health check has to do, after it has asked."""
    step = next_step(state, now, settings)
    if isinstance(step, Ask | Change):
        return step
    roles = state.roles
    if roles is None or isinstance(state.secondary, Silent):
        return Rest()
    if isinstance(state.primary, Silent):
        if roles.active == "primary" and settings.auto_failover and isinstance(state.secondary, Roles):
            # Operations have given up; something may have changed since.
            return _take_over(roles)
        return Rest()
    if roles.closing:
        return Finish(replace(roles, closing=False, settled=True)) if now >= state.usable else Rest()
    for side in ("primary", "secondary"):
        found = known_answer(state, side)
        if found is None or (isinstance(found, Roles) and roles.follows(found)):
            return Change(side, roles)
    if roles.term > 1 and not roles.settled and now >= state.usable:
        return Change("secondary", replace(roles, settled=True))
    if roles.active == "secondary" and _caught_up(state, now, settings):
        return Change("secondary", Roles(term=roles.term + 1, active="primary", closing=True))
    return Rest()


def is_fresh(state: State, now: float, settings: Settings) -> bool:
    """Whether what was read of the roles may still be acted on."""
    return state.asked is not None and now < state.asked + settings.interval


def is_confirmed(state: State, now: float, settings: Settings) -> bool:
    """Whether the secondary has told who serves, and that may still be acted on."""
    return state.confirmed is not None and now < state.confirmed + settings.interval


def holds(state: State, use: Use, now: float, settings: Settings) -> bool | None:
    """Whether the roles by which an operation was done have held until now; `None` if the stores have to be asked."""
    roles = state.roles
    if roles is None or roles.term != use.term:
        return False
    if isinstance(known_answer(state, use.side), Silent):
        return None
    # What the secondary serves, it has to confirm as well.
    fresh = is_confirmed if settings.strict or use.side == "secondary" else is_fresh
    return True if fresh(state, now, settings) else None


def _caught_up(state: State, now: float, settings: Settings) -> bool:
    answered_for = now - state.primary_since if state.primary_since is not None else -1
    return (
        answered_for >= settings.delay and state.backlog is not None and state.backlog <= NEARLY and now >= state.usable
    )


def _take_over(roles: Roles) -> Change:
    return Change("secondary", Roles(term=roles.term + 1, active="secondary"))


def _serving(roles: Roles | None) -> Side:
    return roles.active if roles is not None else "primary"


def known_answer(state: State, side: Side) -> Answer:
    """What that store said when it was last asked."""
    return state.primary if side == "primary" else state.secondary

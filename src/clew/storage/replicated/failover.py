"""Failover decisions: which store serves and what to do next, as pure functions.

Events go in (`after`), decisions come out: `next_step` for a waiting operation, `next_duty` for the
health check in the background. The caller carries out a decision and reports the result as the next
event.

The roles are a record in both stores. Each change has a higher term than the last and is made in
the *secondary* with a compare-and-swap, so each term has one record. A process may use roles that
it has read for `interval` seconds. A process that reads a new term waits `settle` seconds, which is
a little longer, before it acknowledges anything in that term. So no two processes serve in
different terms at the same time, as long as both reach the secondary.

A process that reaches only the primary can't know whether the secondary has taken over. In sync
mode (`strict`) it serves nothing: no read is ever stale, and no commit could be acknowledged
anyway. In async mode it continues with the primary, because availability is the point of async
mode. If it has never reached the secondary, it first waits, so that other processes can write the
new roles to the primary.

                  primary lost                            primary back, and caught up
    primary  ──────────────────────────►  secondary  ──────────────────────────────────►  closing  ──►  primary
     serves        term + 1                 serves      term + 1, operations wait      drained  same term
                                               ▲                                          │
                                               └──────────────── primary lost again ──────┘  term + 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

Side = Literal["primary", "secondary"]
NEARLY: Final = 100
"""The longest journal with which the primary counts as caught up: the rest ships in a moment."""


class Roles(Struct, frozen=True, kw_only=True):
    """The active store in a term.

    `closing`: a failback is under way. No store serves until the primary has received the last
    entries. `settled`: the change is so old that no process uses the previous term. A new process
    need not wait.
    """

    term: int
    active: Side
    closing: bool = False
    settled: bool = False

    def follows(self, other: Roles) -> bool:
        """Return whether these roles are newer than `other`. A failback ends in the term it began in."""
        return self.order > other.order

    @property
    def order(self) -> tuple[int, bool, bool]:
        return self.term, not self.closing, self.settled


@dataclass(frozen=True, slots=True)
class Silent:
    """The answer of a store that does not respond."""


SILENT: Final = Silent()
Answer = Roles | None | Silent
"""A store's answer when asked for the roles; `None` if it has no record of them."""


class Settings(Struct, frozen=True, kw_only=True):
    """Failover settings.

    After `max_attempts` consecutive failovers that could not be written, operations stop trying,
    and each health check tries once. The primary must respond for `delay` seconds before it serves
    again. With `strict`, the secondary must confirm that the primary serves.
    """

    interval: float
    strict: bool = False
    auto_failover: bool = True
    max_attempts: int = 3
    delay: float = 30.0

    @property
    def settle(self) -> float:
        # Longer than `interval`, because clocks run at slightly different rates.
        return self.interval * 1.1


class State(Struct, frozen=True, kw_only=True):
    """The knowledge of one process. Times are from its monotonic clock.

    `asked` is the time of the last query of the roles, `began` of the first one, `confirmed` of the last one
    that the secondary answered. Nothing may be acknowledged before `usable`.
    """

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


# Events


class Heard(Struct, frozen=True, kw_only=True):
    """Both stores were asked for the roles, starting at `asked`."""

    primary: Answer
    secondary: Answer
    asked: float


class Lost(Struct, frozen=True):
    """An operation and a ping failed because the store could not be reached. Other errors, such as
    a refused commit, are not events."""

    side: Side


class Changed(Struct, frozen=True):
    """The roles were written to the store."""

    side: Side
    roles: Roles


class Missed(Struct, frozen=True):
    """The store could not be reached to write the roles."""

    side: Side


class Beaten(Struct, frozen=True):
    """Another process changed the roles first."""


class Backlog(Struct, frozen=True):
    """The secondary's journal has `count` entries for the primary."""

    count: int


Event = Heard | Lost | Changed | Missed | Beaten | Backlog


# Decisions


class Use(Struct, frozen=True):
    """Use this store."""

    side: Side
    term: int


class Wait(Struct, frozen=True):
    """Wait: nothing may be acknowledged yet."""

    seconds: float


class Ask(Struct, frozen=True):
    """Ask both stores for the roles, then decide again."""


class Change(Struct, frozen=True):
    """Write the roles to the store, unless another process has changed them."""

    side: Side
    roles: Roles


class Finish(Struct, frozen=True):
    """Ship the remaining entries to the primary, then write the roles there, so that it serves."""

    roles: Roles


class Fail(Struct, frozen=True):
    """Raise an error to the caller."""

    reason: str


class Rest(Struct, frozen=True):
    """Do nothing."""


Step = Use | Wait | Ask | Change | Fail
Duty = Ask | Change | Finish | Rest


def after(state: State, event: Event, now: float, settings: Settings) -> State:
    """Return the state after `event`."""
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
        # Other processes may still use the previous term, if there was one, and only this process's
        # own clock can measure for how long.
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
    """Decide what a waiting operation does next."""
    if not is_fresh(state, now, settings):
        return Ask()
    primary, secondary = (not isinstance(answer, Silent) for answer in (state.primary, state.secondary))
    roles = state.roles
    if roles is None:
        if not primary:
            return Fail("the primary does not answer, and these stores have never been used together")
        return Change("primary", Roles(term=1, active="primary"))
    if roles.closing:
        if not secondary:
            return Fail("the secondary does not answer, and the primary has not caught up with it")
        return Wait(settings.interval / 10) if primary else _take_over(roles)
    if roles.active == "primary" and not primary:
        if not secondary:
            return Fail("neither the primary nor the secondary answers")
        if not isinstance(state.secondary, Roles):
            return Fail(
                "the primary does not answer, and the secondary has no record of the roles, so it can't take over"
            )
        if not settings.auto_failover:
            return Fail("the primary does not answer, and auto_failover is off")
        if state.attempts >= settings.max_attempts:
            return Fail(f"the primary does not answer, and {state.attempts} attempts to fail over have failed")
        return _take_over(roles)
    if roles.active == "secondary" and not secondary:
        return Fail("the secondary serves but does not answer, and the primary has not caught up with it")
    if roles.active == "primary" and not is_confirmed(state, now, settings):
        if settings.strict:
            return Fail("the secondary does not answer, and sync mode needs its confirmation that the primary serves")
        if state.confirmed is None and state.began is not None and now < state.began + settings.settle:
            return Wait(state.began + settings.settle - now)
    if roles.active == "primary" and state.secondary is None:
        # The secondary must be able to take over from the first acknowledged commit on.
        return Change("secondary", roles)
    if now < state.usable:
        return Wait(state.usable - now)
    return Use(roles.active, roles.term)


def next_duty(state: State, now: float, settings: Settings) -> Duty:
    """Decide what the health check does next, after it has asked both stores."""
    step = next_step(state, now, settings)
    if isinstance(step, Ask | Change):
        return step
    roles = state.roles
    if roles is None or isinstance(state.secondary, Silent):
        return Rest()
    if isinstance(state.primary, Silent):
        if roles.active == "primary" and settings.auto_failover and isinstance(state.secondary, Roles):
            # Operations have given up, but the secondary may accept the change by now.
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
    """Return whether the last answers may still be used."""
    return state.asked is not None and now < state.asked + settings.interval


def is_confirmed(state: State, now: float, settings: Settings) -> bool:
    """Return whether the secondary's last answer may still be used."""
    return state.confirmed is not None and now < state.confirmed + settings.interval


def holds(state: State, use: Use, now: float, settings: Settings) -> bool | None:
    """Return whether the roles that an operation used still hold; `None` if the stores must be asked."""
    roles = state.roles
    if roles is None or roles.term != use.term:
        return False
    if isinstance(known_answer(state, use.side), Silent):
        return None
    # The secondary itself must confirm that it serves.
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
    """Return the store's last answer."""
    return state.primary if side == "primary" else state.secondary

"""Shrinking of a failing run: leaves out decisions while the same kind of fault is found."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from clew.testing.simulation.plan import Plan
from clew.testing.simulation.scenarios import Scenario
from clew.testing.simulation.world import simulate

RUNS: Final = 600
"""The maximum number of runs."""


def shrink(
    scenario: Scenario,
    plan: Plan,
    kinds: Collection[str],
    *,
    runs: int = RUNS,
    report: Callable[[int, int], None] = lambda runs, left: None,
) -> Plan:
    """Return a smaller plan that still finds one of `kinds`; `plan` itself if there is none.

    Leaves out whole clients first, then halves, quarters and so on of the decisions, then single
    ones. Calls `report` with the number of runs so far and of decisions left.
    """
    made = 0

    def fails(candidate: Plan) -> bool:
        nonlocal made
        made += 1
        return any(kind in kinds for kind in simulate(scenario, plan.seed, plan=candidate).findings.counts)

    for client in range(plan.clients):
        candidate = plan.without({each.number for each in plan.steps if each.client == client})
        if candidate.steps and fails(candidate):
            plan = candidate
    size = len(plan.numbers) // 2
    while size and made < runs:
        before = len(plan.numbers)
        at = 0
        while at < len(plan.numbers) and made < runs:
            candidate = plan.without(set(plan.numbers[at : at + size]))
            if fails(candidate):
                plan = candidate
            else:
                at += size
            report(made, len(plan.numbers))
        if size > 1:
            size //= 2
        elif len(plan.numbers) == before:
            break
    return plan


def described(plan: Plan) -> list[str]:
    """Return the decisions of a plan in words."""
    lines = [
        f"{each.at:8.3f}  {each.kind}, client {each.client}, server {each.server}, {each.length:g} s"
        for each in plan.troubles
    ]
    lines += [f"{each.at:8.3f}  client {each.client}: {each.op} {each.thread}" for each in plan.steps]
    return lines

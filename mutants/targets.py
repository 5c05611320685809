"""Targets: the tests that must detect a mutant, fastest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mutants.mutation import NOTIONS, Change, Mutation, Regression, Storage

CASES = "test_a_rule_refuses_what_breaks_it_and_lets_its_neighbour_through"
"""The test that is generated from the table of rules. A case's id begins with its rule's name."""


SUBJECTS = {
    "receipt": "recognised or receipt or repeated",
    "kept": "recognised or receipt",
    "pruned": "forgotten or receipt",
    "planted": "receipt",
    "deleted": "delet",
    "epoch": "remov",
    "after": "chain or journal",
    "as_of": "as_of or since",
    "fence": "fence or lease",
    "merge": "merge",
    "head": "head or parent",
    "parent": "parent",
    "journal": "journal or entr or chain",
    "nothing": "nothing or leaves or refused or fence",
    "branch": "branch or back or conversation",
    "feed": "feed or watch",
}
"""Words in the names of other tests that are likely to fail."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A run of pytest: `tests` are ids or files, `chosen` an expression for `-k`.

    It is an error if no test is chosen, unless the stage is `optional`.
    """

    name: str
    tests: tuple[str, ...]
    chosen: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Runs of pytest that go together, after a probe that makes what must work."""

    name: str
    stages: tuple[Stage, ...]
    probe: str
    """The first argument of `mutants.probe`: a storage, or `API`."""

    @property
    def allowed(self) -> str:
        """The subject of the error that a failed probe raises."""
        return "usual calls" if self.probe == API else "commits that the rules allow"


API = "api"
"""The probe of the public API."""


@dataclass(frozen=True, slots=True)
class Target:
    contract: str
    machine: str | None

    def stages(self, rule: str | None) -> list[Stage]:
        """Return the stages: the rule's cases, tests of its subject, the contract, the state machine."""
        stages = [Stage("contract", (self.contract,))]
        if rule in SUBJECTS:
            stages.insert(0, Stage("contract", (self.contract,), f"({SUBJECTS[rule]}) and not {CASES}", optional=True))
        if rule is not None and rule not in NOTIONS:
            stages.insert(0, Stage("cases", (f"{self.contract}::{CASES}",), f"[{rule}-", optional=True))
        if self.machine is not None:
            stages.append(Stage("machine", (self.machine,)))
        return stages


TARGETS: dict[Storage, Target] = {
    # The state machine compares storages with the memory storage, so it can't test that one.
    "memory": Target("tests/storage/test_contract_memory.py::TestMemoryStorage", None),
    "sqlite": Target(
        "tests/storage/test_contract_sqlite.py::TestSQLiteStorage", "tests/storage/test_machine.py::TestSQLiteMachine"
    ),
    "postgres": Target(
        "tests/storage/test_contract_postgres.py::TestPgStorage",
        "tests/storage/test_contract_postgres.py::TestPostgresMachine",
    ),
    "redis": Target(
        "tests/storage/test_contract_redis.py::TestRedisStorage",
        "tests/storage/test_contract_redis.py::TestRedisMachine",
    ),
}


def group_of(mutation: Change) -> Group:
    """Return the tests that must detect the mutant."""
    if isinstance(mutation, Mutation):
        stages = TARGETS[mutation.storage].stages(mutation.rule)
        return Group(f"{mutation.rule} in {mutation.storage}", tuple(stages), mutation.storage)
    assert isinstance(mutation, Regression)
    return Group(mutation.name, (_stage(mutation.tests, mutation.chosen),), API)


def unmutated(mutations: Iterable[Change]) -> list[Group]:
    """Return the tests of all `mutations`, each once: they must pass without a mutation."""
    storages: dict[Storage, None] = {}
    chosen: dict[str, dict[str, None]] = {}
    for mutation in mutations:
        if isinstance(mutation, Mutation):
            storages[mutation.storage] = None
        elif isinstance(mutation, Regression):
            chosen.setdefault(mutation.tests, {})[mutation.chosen] = None
    groups = [Group(storage, tuple(TARGETS[storage].stages(None)), storage) for storage in storages]
    for tests, expressions in chosen.items():
        together = " or ".join(f"({each})" for each in expressions)
        groups.append(Group(tests, (_stage(tests, together),), API))
    return groups


def _stage(tests: str, chosen: str) -> Stage:
    # Files and no ids: an id would choose tests that `make test` leaves out.
    return Stage(tests.removesuffix(".py"), (f"tests/{tests}",), chosen)

"""Targets: the tests of each storage that must detect its mutants, fastest first."""

from __future__ import annotations

from dataclasses import dataclass

from mutants.mutation import NOTIONS, Storage

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
    """A run of pytest: `tests` are ids, `chosen` an expression for `-k`."""

    name: str
    tests: tuple[str, ...]
    chosen: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    contract: str
    machine: str | None

    def stages(self, rule: str | None) -> list[Stage]:
        """Return the stages: the rule's cases, tests of its subject, the contract, the state machine."""
        stages = [Stage("contract", (self.contract,))]
        if rule in SUBJECTS:
            stages.insert(0, Stage("contract", (self.contract,), f"({SUBJECTS[rule]}) and not {CASES}"))
        if rule is not None and rule not in NOTIONS:
            stages.insert(0, Stage("cases", (f"{self.contract}::{CASES}",), f"[{rule}-"))
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

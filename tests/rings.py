"""The three rings of tests: which tests `make quick`, `make test` and `make test-all` run.

A test belongs to the innermost ring that this module gives it:

- quick: the folders and files in QUICK, without servers, without SLOW and without what is marked `slow`;
- test: everything except FULL, what is marked `full`, and what CAN_BREAK and ALIKE leave out;
- all: everything.

Naming a test by its id (`pytest tests/x.py::test_y`) runs it in any ring.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import pytest

Ring = Literal["quick", "test", "all"]
RING = "CLEW_RING"
"""The environment variable that says which ring runs."""

QUICK = (
    "codec",
    "upkeep",
    "checkpointer",
    "storage/test_contract_memory.py",
    "storage/test_contract_sqlite.py",
    "storage/test_machine.py",
    "storage/test_rules.py",
    "test_ids.py",
    "test_project.py",
)
SLOW = (
    "checkpointer/test_interrupts.py",
    "checkpointer/test_kill.py",
    "checkpointer/test_processes.py",
    "checkpointer/test_random.py",
    "checkpointer/test_storm.py",
    "checkpointer/test_through_a_cache.py",
    "checkpointer/test_urls.py",
)
"""Files of QUICK's folders that start processes or take long."""
FULL = (
    "studio/test_accessibility.py",
    "studio/test_acting.py",
    "studio/test_live.py",
    "studio/test_modules.py",
    "studio/test_scale.py",
    "studio/test_screenshots.py",
    "studio/test_studio.py",
    "drill/test_drill.py",
    "storage/test_postgres_pgbouncer.py",
)
"""Files for the ring all only."""

SHORT = 8
"""How often a state machine runs in the ring quick."""
SHORTER = {
    "TestMemoryMachine": 6,
    "TestCopyingMachine": 8,
    "TestCachedMachine": 8,
    "TestEncryptedMachine": 8,
    "TestPostgresWithRedisMachine": 4,
    "TestRedisClusterMachine": 4,
}
"""How often the state machine of a wrapper runs in the ring test. Those of the storages are not shortened."""
ALIKE = (
    "adapters/langgraph/test_classes.py",
    "adapters/langgraph/test_forks.py",
    "adapters/langgraph/test_ids.py",
    "adapters/langgraph/test_importing.py",
    "adapters/langgraph/test_owners.py",
    "adapters/langgraph/test_pruning.py",
    "adapters/langgraph/test_records.py",
    "adapters/langgraph/test_saver.py",
    "adapters/langgraph/test_size.py",
    "adapters/langgraph/test_snapshots.py",
    "adapters/langgraph/test_thread.py",
    "adapters/langgraph/test_values.py",
    "adapters/llmfy/test_methods.py",
    "adapters/llmfy/test_record.py",
    "adapters/llmfy/test_states.py",
    "adapters/openai/test_session.py",
    "checkpointer/test_bad_input.py",
    "checkpointer/test_fidelity.py",
    "checkpointer/test_provider_messages.py",
    "checkpointer/test_size.py",
)
"""Files whose tests run on every storage and are decided before it: on servers only in the ring all.

Adapters use the public API only. Their graphs, flows, runs, kills and conformance tests run on servers, too.
"""
SERVERS = {"remote", "both", "server"}
"""Fixtures that start a server."""

CAN_BREAK: dict[str, tuple[str, ...]] = {
    # The hot tier has value rows only, and a state is put together from both tiers.
    "cached": ("Checkpoint", "Times", "Value", "Removal", "Fork", "Concurrency"),
    # Sealing changes every record, is bound to the thread (forks), and searches filter what they open.
    "encrypted": (
        "Commit",
        "Times",
        "Content",
        "Fork",
        "Message",
        "Branch",
        "Search",
        "CrossSearch",
        "Attachment",
        "Own",
    ),
    # Every commit is replayed on the second store: order, removals, forks, and what a reopened store knows.
    "replicated": ("Commit", "Times", "Receipt", "Removal", "Fork", "Branch", "Journal", "Durability"),
    # A retry must not apply anything twice. Reads are the same.
    "retried": ("Rule", "Commit", "Times", "Receipt", "Removal", "Fork", "Durability"),
    # Threads of a user, forks and searches touch several slots. One thread is one key.
    "cluster": ("Commit", "Times", "Thread", "CrossSearch", "Owner", "Fork", "Removal", "Own", "Durability"),
    # Every message and description is in the substring indexes at once.
    "indexed": ("Commit", "Message", "Branch", "Search", "CrossSearch", "Thread", "Removal", "Fork", "Durability"),
    # The statements are the same; the parameters are sent in another way.
    "unprepared": ("Commit", "Times", "Content", "Message", "Branch", "Thread"),
}
"""For each kind of wrapper, and for each other way to a storage: the parts of the contract that it can break.

A contract class that sets `kind` runs only these in `make test`. So each kind has one class that doesn't, around the
memory storage or the storage itself, and runs the whole contract.
"""


def in_ring(item: pytest.Item, ring: Ring) -> bool:
    """Return whether `ring` runs the test."""
    if ring == "all":
        return True
    if item.get_closest_marker("full"):
        return False
    if ring == "test":
        return not (_stores_on_server(item) and item.nodeid.split("::")[0].endswith(ALIKE))
    return not (_needs_server(item) or item.get_closest_marker("slow"))


def can_break(contract: Any, test: Any) -> bool:
    """Return whether the class `contract` can fail `test`, a method of it. Only classes with a `kind` say no."""
    kind = getattr(contract, "kind", None)
    part = str(getattr(test, "__qualname__", "")).partition(".")[0]
    return kind is None or not part.endswith("Contract") or part.removesuffix("Contract") in CAN_BREAK[kind]


def rounds(usual: int, full: int) -> int:
    """Return how often to repeat something: `usual` times, or `full` times in the ring all."""
    return full if os.environ.get(RING) == "all" else usual


def outside(path: Path, tests: Path, ring: Ring) -> bool:
    """Return whether the file `path`, below the folder `tests`, has no test of `ring`."""
    name = path.relative_to(tests).as_posix()
    if ring == "all" or path.suffix != ".py" or not path.name.startswith("test_"):
        return False
    return name in FULL or (ring == "quick" and (name in SLOW or not name.startswith(QUICK)))


def examples(machine: str, ring: Ring) -> int | None:
    """Return how often a state machine runs, or None for as often as it says itself."""
    if ring == "quick":
        return SHORT
    return SHORTER.get(machine) if ring == "test" else None


def _stores_on_server(item: pytest.Item) -> bool:
    """Return whether the test's Clew store is on a server. It may use a server for something else."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    store = getattr(parameters.get("store"), "__name__", "").lower()
    return bool(set(getattr(item, "fixturenames", ())) & SERVERS) or store.startswith(("postgres", "redis"))


def _needs_server(item: pytest.Item) -> bool:
    words = item.nodeid.lower()
    fixtures = set(getattr(item, "fixturenames", ()))
    return bool(fixtures & SERVERS) or any(name in words for name in ("postgres", "redis", "cluster"))

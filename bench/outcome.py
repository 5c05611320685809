"""Stored results: one outcome per workload, storage and environment, and the
machine they were measured on."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.figure import Figure
from bench.measure import Measure

PACKAGES = (
    "clew",
    "msgspec",
    "asyncpg",
    "redis",
    "hiredis",
    "langgraph",
    "langgraph-checkpoint",
    "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-postgres",
    "langchain-core",
    "psycopg",
    "10xscale-agentflow",
    "llmfy",
    "openai-agents",
    "sqlalchemy",
    "aiosqlite",
    "psycopg2-binary",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a workload on a storage, in a peer's environment or Clew's own (`clew`)."""

    workload: str
    storage: str
    environment: str
    measures: Sequence[Measure] = ()
    figures: Sequence[Figure] = ()
    left_out: Sequence[tuple[str, str, str]] = ()
    code: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    load: float = 0.0
    """The load average of the last minute at the end."""

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Outcome:
        figures = [{name: value for name, value in each.items() if name != "holds"} for each in kept["figures"]]
        return cls(
            **{
                **kept,
                "measures": [Measure(**each) for each in kept["measures"]],
                "figures": [Figure(**each) for each in figures],
                "left_out": [tuple(each) for each in kept["left_out"]],
            }
        )

    def to_dict(self) -> dict[str, Any]:
        figures = [asdict(each) | {"holds": each.holds} for each in self.figures]
        return asdict(self) | {"measures": [asdict(each) for each in self.measures], "figures": figures}


def write(path: Path, about: Mapping[str, Any], outcomes: Iterable[Outcome]) -> None:
    path.write_text(json.dumps({"about": about, "outcomes": [each.to_dict() for each in outcomes]}, indent=1) + "\n")


def read(path: Path) -> tuple[dict[str, Any], list[Outcome]]:
    kept = json.loads(path.read_text())
    return kept["about"], [Outcome.from_dict(each) for each in kept["outcomes"]]


def about(servers: Mapping[str, str]) -> dict[str, Any]:
    """The machine and the versions of the software."""
    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}, {platform.machine()}",
            "fsync": f"{_fsync() * 1e6:.0f} µs",
        },
        "versions": {"Python": platform.python_version(), "SQLite": sqlite3.sqlite_version, **servers, **packages},
    }


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _fsync() -> float:
    """Return the seconds that an fsync of a small write takes."""
    taken = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(30):
            file.write(b"x" * 1024)
            file.flush()
            begun = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - begun)
    return statistics.median(taken)

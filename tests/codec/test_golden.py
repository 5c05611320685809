"""New code must read old bytes: `tests/golden/` has bodies and rows of every version of the format.

To add a version, run `python -m tests.codec.test_golden` once and commit the new
file; never change an old one.
"""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from clew.codec import frame
from clew.codec.registry import Registry
from clew.codec.rows import OpenRows
from clew.codec.state import StateCodec
from clew.model.records import ValueRow
from tests.codec.thread_log import ThreadLog, message

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = sorted(GOLDEN.glob("format-*.json"))


class Colour(Enum):
    RED = "red"


class Rights(Flag):
    READ = 1
    WRITE = 2


@dataclass
class Plan:
    title: str
    colour: Colour = Colour.RED
    steps: list[Any] = field(default_factory=list)


def registry() -> Registry:
    known = Registry()
    known.register(Plan, name="Plan")
    known.register(Rights, name="Rights")
    return known


def states() -> dict[str, Any]:
    """Return one state for every kind of stored object, the same in every version."""
    return {
        "plain": {
            "text": "Grüße \0 🎈",
            "int": -5,
            "float": 0.1,
            "none": None,
            "flags": [True, False],
            "bytes": b"\xff\0",
        },
        "extended": {
            "tuple": (1, (2, 3)),
            "set": {1, "a"},
            "frozenset": frozenset({(1, 2)}),
            "utc": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
            "offset": datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30))),
            "zone": datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
            "naive": datetime(2026, 1, 2, 3),  # noqa: DTZ001
            "date": date(2026, 2, 28),
            "time": time(23, 59, 1),
            "timedelta": timedelta(days=-1, microseconds=7),
            "uuid": UUID(int=7),
            "decimal": Decimal("1.10"),
            "big": [2**64, -(2**90)],
            "complex": 1 + 2j,
            "keys": {1: "one", None: 0, (1, 2): "pair", 2.5: []},
        },
        "classes": {"plan": Plan("go", steps=[Rights.READ | Rights.WRITE, Rights.READ])},
        "root class": Plan("top", steps=[message(n) for n in range(40)]),
        "list": {"messages": [message(n) for n in range(30)]},
        "small items": {"numbers": list(range(2000)), "words": [f"word {n}" for n in range(400)]},
        "large items": {"outputs": [message(n, 9000) for n in range(4)]},
        "long text": {"text": " ".join(message(n)["content"] for n in range(60)), "blob": bytes(range(256)) * 40},
        "many keys": {f"key {n}": f"value {n}" * 5 for n in range(300)},
        "containers": {
            "tuple": tuple(range(3000)),
            "by number": {n: message(n) for n in range(20)},
            "set": set(range(3000)),
        },
        "root list": [message(n) for n in range(12)],
        "root text": "hello",
    }


def write(path: Path) -> None:
    written: dict[str, Any] = {}
    for name, state in states().items():
        log = ThreadLog(registry())
        encoded = log.save(state)
        written[name] = {"body": _text(encoded.body), "rows": [_row_json(row) for row in log.rows]}
    fragmented = ThreadLog(registry())
    for count in range(1, 120):
        fragmented.save(
            {"a": [message(n, 300) for n in range(count)], "b": [message(500 + n, 300) for n in range(count)]}
        )
    written["spine"] = {
        "body": _text(fragmented.saved[-1][0].body),
        "rows": [_row_json(row) for row in fragmented.rows],
    }
    path.write_text(json.dumps(written, indent=1) + "\n")


def _row_json(row: ValueRow) -> dict[str, Any]:
    return {"first": row.first, "count": row.count, "digests": _text(row.digests), "data": _text(row.data)}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def expected() -> dict[str, Any]:
    spine = {"a": [message(n, 300) for n in range(119)], "b": [message(500 + n, 300) for n in range(119)]}
    return states() | {"spine": spine}


def test_there_is_a_golden_file_of_the_current_version() -> None:
    assert GOLDEN / f"format-{frame.VERSION}.json" in FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", sorted(expected()))
def test_every_kind_of_state_written_by_every_version_still_loads(path: Path, name: str) -> None:
    codec = StateCodec(registry(), max_state_bytes=1 << 30)
    stored = json.loads(path.read_text())[name]
    rows = [
        ValueRow(
            first=row["first"],
            count=row["count"],
            digests=base64.b64decode(row["digests"]),
            data=base64.b64decode(row["data"]),
        )
        for row in stored["rows"]
    ]
    body = base64.b64decode(stored["body"])
    assert codec.decode(body, OpenRows(rows)) == expected()[name]
    assert codec.decode_with_memo(body, OpenRows(rows))[0] == expected()[name]


if __name__ == "__main__":
    target = GOLDEN / f"format-{frame.VERSION}.json"
    if target.exists():
        sys.exit(f"{target.name} exists: a format that was released never changes")
    write(target)

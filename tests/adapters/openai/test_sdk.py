"""The documentation lists every test of the SDK that is left out, with the reason."""

from __future__ import annotations

import tomllib
from pathlib import Path

HERE = Path(__file__).parent
PLAN = tomllib.loads((HERE / "sdk" / "tests.toml").read_text("utf-8"))


def test_every_test_of_the_sdk_that_is_left_out_is_documented_with_its_reason():
    page = (HERE.parents[2] / "docs" / "openai-agents.md").read_text("utf-8")
    rows = [f"| `{name}` | {reason} |" for name, reason in PLAN["excluded"].items()]
    assert [row for row in rows if row not in page] == []
    assert page.count("\n| `test_") == len(rows)
    assert all(f"`{name}`" in page for name in PLAN["in_two_steps"])

"""The examples of docs/agentflow.md and docs/migration/agentflow.md run and print the documented output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.adapters.agentflow.support import NAME

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "agentflow.md"
# `py` and not `python`: the examples of the other pages run without Agentflow.
BLOCK = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("page", "count"), [(PAGE, 3), (DOCS / "migration" / "agentflow.md", 1)], ids=["use", "move"])
def test_the_examples_run_and_print_what_they_say(page, count, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(page.read_text("utf-8"))
    assert len(blocks) == count
    namespace: dict[str, object] = {"__name__": "example"}
    for block in blocks:
        code = re.sub(r"\bfrom agentflow\.", f"from {NAME}.", block)
        exec(compile(code, str(page), "exec", dont_inherit=True), namespace)
        assert capsys.readouterr().out.splitlines() == re.findall(r"# -> (.*)$", block, re.MULTILINE)


def test_the_first_example_has_ten_lines():
    first = BLOCK.findall(PAGE.read_text("utf-8"))[0]
    lines = [line for line in first.splitlines() if line and not re.match(r"import|from|store\.release", line)]
    assert len(lines) <= 10

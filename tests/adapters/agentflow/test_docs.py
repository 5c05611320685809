"""The examples of docs/agentflow.md run and print the documented output."""

from __future__ import annotations

import re
from pathlib import Path

from tests.adapters.agentflow.support import NAME

PAGE = Path(__file__).parents[3] / "docs" / "agentflow.md"
# `py` and not `python`: the examples of the other pages run without Agentflow.
BLOCK = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_examples_run_and_print_what_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(blocks) == 3
    namespace: dict[str, object] = {"__name__": "example"}
    for block in blocks:
        code = re.sub(r"\bfrom agentflow\.", f"from {NAME}.", block)
        exec(compile(code, str(PAGE), "exec", dont_inherit=True), namespace)
        assert capsys.readouterr().out.splitlines() == re.findall(r"# -> (.*)$", block, re.MULTILINE)


def test_the_first_example_has_ten_lines():
    first = BLOCK.findall(PAGE.read_text("utf-8"))[0]
    lines = [line for line in first.splitlines() if line and not re.match(r"import|from|store\.release", line)]
    assert len(lines) <= 10

"""Tables and blocks, at the widths of real terminals."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from rich.cells import cell_len

import clew

IDS = [f"1f0a3c{number:02d}-7d1a-6b2e-8001-0a1b2c3d4e5f" for number in range(4)]
"""As long as LangGraph's."""


@pytest.fixture
def long_ids(path):
    with clew.connect(f"sqlite:///{path}") as memory:
        for step, name in enumerate(IDS, start=-1):
            node = "call_the_model" if step >= 0 else None
            memory.put_checkpoint("t", {"n": step, "x": "y" * 300}, step=step, node_name=node, new_id=name)
        memory.put_thread("t", {"thread_name": "A name that a table can cut a little"})
        memory.put_messages("t", [{"role": "user", "content": "a word to find"}])
    return path


@pytest.mark.parametrize("width", sorted({*range(40, 130, 5), 79, 81, 99, 101, 119, 121}))
def test_no_line_is_wider_than_the_terminal(width, long_ids, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    for command in ("history t", "threads", "search find", "stats"):
        shown = run(*command.split()).stdout
        for line in shown.splitlines():
            assert cell_len(line.rstrip()) <= width, f"{command}: {line}"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_no_name_of_a_column_is_cut(width, long_ids, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    for command in ("history t", "threads", "search find", "stats"):
        lines = run(*command.split()).stdout.splitlines()
        heads = [above for above, line in pairwise(lines) if line.startswith("──")]
        assert not [head for head in heads if "…" in head], command


@pytest.mark.parametrize("width", [60, 80])
def test_a_table_that_does_not_fit_becomes_blocks_with_names(width, long_ids, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run("history", "t").stdout.splitlines()
    assert lines[0] == f"4  {IDS[-1]}"
    assert lines[1] == "  step 2 · node call_the_model · parent #3 · 309 bytes"
    assert re.fullmatch(r"  saved [\d-]+ [\d:]+", lines[2])
    assert lines[-2] == f"1  {IDS[0]}"
    assert re.fullmatch(r"  step -1 · 309 bytes · saved [\d-]+ [\d:]+", lines[-1])


def test_a_table_that_fits_exactly_stays_a_table(long_ids, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    width = max(cell_len(line.rstrip()) for line in run("history", "t").stdout.splitlines())
    shown = {}
    for columns in (width, width - 1):
        monkeypatch.setenv("COLUMNS", str(columns))
        shown[columns] = run("history", "t").stdout
    assert "parent" in shown[width].splitlines()[0]
    # The node's name can be shortened a little.
    assert "call_the_mod…" in shown[width - 1]


def test_blocks_of_statistics_say_what_they_are(long_ids, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = run("stats").stdout.splitlines()
    assert lines[lines.index("largest threads") + 1] == "t"
    assert lines[lines.index("largest threads") + 2] == "  4 checkpoints · 1 message"
    assert "last days (UTC)" in lines

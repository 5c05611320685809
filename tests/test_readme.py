"""Every Python block of README.md and docs/ runs, and prints the text after `# ->`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"# -> (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text("utf-8"))], ids=name_of)
def test_the_examples_run_and_print_what_they_say(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = page.read_text("utf-8")
    namespace: dict[str, object] = {"__name__": "example"}
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        # Preceded by empty lines, so that a traceback has the line number of the page.
        exec(compile("\n" * line + block[1], str(page), "exec", dont_inherit=True), namespace)
        printed = capsys.readouterr().out.splitlines()
        assert printed == SAID.findall(block[1]), f"{name_of(page)}, line {line + 1}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    missing = [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]
    assert missing == []


README = (ROOT / "README.md").read_text("utf-8")


def test_the_readme_is_short_and_begins_with_a_picture_and_an_example_of_twelve_lines():
    assert len(README.splitlines()) < 150
    first = BLOCK.search(README)
    assert first is not None
    assert README.index("](docs/images/demo.svg)") < first.start()
    assert len(first[1].splitlines()) == 12
    assert "memory.turn(" in first[1]


def test_every_figure_that_the_readme_compares_is_in_the_benchmarks():
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    rows = re.findall(r"^\| .* \| ([\d.,]+ ?[A-Za-z/]+) \| ([\d.,]+ ?[A-Za-z/]+) \|$", README, re.MULTILINE)
    assert len(rows) == 3
    assert [figure for row in rows for figure in row if figure not in page] == []

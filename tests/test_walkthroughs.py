"""Pages whose programs are files: a test follows each page in an empty folder and compares the output."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STEP = re.compile(
    r'^```(?:python title="(?P<title>[^"]+)"|(?P<console>console))\n(?P<text>.*?)^```', re.MULTILINE | re.DOTALL
)
ADDITION = re.compile(r"(?P<file>\S+): add (?P<where>above|below) (?P<what>.+)")
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if '```python title="' in page.read_text("utf-8")]


def add(program: str, where: str, what: str, text: str) -> str:
    """Insert `text` above the line `what`, or below the function `what`."""
    if where == "above":
        assert program.count(f"\n{what}\n") == 1
        return program.replace(f"\n{what}\n", f"\n{text}{what}\n")
    body = re.search(rf"^def {what}\(.*?(?=^\S)", program[1:], re.MULTILINE | re.DOTALL)
    assert body is not None
    end = body.end() + 1
    return f"{program[:end]}{text}\n\n{program[end:]}"


def transcript(console: str, folder: Path) -> str:
    """Run the console's commands and return what a terminal would show."""
    shown = ""
    for line in console.splitlines():
        if line.startswith("$ "):
            program, *arguments = shlex.split(line[2:])
            assert program == "python"
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )
            assert done.returncode == 0, done.stderr
            shown += f"{line}\n{done.stdout}"
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_newcomer_who_follows_the_page_sees_what_it_shows(page, tmp_path):
    for step in STEP.finditer(page.read_text("utf-8")):
        if step["console"]:
            assert transcript(step["text"], tmp_path) == step["text"]
        elif addition := ADDITION.fullmatch(step["title"]):
            file = tmp_path / addition["file"]
            file.write_text(add(file.read_text("utf-8"), addition["where"], addition["what"], step["text"]), "utf-8")
        else:
            (tmp_path / step["title"]).write_text(step["text"], "utf-8")


def test_the_tutorial_is_followed():
    assert ROOT / "docs" / "tutorial.md" in PAGES

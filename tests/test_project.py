"""What holds for the whole source tree."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "clew"
MODULES = sorted(PACKAGE.rglob("*.py"))

LONGER_WITH_REASON: frozenset[str] = frozenset()
"""Modules that may have more than 400 lines. Say why beside the name."""


def name_of(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


def test_each_layer_imports_only_what_is_below_it():
    check = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_every_module_says_what_it_is_for(module):
    assert ast.get_docstring(ast.parse(module.read_text("utf-8"))), f"{name_of(module)} has no docstring"


def test_no_module_has_grown_past_one_idea():
    long = {name_of(module) for module in MODULES if len(module.read_text("utf-8").splitlines()) > 400}
    assert long == LONGER_WITH_REASON, "split by reason to change, or take what got shorter off the list"


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").is_file()

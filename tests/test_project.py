"""Checks of the whole source tree."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "clew"
MODULES = sorted(PACKAGE.rglob("*.py"))

LONGER_WITH_REASON: frozenset[str] = frozenset()
"""Modules that may have more than 400 lines, each with the reason."""


def name_of(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


def test_each_layer_imports_only_what_is_below_it():
    check = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_says_what_it_is_for():
    assert [name_of(each) for each in MODULES if not ast.get_docstring(ast.parse(each.read_text("utf-8")))] == []


def test_a_module_is_introduced_by_a_noun_or_a_verb():
    first = {
        name_of(each): (ast.get_docstring(ast.parse(each.read_text("utf-8"))) or " ").split()[:1] for each in MODULES
    }
    asking = {"What", "How", "Which", "Who", "Whom", "Whose", "Where", "Whether", "Why"}
    assert [name for name, words in first.items() if asking.intersection(words)] == []


def test_no_module_has_grown_past_one_idea():
    long = {name_of(module) for module in MODULES if len(module.read_text("utf-8").splitlines()) > 400}
    assert long == LONGER_WITH_REASON, (
        "split the module by reason to change, or remove it from the list if it got shorter"
    )


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").is_file()


BREAKABLE = {"Barrier", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Thread", "Timer"}
"""Classes that take locks in Python code, which an interrupt (Ctrl-C)
leaves held (docs/decisions/0023)."""
UNINTERRUPTED = {
    "os_threads.py": "calls Thread.start in a thread that gets no signals",
    "answers.py": "the lock is the waiter's own",
    "storage/sqlite/wal_checkpoints.py": "a thread of its own, which gets no signals",
    "storage/postgres/connections.py": "asyncpg's pool, not a lock",
}


def breakable(module: Path) -> list[str]:
    """Return the calls in `module` that an interrupt can break."""
    found = []
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="threading"), attr=name)) if name in BREAKABLE:
                found.append(f"threading.{name}")
            case ast.Call(func=ast.Attribute(attr="acquire")):
                found.append("acquire")
            case ast.ImportFrom(module="threading" | "concurrent.futures", names=names):
                found += [each.name for each in names if each.name in BREAKABLE | {"Future", "ThreadPoolExecutor"}]
    return found


def test_no_module_waits_on_what_an_interrupt_can_break():
    shipped = [module for module in MODULES if not name_of(module).startswith(("testing/", "cli/demo/"))]
    assert {name_of(module) for module in shipped if breakable(module)} == set(UNINTERRUPTED)

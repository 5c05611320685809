"""`import clew` loads nothing heavy, and every exported name resolves on first use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import clew

OPTIONAL = {
    "asyncpg",
    "attr",
    "attrs",
    "cryptography",
    "opentelemetry",
    "pydantic",
    "redis",
    "rich",
    "starlette",
    "typer",
}
"""Packages that only some features need."""
HEAVY = OPTIONAL | {"asyncio", "backports.zstd", "compression.zstd", "dataclasses", "msgspec", "ormsgpack", "sqlite3"}


def loaded_after(code: str) -> set[str]:
    """The modules that a new process has loaded after running `code`,
    other than those it starts with."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\nbefore = set(sys.modules)\n{code}\nprint(*set(sys.modules) - before)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_clew_loads_none_of_its_dependencies():
    loaded = loaded_after("import clew")
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("clew")} == {"clew", "clew.errors", "clew.version"}


def test_a_store_in_a_file_needs_no_optional_package_and_no_other_storage(tmp_path):
    loaded = loaded_after(
        f"import clew\nwith clew.connect('sqlite:///{tmp_path.as_posix()}/a.db') as checkpointer:\n"
        f"    checkpointer.put_state('t', {{'n': 1}})\n    assert checkpointer.get_state('t') == {{'n': 1}}"
    )
    assert not loaded & OPTIONAL
    others = ("clew.storage.postgres", "clew.storage.redis", "clew.storage.replicated", "clew.adapters", "clew.cli")
    assert not [name for name in loaded if name.startswith(others)]


def test_every_exported_name_resolves():
    for name in clew.__all__:
        assert getattr(clew, name) is not None
        assert name in dir(clew)


def test_the_names_that_type_checkers_see_are_those_that_are_loaded():
    tree = ast.parse(Path(clew.__file__).read_text("utf-8"))
    checked = {
        alias.name: node.module
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert checked == clew._MODULES  # type: ignore[attr-defined]
    assert {*checked, *(name for name in vars(clew.errors) if name in clew.__all__)} == set(clew.__all__)


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(clew, "conect")

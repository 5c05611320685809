"""Adapters use the public API of checkpointers, and their parts use each other's public methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.adapters.langgraph import ClewSaver

ADAPTERS = Path(clew.__file__).parent / "adapters"
OF_FRAMEWORKS = {
    "_apply_checkpointer_allowlist": "LangGraph tells savers of a graph there",
    "_checkpointer": "Agentflow's compiled graph has its checkpointer there",
    "_funcs": "Agentflow's tool node has its functions there",
    "_has_task_path": "LangGraph's SQLite saver reads old tables with it",
    "_msgpack_ext_hook": "LangGraph's serializer reads numpy arrays with it",
    "_replace": "the method of every named tuple",
}
"""Private names that adapters use on objects that are not Clew's, and why."""


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_accesses(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Accesses to private attributes that the module does not define itself, also those of a base class."""
    own = set(defined(tree))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not private(node.attr):
            continue
        if node.attr not in own and node.attr not in OF_FRAMEWORKS:
            yield node


def defined(tree: ast.AST) -> Iterator[str]:
    """The names of attributes that a module defines: methods, names in classes, and what it assigns on `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(body=body):
                for each in body:
                    targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
                    yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.Attribute(attr=name, ctx=ast.Store()) if is_self(node.value):
                yield name


def is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


@pytest.mark.parametrize("path", sorted(ADAPTERS.rglob("*.py")), ids=lambda path: str(path.relative_to(ADAPTERS)))
def test_no_adapter_touches_a_private_attribute_of_a_checkpointer(path):
    tree = ast.parse(path.read_text("utf-8"))
    assert [ast.unparse(node) for node in private_accesses(tree)] == []
    of_checkpointers = {name for name in dir(clew.connect("memory://")) if private(name)}
    held = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in of_checkpointers]
    assert [
        ast.unparse(node) for node in held if ast.unparse(node.value).rpartition(".")[2].strip("_") in HOLDERS
    ] == []


HOLDERS = ("checkpointer", "store", "runner")
"""The names under which adapters hold a checkpointer."""


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("self.checkpointer._codec", ["self.checkpointer._codec"]),
        ("store._runner.run(work)", ["store._runner"]),
        ("self._runner = self.store", []),
        ("self._parts = parts; self._parts[0].load()", []),
        ("class Part:\n    _names: list[str]\n    def first(self): return self._names[0]", []),
        ("class Classes(Registry):\n    def forget(self, cls): del self._by_class[cls]", ["self._by_class"]),
        ("OWN._by_class", ["OWN._by_class"]),
    ],
)
def test_the_search_for_private_attributes_finds_them(source, found):
    assert [ast.unparse(node) for node in private_accesses(ast.parse(source))] == found


def test_the_saver_extends_langgraphs_base_class_and_nothing_else():
    assert [cls.__name__ for cls in ClewSaver.__mro__] == ["ClewSaver", "BaseCheckpointSaver", "Generic", "object"]

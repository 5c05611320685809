"""A griffe extension: one entry of the reference for each pair of a sync method and its async version.

`put_state = blocking(aput_state)` is an assignment, so griffe sees neither parameters nor a docstring. Here `put_state`
becomes a method with those of `aput_state`, and its text names the async version. `aput_state` has no entry of its
own, only an anchor, so that links find it.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

PAGE = re.compile(r"`?docs/([a-z-]+)\.md`?")


class Twins(griffe.Extension):
    """Documents sync methods with the docstrings of their async versions, and links to pages that docstrings name."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        pair_all(pkg)

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = PAGE.sub(r"[\1](../\1.md)", obj.docstring.value)


def pair_all(scope: griffe.Module | griffe.Class) -> None:
    """Pair the methods of all classes in `scope`."""
    for member in list(scope.members.values()):
        if member.is_alias:
            continue
        if isinstance(member, griffe.Class):
            pair(member)
        if isinstance(member, griffe.Module | griffe.Class):
            pair_all(member)


def pair(cls: griffe.Class) -> None:
    """Give each sync method of `cls` the docstring of its async version."""
    for name, member in list(cls.members.items()):
        method = cls.members.get(f"a{name}")
        if not isinstance(method, griffe.Function) or method.docstring is None:
            continue
        own = member if isinstance(member, griffe.Function) else method
        twin = griffe.Function(name, parameters=own.parameters, returns=own.returns, lineno=member.lineno)
        text = f"{method.docstring.value}\n\nAsync version: `a{name}`."
        if cls.module.path.startswith("clew.checkpointer.") and cls.name.endswith(("Methods", "Checkpointer")):
            text += f"[](){{#clew.Checkpointer.a{name}}}"
        twin.docstring = griffe.Docstring(text, parent=twin)
        method.docstring = None
        cls.set_member(name, twin)

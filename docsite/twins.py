"""A griffe extension: one entry of the reference for each pair of a sync method and its async version.

`put_state = blocking(aput_state)` is an assignment, so griffe sees neither parameters nor a docstring. Here `put_state`
becomes a method with those of `aput_state`, and its text names the async version. `aput_state` has no entry of its
own, only an anchor, so that links find it.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

OTHER_NAME = re.compile(r"blocking\(a(\w+)")
PAGE = re.compile(r"`?docs/([a-z-]+)\.md`?")


class Twins(griffe.Extension):
    """Documents sync methods with the docstrings of their async versions, and links to pages that docstrings name."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        pair_all(pkg)
        # `clew.register` is a bound method: `register = DEFAULT_REGISTRY.register`.
        registry = pkg["codec.registry"]
        method = registry["Registry.register"]
        register = griffe.Function("register", parameters=griffe.Parameters(*list(method.parameters)[1:]))
        register.returns, register.docstring = method.returns, method.docstring
        registry.set_member("register", register)

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
    """Give each sync method of `cls` the docstring of its async version, in the words of sync code."""
    for name, member in list(cls.members.items()):
        found = OTHER_NAME.match(str(member.value)) if isinstance(member, griffe.Attribute) else None
        if found and found[1] != name and isinstance(method := cls.members.get(f"a{found[1]}"), griffe.Function):
            cls.set_member(name, entry(cls, name, method, f"Another name for `{found[1]}`."))
    for name, member in list(cls.members.items()):
        method = cls.members.get(f"a{name}")
        if not isinstance(method, griffe.Function) or method.docstring is None:
            continue
        own = member if isinstance(member, griffe.Function) else method
        said = member.docstring
        if said is None or said.value.startswith("Sync twin"):
            said = method.docstring
        text = (
            said.value.replace(f".a{name}(", f".{name}(").replace("async with ", "with ").replace("async for ", "for ")
        )
        cls.set_member(name, entry(cls, name, own, text))
        method.docstring = None


def entry(cls: griffe.Class, name: str, method: griffe.Function, text: str) -> griffe.Function:
    """Return the entry of a sync method that has the parameters of `method`, with an anchor for its async version."""
    text = f"{text}\n\nAsync version: `a{name}`."
    if cls.module.path.startswith("clew.checkpointer.") and cls.name.endswith(("Methods", "Checkpointer")):
        text += f"[](){{#clew.Checkpointer.a{name}}}"
    twin = griffe.Function(name, parameters=method.parameters, returns=method.returns, lineno=method.lineno)
    twin.docstring = griffe.Docstring(text, parent=twin)
    return twin

"""Quick constructors of frozen dataclasses, for records that lists and saves make by the thousand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")


def quick(cls: type[T]) -> Callable[..., T]:
    """Return a function that makes a `cls` of all its fields, given by name, without defaults or `__post_init__`.

    The constructor of a frozen dataclass assigns each field with `object.__setattr__`, which takes
    several times as long as an assignment. So the fields are assigned to an object of a class that has
    the same slots but is not frozen, and then the object becomes a `cls`.
    """
    names = [each.name for each in fields(cls)]  # type: ignore[arg-type]
    assignments = "\n".join(f"    self.{name} = {name}" for name in names)
    source = f"def __init__(self, *, {', '.join(names)}):\n{assignments}\n    self.__class__ = cls"
    content: dict[str, Any] = {"cls": cls}
    exec(source, content)  # As dataclasses does: from the names of fields only.
    unfrozen = {
        "__slots__": vars(cls).get("__slots__", ()),
        "__orig_bases__": getattr(cls, "__orig_bases__", cls.__bases__),  # Generic looks for its parameters there.
        "__setattr__": object.__setattr__,
        "__init__": content["__init__"],
    }
    return type(f"_Unfrozen{cls.__name__}", cls.__bases__, unfrozen)

"""The Lua scripts: each is `common.lua` followed by a file of its own, and is called by the digest of its text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

_FILES = files(__package__).joinpath("lua")


@dataclass(frozen=True, slots=True)
class Script:
    """One script, as the server knows it."""

    name: str
    text: bytes
    digest: bytes


def _plain(text: str) -> str:
    """`text` without its comments and indentation: it is sent whenever a server does not know the script."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("--"))


def _script(name: str, *, alone: bool = False) -> Script:
    names = [f"{name}.lua"] if alone else ["common.lua", f"{name}.lua"]
    text = "\n".join(_plain(_FILES.joinpath(each).read_text(encoding="utf-8")) for each in names).encode()
    return Script(name, text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())


COMMIT = _script("commit")
CHECKPOINTS = _script("checkpoints")
VALUES = _script("values")
ATTACHMENTS = _script("attachments")
MESSAGES = _script("messages")
THREAD = _script("thread")
TOTALS = _script("totals")
SOURCE = _script("source")
LEASE = _script("lease")
LIST = _script("list", alone=True)
UNLIST = _script("unlist", alone=True)

"""The Lua scripts: files put one after the other, called by the digest of the text."""

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


def _script(name: str, *before: str) -> Script:
    texts = [_FILES.joinpath(f"{each}.lua").read_text(encoding="utf-8") for each in (*before, name)]
    text = "\n".join(map(_plain, texts)).encode()
    return Script(name, text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())


COMMIT = _script("commit", "journal", "receipts", "layout", "rules", "usual", "common", "deciding")
CHECKPOINTS = _script("checkpoints", "layout", "common")
VALUES = _script("values", "layout", "common")
ATTACHMENTS = _script("attachments", "layout", "common")
MESSAGES = _script("messages", "layout", "common")
THREAD = _script("thread", "layout", "common")
FOUND = _script("found")
TOTALS = _script("totals", "layout", "common")
SOURCE = _script("source", "layout", "common")
LEASE = _script("lease", "journal", "layout", "common")
TOKEN = _script("token")
LIST = _script("list")
UNLIST = _script("unlist")
ENTRIES = _script("entries", "journal", "receipts")
SURVEY = _script("survey", "journal")
TRIM = _script("trim", "journal", "layout", "common")
QUIET = _script("quiet", "journal")
PENDING = _script("pending")

"""Lua scripts: each is a concatenation of files, called by its SHA-1 digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

_FILES = files(__package__).joinpath("lua")


@dataclass(frozen=True, slots=True)
class Script:
    """One script, as the server knows it."""

    text: bytes
    digest: bytes


def _stripped(text: str) -> str:
    """Return `text` without comments and indentation, because it is sent over the network."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("--"))


def _text(*names: str) -> str:
    return "\n".join(_stripped(_FILES.joinpath(f"{each}.lua").read_text(encoding="utf-8")) for each in names)


def _script(*names: str) -> Script:
    return _digested(_text(*names))


def _combined(*names: str, before: tuple[str, ...]) -> Script:
    """Return a script with the answers of several, in one snapshot. They share the arguments."""
    answers = ",\n".join(f"(function()\n{_text(each)}\nend)()" for each in names)
    return _digested(f"{_text(*before)}\nreturn {{\n{answers}\n}}")


def _digested(text: str) -> Script:
    packed = text.encode()
    return Script(packed, hashlib.sha1(packed, usedforsecurity=False).hexdigest().encode())


COMMIT = _script(
    "feed", "journal", "receipts", "layout", "rules", "fast_append", "common", "ended", "content_rules", "commit"
)
CHECKPOINTS = _script("layout", "common", "checkpoints")
VALUES = _script("layout", "common", "values")
ATTACHMENTS = _script("layout", "common", "attachments")
MESSAGES = _script("layout", "common", "messages")
SEARCH = _script("layout", "common", "search")
THREAD = _script("layout", "common", "thread")
CONTENT = _combined("thread", "values", "checkpoints", "attachments", "messages", before=("layout", "common"))
SEARCH_THREADS = _script("search_threads")
TOTALS = _script("layout", "common", "totals")
SOURCE = _script("layout", "common", "source")
LEASE = _script("journal", "layout", "common", "ended", "lease")
TOKEN = _script("token")
OWN = _script("own")
LIST = _script("list")
UNLIST = _script("unlist")
ENTRIES = _script("journal", "receipts", "entries")
SURVEY = _script("journal", "survey")
TRIM = _script("journal", "layout", "common", "ended", "trim")
INVALIDATE_LISTING = _script("journal", "invalidate_listing")
LIST_JOURNAL = _script("list_journal")
WATCH = _script("watch")

"""The order of arguments: the store may be named first, as a file or a URL, or after the command."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Final
from urllib.parse import quote

OVERVIEW: Final = "threads"
"""The command for a store without a command."""
_FILES: Final = (".db", ".sqlite", ".sqlite3")


def arranged(arguments: list[str], commands: Container[str]) -> list[str]:
    """Return the arguments with `--url` in front, as the command group reads them.

    `clew FILE.db`, `clew FILE.db history THREAD` and `clew history THREAD --url URL` all name a store. A
    store without a command shows its threads.
    """
    own, after = _split(arguments)
    urls: list[str] = []
    rest: list[str] = []
    words = iter(own)
    for word in words:
        if word == "--url":
            urls += ["--url", *([following] if (following := next(words, None)) is not None else [])]
        elif word.startswith("--url="):
            urls.append(word)
        else:
            rest.append(word)
    if rest and rest[0] not in commands and (url := _store(rest[0])) is not None:
        urls += ["--url", url]
        rest = rest[1:]
    if urls and not rest and not after:
        rest = [OVERVIEW]
    return [*urls, *rest, *after]


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The arguments before `--`, and those from it on, which are no options."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at:]


def _store(word: str) -> str | None:
    """The URL of the store that a first argument names, or `None` if it names none."""
    if "://" in word:
        return word
    if word.startswith("-") or not (word.lower().endswith(_FILES) or Path(word).is_file()):
        return None
    return f"sqlite:///{quote(Path(word).as_posix(), safe='/:')}"

"""An earlier version of Clew in this process, to measure two versions in turn.

The sources of a git revision are copied under another package name, so that both versions can be
imported. Their stores are separate.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

NAME: Final = "clew_before"
ROOT: Final = Path(__file__).parents[1]
_RENAMED: Final = (
    (re.compile(r"^(\s*)import clew$", re.MULTILINE), rf"\1import {NAME} as clew"),
    (re.compile(r"^(\s*)(from|import) clew\b(?! as)", re.MULTILINE), rf"\1\2 {NAME}"),
    # Names that are imported when they are first used.
    (re.compile(r'^(\s*)"clew\.', re.MULTILINE), rf'\1"{NAME}.'),
)


def earlier(revision: str, folder: Path) -> ModuleType:
    """Return the package `clew` of a git revision. `folder` gets its sources."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", revision, "src/clew"]
    made = subprocess.run(command, capture_output=True)
    if made.returncode:
        raise SystemExit(f"no sources of {revision!r}: {made.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(folder, filter="data")
    (folder / "src" / "clew").rename(folder / NAME)
    for path in (folder / NAME).rglob("*.py"):
        text = path.read_text()
        for pattern, replacement in _RENAMED:
            text = pattern.sub(replacement, text)
        path.write_text(text)
    sys.path.insert(0, str(folder))
    return import_module(NAME)

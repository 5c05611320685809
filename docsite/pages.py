"""The pages of the site: those of docs/, and the repository's own pages, with links that hold on the site.

On GitHub a page links to files of the repository. On the site only pages exist: a link to a page that the site has leads
there, and a link to any other file becomes the text alone.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path, PurePosixPath

PROJECT = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "examples/chat/README.md": "project/chat-example.md",
}
"""Pages outside of docs/, and their places on the site."""
LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")
WORD = re.compile(r"\A(```\w+) no-run$", re.MULTILINE)
"""The mark of examples that the tests don't run."""
FENCE = re.compile(r"^(```.*?^```|<!--.*?-->)", re.MULTILINE | re.DOTALL)


def stage(root: Path, into: Path) -> None:
    """Write the site's pages and pictures into the folder `into`, which is made anew."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(root / "docs", into)
    for source in [*sorted((root / "docs").rglob("*.md")), *(root / name for name in PROJECT)]:
        place = source.relative_to(root).as_posix()
        target = into / place_of(place, root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(moved(source.read_text("utf-8"), place, root), "utf-8")


def place_of(path: str, root: Path) -> str:
    """Return the place on the site of a file of the repository, or "" if the site does not have it."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/") if (root / path).is_file() else ""
    return PROJECT.get(path, "")


def moved(text: str, page: str, root: Path) -> str:
    """Return the text of `page` with its links to files as the site needs them. Code is left as it is."""
    here = PurePosixPath(place_of(page, root)).parent

    def link(found: re.Match[str]) -> str:
        named, path, anchor = found[1], found[2], found[3] or ""
        target = os.path.normpath(PurePosixPath(page).parent / path)
        if (root / target / "README.md").is_file():
            target += "/README.md"
        if place := place_of(target, root):
            return f"[{named}]({os.path.relpath(place, here)}{anchor})"
        # A file that does not exist is left for the build to report.
        return named if (root / target).exists() else found[0]

    parts = FENCE.split(text)
    return "".join(WORD.sub(r"\1", part) if FENCE.match(part) else LINK.sub(link, part) for part in parts)

"""Build the documentation site, and fail on anything that Zensical reports.

    python -m docsite.build

Zensical's strict mode fails on links, anchors and references that don't exist. It only prints a line for a name that
mkdocstrings can't find, and says nothing of a page of the navigation or a style sheet that is missing. So here any output
besides the progress is an error, and the built pages' links to files are checked.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from docsite.pages import stage

ROOT = Path(__file__).parent.parent
PROGRESS = re.compile(r"^(Build started|Build finished in .*|No issues found)?$")
COLOUR = re.compile(r"\x1b\[[\d;]*m")
FILES = re.compile(r'(?:href|src)="([^"#?]*)')
HEADING = 'class="doc doc-heading"'
ENTRY = re.compile(
    rf'id="(clew[\w.]+)" {HEADING}>(?:(?!{HEADING}).)*?<div class="doc doc-contents[^"]*">\s*</div>', re.DOTALL
)
"""An entry of the reference without a text."""
ELSEWHERE = re.compile(r"^(?:[a-z]+:|//|$)")


def complaints(output: str) -> list[str]:
    """Return the lines of Zensical's output that don't only report progress."""
    return [line for line in COLOUR.sub("", output).splitlines() if not PROGRESS.match(line.strip())]


def broken(site: Path) -> list[str]:
    """Return the files that the built pages refer to, but that are not in `site`."""
    found: dict[Path, list[str]] = {}
    for page in sorted(site.rglob("index.html")):
        for link in FILES.findall(page.read_text("utf-8")):
            target = (page.parent / link).resolve()
            if not (ELSEWHERE.match(link) or target.is_file() or (target / "index.html").is_file()):
                found.setdefault(target, []).append(page.relative_to(site).as_posix())
    return [
        f"{os.path.relpath(target, site)} does not exist, but {pages[0]} and {len(pages) - 1} other places refer to it"
        for target, pages in sorted(found.items())
    ]


def empty(site: Path) -> list[str]:
    """Return the entries of the reference that have no text."""
    return [
        f"{page.relative_to(site).as_posix()}: the entry of {name} has no text"
        for page in sorted((site / "reference").rglob("index.html"))
        for name in ENTRY.findall(page.read_text("utf-8"))
    ]


def main() -> int:
    """Build and check; return the exit code."""
    began = time.monotonic()
    project = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    stage(ROOT, ROOT / project["docs_dir"])
    zensical = Path(sys.executable).with_name("zensical")
    done = subprocess.run(
        [zensical, "build", "--clean"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
        timeout=600,
        check=False,
    )
    site = ROOT / project["site_dir"]
    wrong = complaints(done.stdout)
    if site.is_dir():
        wrong += broken(site) + empty(site)
    if done.returncode or wrong:
        print(*wrong, sep="\n")
        print(f"docs: {len(wrong)} problems")
        return done.returncode or 1
    pages = sum(1 for _ in site.rglob("index.html"))
    print(f"docs: {pages} pages in {project['site_dir']}, no warnings, in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

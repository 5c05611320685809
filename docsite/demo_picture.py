"""Draw docs/images/demo.svg: a run of `clew demo` in a terminal, shortened.

python -m docsite.demo_picture
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "demo.svg"
COLUMNS = 84
ANSI = re.compile(r"\x1b\[[\d;]*m")
LEAST = 9
"""Parts with fewer lines are shown whole."""


def run() -> str:
    """Return what the demo prints to a terminal with colours."""
    env = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    done = subprocess.run(
        [sys.executable, "-m", "clew", "demo"], env=env, capture_output=True, text=True, timeout=600, check=True
    )
    return done.stdout


def shortened(output: str) -> list[str]:
    """Return the lines up to the fork, with the steps in the middle of a conversation left out."""
    before, _, _ = output.partition("What if?")
    parts = [part.rstrip().splitlines() for part in re.split(r"\n(?:\x1b\[[\d;]*m)*\s*\n", before)]
    lines: list[str] = []
    for part in parts:
        part = [line for line in part if ANSI.sub("", line).strip()]
        if not part:
            continue
        if len(part) > LEAST:
            # Not the second line of a step whose first line is left out.
            end = [line for line in part[-4:] if not ANSI.sub("", line).startswith(" " * 20)]
            part = [*part[:5], "   …", *end]
        lines += [*part, ""]
    return lines[:-1]


def draw(lines: list[str]) -> str:
    """Return a picture of a terminal with `lines`. It loads no font from the network."""
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    console.print(Text("$ clew demo", style="bold"))
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, crop=True)
    svg = console.export_svg(title="clew demo", unique_id="demo")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("font-family: Fira Code, monospace", "font-family: ui-monospace, Menlo, Consolas, monospace")


if __name__ == "__main__":
    PICTURE.write_text(draw(shortened(run())), "utf-8")

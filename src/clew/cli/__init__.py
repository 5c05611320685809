"""The `clew` command: look into a store, check it, tidy it, and see Clew at work. Thin over the public API."""

import sys
from io import TextIOWrapper


def main() -> None:
    """Run the command; what `clew` and `python -m clew` start."""
    # Here and not above: the demo's agent is a module of this package, and starts faster without the command's parts.
    from clew.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        # A terminal or pipe that can't show a character gets a "?" and not a traceback.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="clew")

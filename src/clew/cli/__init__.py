"""The `clew` command: inspects, verifies and cleans up a store, and runs the demo. A
thin layer over the public API."""

import sys
from io import TextIOWrapper


def main() -> None:
    """Run the command: the entry point of `clew` and of `python -m clew`."""
    try:
        # Imported late: the demo's agent process imports this package, and starts
        # faster without the commands.
        from clew.cli.app import app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in {"typer", "rich"}:
            raise
        print(f"clew: the command line needs {missing}: pip install 'clew[cli]'", file=sys.stderr)
        raise SystemExit(2) from None
    for stream in (sys.stdout, sys.stderr):
        # If a terminal or pipe can't encode a character, print "?" instead of a traceback.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="clew")

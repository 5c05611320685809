"""Entry point of `python -m clew.testing.simulation`."""

from __future__ import annotations

import sys

from clew.testing.simulation.command import main

if __name__ == "__main__":
    sys.exit(main())

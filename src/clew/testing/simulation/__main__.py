"""`python -m clew.testing.simulation`: runs many seeds on all cores, replays one, or shrinks it."""

from __future__ import annotations

import sys

from clew.testing.simulation.command import main

if __name__ == "__main__":
    sys.exit(main())

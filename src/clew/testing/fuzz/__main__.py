"""Entry point of `python -m clew.testing.fuzz`."""

import sys

from clew.testing.fuzz.command import main

if __name__ == "__main__":
    sys.exit(main())

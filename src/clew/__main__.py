"""`python -m clew` is the `clew` command."""

from clew.cli import main

if __name__ == "__main__":
    main()

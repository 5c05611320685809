"""The version of Clew."""

__version__ = "0.1.0"

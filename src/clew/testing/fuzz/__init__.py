"""Fuzzing of the public API with arbitrary arguments, and of damaged stores.
Only ClewErrors may be raised.

A case is a kind and a number. The number is the seed of all its random choices, so a case can be
repeated exactly. See `python -m clew.testing.fuzz --help` and docs/drill.md.
"""

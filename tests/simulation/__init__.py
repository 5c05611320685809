"""Tests of the simulator: it finds planted faults, is deterministic, and finds nothing in the real
code."""

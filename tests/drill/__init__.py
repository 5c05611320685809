"""Tests of the drill: short runs, and proof that it can fail."""

"""Verdict on a run with faults: compares the writers' notes with what the stores hold in the end.

`history` has the notes, `entries` the content that each commit carries, `stock` reads the stores,
and `judge` decides. The drill (real servers) and the simulator (`clew.testing.simulation`) share
it.
"""

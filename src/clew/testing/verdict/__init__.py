"""Verdict over a run with faults: what writers noted, what the stores hold in the end, and what is wrong with it.

`history` has the notes, `entries` the content that every commit carries, `stock` reads the stores, `judge` decides. The drill
(real servers) and the simulator (`clew.testing.simulation`) share it.
"""

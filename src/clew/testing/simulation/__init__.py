"""Deterministic simulator: clients, stores and the network between them in one OS process, in virtual time, from a seed.

`simulate(SCENARIOS["sync"], 7)` runs seed 7 and says what is wrong. `python -m clew.testing.simulation --help` runs many.
"""

from clew.testing.simulation.scenarios import SCENARIOS, Scenario
from clew.testing.simulation.world import Outcome, simulate

__all__ = ["SCENARIOS", "Outcome", "Scenario", "simulate"]

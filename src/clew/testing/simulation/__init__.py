"""Deterministic simulator: clients, stores and their network in one OS process, in virtual time.

`simulate(SCENARIOS["sync"], 7)` runs seed 7 and returns what is wrong. To run many seeds, see
`python -m clew.testing.simulation --help`.
"""

from clew.testing.simulation.scenarios import SCENARIOS, Scenario
from clew.testing.simulation.world import Outcome, simulate

__all__ = ["SCENARIOS", "Outcome", "Scenario", "simulate"]

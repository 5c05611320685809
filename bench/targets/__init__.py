"""The registry of targets. Peers are imported only where they are installed."""

from __future__ import annotations

from importlib import import_module

from bench.targets.protocol import PeerError, State, Target, Unsupported

__all__ = ["OWN", "PEERS", "PeerError", "State", "Target", "Unsupported", "targets_of"]

OWN = {
    "raw": "raw:RAW",
    "encoding": "raw:ENCODING",
    "clew": "clew:STATE",
    "clew update": "clew:UPDATE",
}
"""The raw drivers and Clew, which run everywhere."""
PEERS = {
    "langgraph": ("langgraph:PLAIN", "langgraph:DELTA"),
    "agentflow": ("agentflow:ALONE", "agentflow:WITH_REDIS"),
    "llmfy": ("llmfy:CHECKPOINTERS",),
    "openai": ("openai_agents:SESSIONS", "openai_agents:SQLALCHEMY"),
}
"""The targets of each peer. Its requirements are in requirements/, and its
environment is .venv-bench-<name>."""


def targets_of(places: tuple[str, ...], storage: str) -> list[type[Target]]:
    """Return the classes at `places` that run on `storage`."""
    found: list[type[Target]] = []
    for place in places:
        module, _, name = place.partition(":")
        classes: tuple[type[Target], ...] = getattr(import_module(f"bench.targets.{module}"), name)
        found += [each for each in classes if storage in each.storages]
    return found

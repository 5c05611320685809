"""Adapters: Clew under the frameworks that people already run. Each needs its own extra and nothing of the others."""

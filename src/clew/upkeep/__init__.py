"""Upkeep: decisions about what to remove, merge and report. Pure; the checkpointer acts on them."""

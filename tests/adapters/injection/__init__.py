"""Checkpointers by dependency injection."""

"""Each test that takes `store` runs on every storage."""

from tests.checkpointer.conftest import checkpointer, clock, sqlite, store

__all__ = ["checkpointer", "clock", "sqlite", "store"]

"""The public API, on every storage."""

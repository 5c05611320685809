"""Clew inside the frameworks that people already run; each adapter needs only its own extra."""

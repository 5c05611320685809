"""Adapters that put Clew under agent frameworks. Each needs only its own extra."""

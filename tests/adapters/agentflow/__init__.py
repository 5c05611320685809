"""Agentflow: real graphs, on every storage. `make test-agentflow` runs these with a Python that it supports."""

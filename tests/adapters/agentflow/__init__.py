"""Agentflow tests on every storage.

`make test-agentflow` runs them with a Python that Agentflow supports.
"""

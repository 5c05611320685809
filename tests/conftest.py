"""Settings for all tests."""

from __future__ import annotations

import os
import secrets

from hypothesis import settings

# Whoever has a key for OpenAI in the environment does not want the tests to send traces there.
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

# No deadline: a busy machine is not a failure. In CI the same examples each time, so that a red run is the change's.
settings.register_profile("clew", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("clew")

if "CLEW_FRESH" in os.environ:
    # One seed for all processes that pytest-xdist starts.
    os.environ.setdefault("CLEW_SEED", str(secrets.randbits(32)))


def pytest_report_header() -> str | None:
    seed = os.environ.get("CLEW_SEED")
    return f"state machines: fresh steps; CLEW_SEED={seed} takes them again" if seed else None

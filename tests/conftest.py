"""Settings for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# Whoever has a key for OpenAI in the environment does not want the tests to send traces there.
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

# No deadline: a busy machine is not a failure. In CI the same examples each time, so that a red run is the change's.
settings.register_profile("clew", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("clew")

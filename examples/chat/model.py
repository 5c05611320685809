"""A model that needs no key and no network: its answers depend on the question and the attempt only.

Replace `answer` by a call of your provider. It takes what OpenAI's API takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

OPENINGS = ("You said", "In other words", "If I understand you", "Once more")


async def answer(messages: Sequence[Mapping[str, Any]], attempt: int = 0) -> str:
    """Answer the last message."""
    await asyncio.sleep(0.01)  # A real model takes longer. Nothing is locked meanwhile but this thread.
    return f"{OPENINGS[attempt % len(OPENINGS)]}: {messages[-1]['content']}"

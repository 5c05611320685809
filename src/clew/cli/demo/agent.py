"""The demo's agent: a process that plays the conversation and saves after every node.

    python -m clew.cli.demo.agent sqlite:///trip.db

It continues from the stored head. Each line that it prints acknowledges one durable checkpoint. It
runs at most `WINDOW` acknowledgements ahead of its reader, who confirms each with a byte. So the
reader can kill it at full speed and still be sure that it has not finished.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any, Final

import clew
from clew.cli.demo import story

WINDOW: Final = 4
_STDIN, _STDOUT = 0, 1


async def converse(url: str) -> None:
    """Play the conversation from the stored head to its end."""
    config = {"thread_id": story.THREAD, "user_id": story.USER, "run_id": f"{os.getpid()}"}
    async with clew.connect(url) as checkpointer:
        head = await checkpointer.aget_checkpoint(config)
        state = head.state if head is not None else story.opening()
        tell({"resumed_from": head.checkpoint_id if head is not None else None, "step": state["step"]})
        ahead = 0
        for beat in story.BEATS[state["step"] :]:
            state, said = story.play(state, beat)
            saved = await checkpointer.aput_checkpoint(
                config, state, messages=said, node_name=beat.node, step=state["step"], metadata={"turn": beat.turn}
            )
            tell(
                {
                    "checkpoint_id": saved.checkpoint_id,
                    "step": state["step"],
                    "messages": [message.message_id for message in said],
                    "digest": story.digest(state),
                }
            )
            ahead += 1
            if ahead == WINDOW:
                if not os.read(_STDIN, 1):
                    return  # the reader is gone
                ahead -= 1


def tell(facts: dict[str, Any]) -> None:
    """Print one line in a single write, so that the reader gets it whole or not at all."""
    os.write(_STDOUT, json.dumps(facts).encode() + b"\n")


if __name__ == "__main__":
    asyncio.run(converse(sys.argv[1]))

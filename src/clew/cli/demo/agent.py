"""The demo's agent: a process that holds the conversation, saves after every node, and says so on its standard output.

    python -m clew.cli.demo.agent sqlite:///trip.db

It goes on from wherever the stored head is. Each line that it prints is an acknowledgement: what it names is durable.
It may be at most `WINDOW` acknowledgements ahead of its reader, who answers each with a byte. So whoever reads can
kill it in full flight, and yet be sure that it is not done.
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
    """Hold the conversation from where it stands to its end."""
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
                    return  # nobody listens any more
                ahead -= 1


def tell(facts: dict[str, Any]) -> None:
    """One line to whoever listens, in one write, so that it is there whole or not at all."""
    os.write(_STDOUT, json.dumps(facts).encode() + b"\n")


if __name__ == "__main__":
    asyncio.run(converse(sys.argv[1]))

"""A demo conversation in memory, for the studio's first run: a trip that is planned, changed, taken back and booked."""

from __future__ import annotations

from datetime import date
from typing import Any

import clew

_TRIP = {"thread_id": "demo", "user_id": "ana"}
_OFFER = "There is a train:\n\n- TGV 6607, 2 hours\n- **49 EUR** for one\n\nShall I book it?"
_DONE = "Booked: **TGV 6607**, a seat at the window. Have three good days in Lyon!"


def _call(name: str, number: int, arguments: str) -> dict[str, Any]:
    made = {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def _result(number: int, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call-{number}", "content": content}


def demo_conversation() -> clew.BaseCheckpointer:
    """Return a checkpointer with a conversation that branched."""
    memory = clew.connect("memory://")
    state: dict[str, Any] = {"city": "Lyon", "from": date(2027, 5, 7), "nights": 3, "booked": False}
    step = 0

    def say(node: str, message: dict[str, Any], **changes: Any) -> clew.Checkpoint:
        nonlocal state, step
        state = {**state, **changes}
        step += 1
        return memory.put_checkpoint(_TRIP, state, messages=[message], node_name=node, step=step)

    say("listen", {"role": "user", "content": "Three days in **Lyon**, by train. What does it cost?"})
    say("plan", _call("fare", 1, '{"to": "Lyon", "by": "train"}'))
    say("fare", _result(1, "49 EUR, TGV 6607, 2 h"), fare={"eur": 49, "train": "TGV 6607"})
    offered = say("answer", {"role": "assistant", "content": _OFFER})
    say("listen", {"role": "user", "content": "And by bus?"})
    say("answer", {"role": "assistant", "content": "By bus it takes five hours and costs 19 EUR."}, fare={"eur": 19})
    # Ana goes back to the train, and books it.
    memory.rewind(_TRIP, to=offered.checkpoint_id)
    state, step = offered.state, 4
    say("listen", {"role": "user", "content": "Book the train, at the window please."})
    say("plan", _call("book", 2, '{"train": "TGV 6607", "seat": "window"}'))
    say("book", _result(2, '{"reference": "LY-4711", "seat": "12F"}'), booked=True, seat="12F")
    say("answer", {"role": "assistant", "content": _DONE})
    memory.put_thread(_TRIP, {"thread_name": "Three days in Lyon", "tags": ["demo", "rail"]})
    return memory

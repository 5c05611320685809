"""A demo conversation in memory, for the studio's first run: a trip that is planned, changed and taken back."""

from __future__ import annotations

import clew

_ARGUMENTS = {"name": "fare", "arguments": '{"to": "Lyon", "by": "train"}'}
_CALL = {"id": "call-1", "type": "function", "function": _ARGUMENTS}
_ANSWER = "There is a train:\n\n- TGV 6607, 2 hours\n- 49 EUR\n\nShall I book it?"
_TURNS: tuple[tuple[str, dict[str, object], dict[str, object]], ...] = (
    ("ask", {"city": "Lyon"}, {"role": "user", "content": "Three days in **Lyon**, by train. What does it cost?"}),
    ("fare", {"fare": None}, {"role": "assistant", "content": None, "tool_calls": [_CALL]}),
    ("fare", {"fare": {"eur": 49}}, {"role": "tool", "tool_call_id": "call-1", "content": "49 EUR, TGV 6607, 2 h"}),
    ("answer", {"asked": False}, {"role": "assistant", "content": _ANSWER}),
)


def demo_conversation() -> clew.BaseCheckpointer:
    """Return a checkpointer with a conversation that branched."""
    memory = clew.connect("memory://")
    trip = {"thread_id": "demo", "user_id": "ana"}
    state: dict[str, object] = {"plan": [], "asked": True}
    saved = []
    for step, (node, change, message) in enumerate(_TURNS):
        state |= change
        saved.append(memory.put_checkpoint(trip, state, messages=[message], node_name=node, step=step))
    by_bus = {"role": "assistant", "content": "By bus it takes five hours and costs 19 EUR."}
    earlier = {**trip, "checkpoint_id": saved[1].checkpoint_id}
    memory.put_checkpoint(earlier, {**state, "fare": {"eur": 19}}, messages=[by_bus], node_name="answer", step=3)
    memory.put_thread(trip, {"thread_name": "Three days in Lyon", "tags": ["demo", "rail"]})
    return memory

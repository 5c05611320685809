"""The demo's script: the messages and state changes of each node. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import clew

THREAD: Final = "lisbon"
WHAT_IF: Final = "lisbon-what-if"
USER: Final = "ana"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The work of one node: an optional message, and fields of the trip to set."""

    turn: int
    node: str
    role: str = ""
    text: str = ""
    calls: tuple[Mapping[str, Any], ...] = ()
    sets: Mapping[str, Any] = field(default_factory=dict)


def _call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "args": arguments}


HOTELS: Final = (
    ("Casa do Rio", 96),
    ("Alfama Azul", 128),
    ("Pensão Tejo", 58),
    ("Miradouro", 143),
    ("Cais 21", 104),
    ("Hotel Farol", 117),
    ("Varanda", 89),
    ("Quinta da Ponte", 172),
)
"""Names and prices per night."""


def _quotes() -> Iterator[Beat]:
    quotes: dict[str, int] = {}
    for name, price in HOTELS:
        quotes = {**quotes, name: price}
        text = f"{name}: {price} euros a night, {3 * price} for the stay"
        yield Beat(turn=3, node="ask_price", role="tool", text=text, sets={"quotes": quotes})


BEATS: Final = (
    Beat(turn=1, node="listen", role="user", text="Three days in Lisbon in May, two of us, 900 euros."),
    Beat(turn=1, node="plan", sets={"city": "Lisbon", "nights": 3, "budget": 900, "spent": 0}),
    Beat(
        turn=1,
        node="call_tool",
        role="assistant",
        calls=(_call("search_flights", to="Lisbon", on="14 May"),),
    ),
    Beat(turn=1, node="run_tool", role="tool", text="Three: 07:05 for 118 euros, 11:40 for 164, 21:15 for 97"),
    Beat(turn=1, node="answer", role="assistant", text="The 07:05 gives you a whole first day, for 236 euros."),
    Beat(turn=2, node="listen", role="user", text="That one. And a hotel where we can see the river?"),
    Beat(turn=2, node="call_tool", role="assistant", calls=(_call("search_hotels", view="river"),)),
    Beat(turn=2, node="run_tool", role="tool", text=", ".join(name for name, _ in HOTELS)),
    Beat(
        turn=2,
        node="answer",
        role="assistant",
        text="Booked. Eight hotels see the Tejo. Shall I ask them all?",
        sets={"flight": "07:05", "spent": 236},
    ),
    Beat(turn=3, node="listen", role="user", text="Yes, ask them all."),
    *_quotes(),
    Beat(
        turn=3,
        node="answer",
        role="assistant",
        text="Pensão Tejo is cheapest: 174. Casa do Rio, 288, has balconies.",
    ),
    Beat(turn=4, node="listen", role="user", text="Casa do Rio. And a table with fado on Saturday."),
    Beat(
        turn=4,
        node="call_tool",
        role="assistant",
        calls=(_call("book_hotel", name="Casa do Rio"), _call("book_table", music="fado", day="Saturday")),
    ),
    Beat(
        turn=4,
        node="run_tool",
        role="tool",
        text="Casa do Rio: room 31, from 14 to 17 May",
        sets={"hotel": "Casa do Rio", "spent": 524},
    ),
    Beat(
        turn=4,
        node="run_tool",
        role="tool",
        text="A table for two, Saturday 20:30, with fado from nine",
        sets={"table": "Saturday 20:30"},
    ),
    Beat(
        turn=4,
        node="answer",
        role="assistant",
        text="Room 31, with a balcony, then fado. 376 euros are left.",
    ),
)
"""The whole conversation. Beat n is step n + 1."""

BRANCH_STEP: Final = next(step for step, beat in enumerate(BEATS, 1) if beat.turn == 3 and beat.node == "answer")
"""The step from which the what-if branch forks: the prices are known, and nothing is chosen."""

OTHER_WAY: Final = (
    Beat(turn=4, node="listen", role="user", text="What if we take the cheapest, and no table?"),
    Beat(
        turn=4,
        node="run_tool",
        role="tool",
        text="Pensão Tejo: room 4, from 14 to 17 May",
        sets={"hotel": "Pensão Tejo", "spent": 410},
    ),
    Beat(turn=4, node="answer", role="assistant", text="Then 490 euros are left: a day in Sintra."),
)
"""The what-if branch."""


def opening() -> dict[str, Any]:
    """Return the initial state."""
    return {"step": 0, "trip": {}, "messages": []}


def play(state: Mapping[str, Any], beat: Beat) -> tuple[dict[str, Any], list[clew.Message]]:
    """Return the state after `beat`, and its messages."""
    said = [clew.Message(role=beat.role, content=beat.text, tool_calls=beat.calls)] if beat.role else []
    after = {
        "step": state["step"] + 1,
        "trip": {**state["trip"], **beat.sets},
        "messages": [*state["messages"], *(message.to_dict() for message in said)],
    }
    return after, said


def digest(state: Mapping[str, Any]) -> str:
    """Return a digest of a state, to compare acknowledged states with stored ones."""
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()

"""Stores to look at: conversations as a travel agent has them, with branches, tools, pictures and long texts."""

from __future__ import annotations

import base64
import struct
import zlib
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import clew
from clew.testing import FakeClock

START = datetime(2026, 10, 5, 8, 30, tzinfo=UTC)
LISBON = {"thread_id": "trip-lisbon", "user_id": "ana"}
HOTELS = {**LISBON, "checkpoint_ns": "search_hotels:1f0e8a3c-6c5e-4f2b-8001-d1b8a3f0c9aa"}
FARES = {
    **LISBON,
    "checkpoint_ns": "search_trains:77aa8a3c-6c5e-4f2b-8001-d1b8a3f0c9ab|fares:52b1f7c0-0d7e-4be1-9b0a-2f6f1c7d8e90",
}
"""Namespaces as LangGraph names those of subgraphs."""
NAMES = ("Refund for order 1042", "Compare two insurance plans", "Weekly report", "Translate the contract")
TAGS: tuple[list[str], ...] = (["support"], ["support", "urgent"], ["report"], [])
BRIEF = (
    "You plan trips by train. Ask before you book. Prefer day trains, seats at the window, and hotels within "
    "ten minutes of the station. Write prices in euros."
)


def picture(width: int = 240, height: int = 120) -> str:
    """Return a PNG as a data address: a sunset over the sea."""
    rows = []
    for y in range(height):
        sky = y < height * 0.62
        near = [((x - width * 0.6) ** 2 + (y - height * 0.5) ** 2) < 500 for x in range(width)]
        colour = (255, 150 + y // 2, 90 + y) if sky else (30 + y // 3, 70 + y // 4, 120)
        rows.append(b"\0" + b"".join(bytes((255, 226, 140) if sun and sky else colour) for sun in near))

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"".join(rows)))
        + chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(data).decode()


def call(name: str, number: int, arguments: str) -> dict[str, Any]:
    """Return an assistant's message that calls a tool."""
    made = {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


class Story:
    """Saves steps of a conversation, a minute apart."""

    def __init__(self, memory: clew.BaseCheckpointer, clock: FakeClock, config: dict[str, Any]) -> None:
        self.memory, self.clock, self.config = memory, clock, config
        self.state: dict[str, Any] = {}
        self.step = 0

    def say(self, node: str, message: dict[str, Any] | None, _seconds: float = 40.0, **changes: Any) -> clew.Checkpoint:
        """Change the state, save it with a message, and return the checkpoint."""
        self.clock.advance(_seconds)
        self.state = {**self.state, **changes}
        said = [] if message is None else [{**message, "created_at": self.clock.now().isoformat()}]
        saved = self.memory.put_checkpoint(self.config, self.state, messages=said, node_name=node, step=self.step)
        self.step += 1
        return saved


def tell_lisbon(memory: clew.BaseCheckpointer, clock: FakeClock) -> None:
    """A long conversation with tools, a picture, a branch that was given up, and types that JSON lacks."""
    story = Story(memory, clock, LISBON)
    trip: dict[str, Any] = {"city": "Lisbon", "from": date(2026, 11, 20), "nights": 4, "budget": Decimal("650.00")}
    ask = (
        "We want to see **Lisbon** in November, four nights, by train if it works. Budget: 650 EUR. This was last year:"
    )
    shown = [{"type": "text", "text": ask}, {"type": "image_url", "image_url": {"url": picture()}}]
    story.say("listen", {"role": "user", "content": shown}, trip=trip, brief=BRIEF, approved=False)
    story.say("plan", call("search_trains", 1, '{"from": "Madrid", "to": "Lisbon", "date": "2026-11-20"}'), legs=[])
    legs = [
        {"from": "Madrid", "to": "Badajoz", "leaves": datetime(2026, 11, 20, 9, 12, tzinfo=UTC), "price": 39.5},
        {"from": "Badajoz", "to": "Entroncamento", "leaves": datetime(2026, 11, 20, 14, 5, tzinfo=UTC), "price": 11.2},
        {"from": "Entroncamento", "to": "Lisbon", "leaves": datetime(2026, 11, 20, 17, 31, tzinfo=UTC), "price": 14.1},
    ]
    found = "3 legs, 64.80 EUR, arrives 19:02"
    story.say("search_trains", {"role": "tool", "tool_call_id": "call-1", "content": found}, legs=legs)
    story.say("plan", call("search_hotels", 2, '{"city": "Lisbon", "nights": 4, "near": "Santa Apolonia"}'))
    hotels = [
        {"name": name, "price": price, "walk": timedelta(minutes=walk), "stars": stars}
        for name, price, walk, stars in (
            ("Casa do Rio", 84, 6, 3),
            ("Alfama View", 121, 9, 4),
            ("Hostel Azul", 38, 12, 2),
        )
    ]
    story.say(
        "search_hotels",
        {"role": "tool", "tool_call_id": "call-2", "content": "3 hotels near the station"},
        hotels=hotels,
    )
    offer = (
        "### By train, four nights\n\nThere are three legs, and you arrive at **19:02**:\n\n"
        "1. Madrid to Badajoz, 09:12\n2. Badajoz to Entroncamento, 14:05\n3. Entroncamento to Lisbon, 17:31\n\n"
        "| hotel | a night | walk |\n|---|---|---|\n| Casa do Rio | 84 EUR | 6 min |\n| Alfama View | 121 EUR | 9 min |\n\n"
        "With *Casa do Rio* the trip costs `466 EUR` for one. Shall I book it?"
    )
    offered = story.say(
        "answer", {"role": "assistant", "content": offer}, total=Decimal("466.00"), open={"hotel", "date"}
    )
    fly = {"role": "user", "content": "Is a flight cheaper?"}
    story.say("listen", fly)
    story.say("plan", call("search_flights", 3, '{"from": "MAD", "to": "LIS"}'))
    failed = {"role": "tool", "tool_call_id": "call-3", "content": "The airline's service does not answer (504)."}
    story.say("search_flights", failed, errors=["search_flights: 504"])
    sorry = "The flight search does not answer at the moment. I can try again later."
    story.say("answer", {"role": "assistant", "content": sorry})
    # The person goes back to the offer, and books.
    memory.rewind(LISBON, to=offered.checkpoint_id)
    story.state, story.step = dict(offered.state), 6
    story.say("listen", {"role": "user", "content": "Book it, with the hotel near the station."}, approved=True)
    story.say("book", call("book", 4, '{"hotel": "Casa do Rio", "legs": 3, "pay": 466.0}'))
    booked = {"role": "tool", "tool_call_id": "call-4", "content": '{"reference": "LX-20841", "paid": 466.0}'}
    brief = BRIEF.replace("Prefer day trains", "The trip is booked. Prefer day trains").replace("euros", "EUR")
    story.say("book", booked, reference="LX-20841", open=set(), brief=brief)
    done = "Booked: **LX-20841**. Three seats at the window, and four nights at *Casa do Rio*. Have a good trip!"
    story.say("answer", {"role": "assistant", "content": done}, ticket=b"%PDF-1.7 " + bytes(range(64)))
    memory.put_thread(LISBON, {"thread_name": "Four nights in Lisbon", "tags": ["rail", "booked"]})


def search_in_subgraphs(memory: clew.BaseCheckpointer) -> None:
    """Give the conversation about Lisbon two more namespaces: three steps in one, four in the other."""
    for config, nodes in ((FARES, ("ask", "read", "sum")), (HOTELS, ("ask", "fetch", "rank", "done"))):
        for step, node in enumerate(nodes):
            state = {"query": node, "found": [f"{node} {number}" for number in range(step)]}
            memory.put_checkpoint(config, state, node_name=node, step=step)


def rich_store(url: str, *, others: int = 42, now: datetime | None = None) -> None:
    """Fill the store with conversations of six weeks that end a few minutes before `now`."""
    clock = FakeClock(START)
    with clew.connect(url, clock=clock) as memory:
        for number in range(others):
            clock.advance(86_400.0 * (0.4 + (number * 7919 % 13) / 11))
            user = ("ana", "bob", "chi", "dora")[number % 4]
            story = Story(memory, clock, {"thread_id": f"support-{1000 + number * 17}", "user_id": user})
            for turn in range(1 + number * 31 % 9):
                text = f"Please look at number {number * 100 + turn}."
                story.say("listen", {"role": "user", "content": text}, question=text, turn=turn)
                answer = f"Number {number * 100 + turn} is done. The report has {40 + turn} lines."
                story.say("answer", {"role": "assistant", "content": answer}, answer=answer)
            described = {"thread_name": NAMES[number % 4], "tags": TAGS[number % 4]}
            memory.put_thread(story.config, described if number % 5 else {"tags": TAGS[number % 4]})
        if now is not None:
            clock.advance(max(0.0, (now - clock.now()).total_seconds() - 900))
        tell_lisbon(memory, clock)
        memory.fork(
            {**LISBON, "checkpoint_id": memory.list_checkpoints(LISBON)[-6].checkpoint_id}, "trip-lisbon-by-bus"
        )

"""Mistakes that mypy and pyright must find: one in each line with a `# wrong` comment, and no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import clew


@dataclass
class Trip:
    city: str


class Chat(TypedDict):
    messages: list[str]


clew.connect(bogus=1)  # wrong
clew.connect("memory://", retry_for="long")  # wrong
clew.connect("memory://", durability="maybe")  # wrong
clew.InMemoryCheckpointer(bogus=1)  # wrong
clew.InMemoryCheckpointer(schema="x")  # wrong
clew.SQLiteCheckpointer("x.db", synchronous="SOMETIMES")  # wrong
clew.PgCheckpointer("postgresql://x", user_id_type="uuid")  # wrong
trips = clew.connect("memory://", state_type=Trip)
chats = clew.connect("memory://", state_type=Chat)
trips.put_state("t", {"city": "Lisbon"})  # wrong
trips.put_checkpoint("t", Trip("Lisbon"), steps=1)  # wrong
print(trips.get_state("t").city)  # wrong
print(trips.get_history("t")[0].state.town)  # wrong
chats.put_state("t", {"message": []})  # wrong
print(chats.get_history("t")[0].state["message"])  # wrong
trips.turn("t", begin=5)  # wrong
print(trips.turn("t").state.town)  # wrong
trips.list_messages("t", as_="latin")  # wrong
trips.put_state("t", Trip("Lisbon"), foo=1)  # wrong
trips.list_checkpoints("t", limit="all")  # wrong
trips.put_checkpoint("t", Trip("Lisbon"), on_conflict="maybe")  # wrong
config: clew.Config = {"thread_id": "t", "userid": "ana"}  # wrong

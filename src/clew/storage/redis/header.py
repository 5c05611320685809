"""The header of a thread in Redis: its counters, its owner and its times. `lua/layout.lua` describes it."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from clew.model.records import Basis
from clew.storage.columns import LARGEST, damaged_thread
from clew.storage.redis.layout import are_time, incarnation_name, owner_name

_HEADER = struct.Struct(">2s20sIIQQIIIIQQQQIB18s18s")


MOST: Final = {
    "sequence": 0xFFFF0000,
    "epoch": 0xFFFF0000,
    "next_value": 1 << 43,
    "last_message": 1 << 43,
    "groups": 0xFFFF0000,
    "spaces": (1 << 20) - 1,
    "checkpoints": 0xFFFF0000,
    "messages": 0xFFFF0000,
    "tool_calls": LARGEST,
    "state_size": LARGEST,
    "message_size": LARGEST,
}
"""The greatest numbers of a header, as in `lua/common.lua`. Greater ones are damaged: the next would not fit."""


class Header(NamedTuple):
    """A thread's header. The id of the thread's head and its owner follow the fixed part."""

    version: bytes
    incarnation: bytes
    sequence: int
    epoch: int
    next_value: int
    last_message: int
    groups: int
    spaces: int
    checkpoints: int
    messages: int
    tool_calls: int
    state_size: int
    message_size: int
    ordinal: int
    moves: int
    expires: int
    created: bytes
    updated: bytes
    owner: bytes

    @property
    def basis(self) -> Basis:
        return Basis(incarnation=incarnation_name(self.incarnation), epoch=self.epoch, next_value=self.next_value)

    @property
    def user_id(self) -> str | None:
        return owner_name(self.owner)

    @property
    def size(self) -> int:
        return self.state_size + self.message_size

    @property
    def unusable(self) -> str | None:
        """The name of a number that is out of range, so that scripts refuse commits; `None` if all are valid."""
        for name, most in MOST.items():
            if getattr(self, name) > most:
                return name
        return None


def read_header(stored: bytes, thread_id: str) -> Header:
    size = _HEADER.size
    if len(stored) > size + 3 and stored.startswith(b"H1"):
        head = int.from_bytes(stored[size : size + 3], "big")
        header = Header._make((*_HEADER.unpack_from(stored), stored[size + 3 + head :]))
        if are_time(header.created) and are_time(header.updated) and header.incarnation.isascii():
            return header
    raise damaged_thread(thread_id, "its header in Redis can't be read")

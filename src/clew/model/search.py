"""Hits of a search across threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from clew.model.dict_record import DictRecord
from clew.model.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit(DictRecord):
    """A message that a search found, with its thread and the thread's owner.

    `snippet` is the text around the first match, in its original spelling, and
    `snippet[start:end]` is the match. `position` is the hit's place in the results: a search with
    `before=hit.position` continues after it.
    """

    thread_id: str
    user_id: str | int | None = None
    message: Message
    snippet: str
    start: int
    end: int
    position: str

    _nested: ClassVar[Mapping[str, type[DictRecord]]] = {"message": Message}

"""Disk usage of 500 conversation turns with every state kept, compared with full copies."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import clew
from clew.model.reports import Progress

TURNS: Final = 500
ASKED: Final = 300
ANSWERED: Final = 700
THREAD: Final = "long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Sizes of one conversation in bytes: every state as JSON, itself as JSON, and the store."""

    in_full: int
    conversation: int
    saved: int


def save_all(checkpointer: clew.BaseCheckpointer, progress: Progress) -> Measured:
    """Save the whole state after each turn, as an agent does."""
    messages: list[dict[str, Any]] = []
    in_full = 0
    for turn, pair in enumerate(turns(), 1):
        messages += pair
        state = {"turn": turn, "messages": messages}
        checkpointer.put_checkpoint(THREAD, state, step=turn)
        in_full += len(json.dumps(state))
        progress(turn, TURNS)
    stored = checkpointer.stats().stored_bytes
    return Measured(in_full=in_full, conversation=len(json.dumps(messages)), saved=stored)


def all_load(checkpointer: clew.BaseCheckpointer, progress: Progress) -> bool:
    """Return whether every state loads unchanged."""
    messages = [message for pair in turns() for message in pair]
    checkpoints = checkpointer.list_checkpoints(THREAD, limit=None)
    for done, each in enumerate(checkpoints, 1):
        turn = each.step or 0
        if checkpointer.get_state(each.config) != {"turn": turn, "messages": messages[: 2 * turn]}:
            return False
        progress(done, len(checkpoints))
    return len(checkpoints) == TURNS


def turns() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield questions and answers of random prose, the same on every run."""
    source = random.Random(1)
    words, weights = _vocabulary(source)
    for _ in range(TURNS):
        question, answer = (_prose(source, words, weights, length) for length in (ASKED, ANSWERED))
        yield {"role": "user", "content": question}, {"role": "assistant", "content": answer}


def _vocabulary(source: random.Random) -> tuple[list[str], list[float]]:
    """Return 2,000 words with Zipf weights, so that the text compresses like real prose."""
    syllables = [
        first + middle + last for first in "bdfglmnprstv" for middle in "aeiou" for last in ("", "n", "r", "s")
    ]
    words = list(dict.fromkeys("".join(source.choices(syllables, k=source.choice((1, 2, 2, 3)))) for _ in range(3000)))
    return words[:2000], list(accumulate(1 / rank for rank in range(1, 2001)))


def _prose(source: random.Random, words: list[str], weights: list[float], length: int) -> str:
    text = ""
    while len(text) < length:
        sentence = " ".join(source.choices(words, cum_weights=weights, k=source.randint(5, 14)))
        text += f"{sentence.capitalize()}. "
    return text[:length]

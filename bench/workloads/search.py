"""Search across threads: words that few and many messages have, for small and large users, and the
cost of the index for saves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import clew
from bench.measure import Call, Measure, in_turn
from bench.targets import Target
from bench.targets.clew import Clew
from bench.workloads.common import Results, Run
from clew.checkpointer.records import message_records
from clew.clock import SYSTEM_CLOCK
from clew.ids import new_id
from clew.model.commit import Commit
from clew.storage.protocol import Storage


@dataclass(frozen=True, slots=True)
class Sizes:
    threads: int
    """Of ten messages each."""
    rounds: int
    saves: int


SIZES = {"tiny": Sizes(60, 3, 5), "usual": Sizes(2_000, 60, 300), "full": Sizes(100_000, 100, 1_500)}
MESSAGES = 10
USERS = 1_000
"""Users with few threads. One more has a tenth of all threads."""
RARE, COMMON = "quagga", "horse"
FEW = 20
"""How many messages have the rare word. One in ten has the common one."""
_START = datetime(2026, 1, 1, tzinfo=UTC)
_AT_ONCE = 500
_VOCABULARY = 5_000


async def run(run: Run) -> Results:
    sizes = SIZES[run.size]
    classes: list[type[Target]] = list(run.only("clew"))
    if not classes:
        return []
    results: Results = []
    async with run.opened(classes) as (large,):
        target = large.target
        assert isinstance(target, Clew)
        await _fill(run, target.checkpointer, sizes.threads)
        run.report("bringing the index up to date")
        # The first search of a large store creates the index, and a cleanup completes it.
        await target.checkpointer.asearch(RARE, user_id=clew.ANY_USER)
        await target.checkpointer._engine.storage.reclaim()
        await large.place.settle()
        for what, call in _searches(target.checkpointer).items():
            run.report(what)
            taken = await in_turn({"clew": call}, rounds=sizes.rounds, warm_up=2)
            results += Measure.times(f"{what}, among {sizes.threads * MESSAGES:,} messages", taken)
    if run.storage == "sqlite":
        results += await _saves(run, sizes)
    return results


def _searches(checkpointer: clew.BaseCheckpointer) -> dict[str, Call]:
    def search(word: str, user: Any) -> Call:
        async def call(number: int) -> None:
            found = await checkpointer.asearch(word, user_id=user(number) if callable(user) else user)
            assert found or user is not clew.ANY_USER, f"nothing found: {word}"

        return call

    users = {
        "all users": clew.ANY_USER,
        "a large user": "large",
        "a small user": lambda number: f"user{(10 * number + 3) % USERS}",
    }
    words = {f"a word that {FEW} messages have": RARE, "a word that one in ten messages has": COMMON}
    return {f"{what}, {whose}": search(word, user) for what, word in words.items() for whose, user in users.items()}


async def _saves(run: Run, sizes: Sizes) -> Results:
    """Compare saves to a store with the index and to one without, in turn."""
    async with run.opened([Clew, Clew]) as (plain, indexed):
        calls: dict[str, Call] = {}
        for name, opened in (("without the index", plain), ("with the index", indexed)):
            target = opened.target
            assert isinstance(target, Clew)
            await _fill(run, target.checkpointer, max(600, sizes.threads // 50))
            calls[name] = partial(_save, target.checkpointer, list(_texts(sizes.saves * 2, seed=7)))
        assert isinstance(indexed.target, Clew)
        await indexed.target.checkpointer.asearch(RARE, user_id=clew.ANY_USER)
        await indexed.target.checkpointer._engine.storage.reclaim()
        computed: dict[str, list[float]] = {}
        taken = await in_turn(calls, rounds=sizes.saves, warm_up=5, computed=computed)
    return [
        *Measure.times("save of a turn with two messages", taken),
        *Measure.times("processor time of a save with two messages", computed),
    ]


async def _save(checkpointer: clew.BaseCheckpointer, texts: list[str], number: int) -> None:
    said = [{"role": "user", "content": text} for text in (texts[2 * number % len(texts)], texts[-number % len(texts)])]
    await checkpointer.aput_checkpoint(f"new-{number % 50}", {"turn": number, "said": said}, messages=said)


async def _fill(run: Run, checkpointer: clew.BaseCheckpointer, threads: int) -> None:
    """Write the threads. Their messages are said in turns, so that those of many threads alternate."""
    storage: Storage = checkpointer._engine.storage
    total = threads * MESSAGES
    texts = _texts(total)
    at = 0
    for group in range(0, threads, _AT_ONCE):
        names = range(group, min(group + _AT_ONCE, threads))
        for turn in range(0, MESSAGES, 2):
            run.report(f"{at:,} of {total:,} messages")
            commits = []
            for number in names:
                said = []
                for each in (turn, turn + 1):
                    role = "assistant" if each % 2 else "user"
                    when = _START + timedelta(seconds=at)
                    text = _with_words(next(texts), at, total)
                    said.append(clew.Message(role=role, content=text, created_at=when))
                    at += 1
                records = message_records(checkpointer._engine.codec, said, None, None, SYSTEM_CLOCK)
                commits.append(_commit(number, records))
            await storage.apply(commits)
            await asyncio.sleep(0)


def _commit(number: int, records: Any) -> Commit:
    user = "large" if number % 10 == 0 else f"user{number % USERS}"
    return Commit(commit_id=new_id(), thread_id=f"thread-{number:06d}", user=user, at=_START, messages=records)


def _with_words(text: str, at: int, total: int) -> str:
    """Return the text with the rare word in `FEW` places, and the common one in a tenth."""
    rare = f" {RARE}" if at % (total // FEW) == total // FEW // 2 else ""
    # A hash, so that all users have the common word.
    return f"{text}{rare} {COMMON}" if (at * 2_654_435_761 >> 16) % 10 == 3 or rare else text


def _texts(count: int, seed: int = 1) -> Iterator[str]:
    """Yield texts of about 200 characters, whose words are as frequent as in a language."""
    chance = random.Random(seed)
    letters, weights = "etaoinshrdlucmfwypvbgkjqxz", range(26, 0, -1)
    words = ["".join(chance.choices(letters, weights, k=chance.randint(2, 10))) for _ in range(_VOCABULARY)]
    frequencies = [1 / (rank + 2) for rank in range(_VOCABULARY)]
    pool = chance.choices(words, frequencies, k=200_000)
    for _ in range(count):
        first = chance.randrange(len(pool) - 40)
        yield " ".join(pool[first : first + 36])[:200]

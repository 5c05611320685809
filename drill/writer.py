"""Writer process: `python -m drill.writer PLAN`. Works until its standard input is closed."""

from __future__ import annotations

import asyncio
import random
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

import clew
from drill.ledger import Ledger
from drill.worker import Lane, Worker


class Plan(Struct, frozen=True, kw_only=True):
    """The task of a writer. `opener` is the `module:function` that opens its checkpointer."""

    writer: int
    writers: int
    lanes: list[Lane]
    ledger: str
    opener: str
    settings: dict[str, Any]
    seed: int
    removals: bool
    pause: float

    def open(self) -> clew.BaseCheckpointer:
        module, _, function = self.opener.partition(":")
        made: clew.BaseCheckpointer = getattr(import_module(module), function)(**self.settings)
        return made


async def work(plan: Plan) -> None:
    """Carry out `plan` until standard input is closed."""
    with Ledger(Path(plan.ledger), plan.writer) as ledger:
        async with plan.open() as checkpointer:
            worker = Worker(
                checkpointer,
                ledger,
                opener=plan.open,
                writers=plan.writers,
                chance=random.Random(plan.seed),
                removals=plan.removals,
                pause=plan.pause,
            )
            asyncio.get_running_loop().add_reader(sys.stdin, partial(_end, worker))
            await worker.run(plan.lanes)


def _end(worker: Worker) -> None:
    asyncio.get_running_loop().remove_reader(sys.stdin)
    worker.stop()


if __name__ == "__main__":
    asyncio.run(work(msgspec.json.decode(sys.argv[1], type=Plan)))

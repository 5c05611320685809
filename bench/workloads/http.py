"""Load on the HTTP server: many clients at once, each with a thread of its own, and the same calls without HTTP.

The server is `clew serve` in a process of its own, and only its processor time counts. Clients speak
HTTP/1.1 over their own connection, with as little code as possible: they share the machine with the server.
The call itself is the same calls on a checkpointer, as many, by as many tasks at once, on another store.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import clew
from bench.figure import Figure
from bench.goals import shown
from bench.measure import Measure, quantile
from bench.workloads.common import Results, Run

PATIENCE = 60.0
TEXT = "A sentence about a train to Lyon, as long as people usually write. " * 2


@dataclass(frozen=True, slots=True)
class Sizes:
    clients: int
    seconds: float


SIZES = {"tiny": Sizes(4, 0.5), "usual": Sizes(200, 20), "full": Sizes(200, 60)}


@dataclass(slots=True)
class Seen:
    """The clients' results: the seconds of each request, and the errors."""

    taken: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


async def run(run: Run) -> Results:
    sizes = SIZES[run.size]
    seen = Seen()
    place = await run.ground.place(run.storage)
    async with serving(place.url) as (port, process):
        run.report(f"{sizes.clients} clients")
        async with clients(port, sizes.clients) as connections:
            warm = asyncio.create_task(settled_memory(process, sizes.seconds))
            before, begun = cpu_of(process), time.perf_counter()
            end = begun + sizes.seconds
            await asyncio.gather(*(talk(number, each, end, seen) for number, each in enumerate(connections)))
            seconds, spent = time.perf_counter() - begun, cpu_of(process) - before
            early, late = await warm, resident(process)
    run.report("calls without HTTP")
    place = await run.ground.place(run.storage)
    async with clew.connect(place.url) as memory:
        # As many turns, because longer threads cost more.
        direct = await without_http(memory, sizes.clients, max(1, round(len(seen.taken) / 4 / sizes.clients)))
    return measures(sizes, seen, direct, seconds, spent, early, late)


def measures(sizes: Sizes, seen: Seen, direct: float, seconds: float, spent: float, early: int, late: int) -> Results:
    name = f"{sizes.clients} clients"
    target = "clew serve"
    median, slow = quantile(seen.taken, 0.5), quantile(seen.taken, 0.99)
    requests = len(seen.taken)
    each = spent / requests * 1e3

    def one(what: str, unit: str, value: float) -> Measure:
        return Measure(what=f"{name}: {what}", unit=unit, target=target, median=value, spread=0.0, count=requests)

    found = [
        one("requests a second", "/s", requests / seconds),
        one("p50", "ms", median * 1e3),
        one("p99", "ms", slow * 1e3),
        one("processor time a request", "ms", each),
        one("processor time of the call itself", "ms", direct * 1e3),
        one("memory", "B", float(late)),
    ]
    by_name = {measure.what.partition(": ")[2]: shown(measure) for measure in found}
    how = "; ".join(sorted(set(seen.errors))[:3]) or f"{requests:,} requests"
    return [
        *found,
        Figure(f"{name}: errors", float(len(seen.errors)), 0, how, unit=""),
        Figure(f"{name}: p99 against the median", slow / median, 10, f"{by_name['p99']} against {by_name['p50']}"),
        Figure(
            f"{name}: processor time over the call itself",
            each - direct * 1e3,
            0.5,
            f"{by_name['processor time a request']}, less {by_name['processor time of the call itself']}",
            unit=" ms",
        ),
        Figure(
            f"{name}: memory at the end against a sixth in",
            late / early,
            1.1,
            f"{late / 1e6:.0f} MB, {early / 1e6:.0f} MB",
        ),
    ]


# The calls, over HTTP and without


async def talk(number: int, connection: Connection, end: float, seen: Seen) -> None:
    """Send requests until the time is over: for every save, a load, messages and a list."""
    path = f"/api/threads/client-{number}"
    for turn in itertools.count(1):
        for method, address, body in (
            ("POST", f"{path}/checkpoints", {"state": state(turn), "messages": [message(turn)]}),
            ("GET", f"{path}/state", None),
            ("GET", f"{path}/messages?last=20", None),
            ("GET", "/api/threads?limit=20", None),
        ):
            if time.perf_counter() >= end:
                return
            begun = time.perf_counter()
            status = await connection.ask(method, address, body)
            seen.taken.append(time.perf_counter() - begun)
            if status >= 400:
                seen.errors.append(f"{status} {method} {address.replace(str(number), 'N')}")


async def without_http(memory: clew.BaseCheckpointer, tasks: int, turns: int) -> float:
    """Return the processor seconds of one of the same calls on the checkpointer."""

    async def task(number: int) -> None:
        config = {"thread_id": f"client-{number}", "user_id": clew.ANY_USER}
        for turn in range(1, turns + 1):
            await memory.aput_checkpoint(config, state(turn), messages=[message(turn)])
            await memory.aget_checkpoint(config)
            await memory.alist_messages(config, last=21)
            await memory.alist_threads({"user_id": clew.ANY_USER}, limit=21)

    before = time.process_time()
    await asyncio.gather(*(task(number) for number in range(tasks)))
    return (time.process_time() - before) / (tasks * turns * 4)


def state(turn: int) -> dict[str, Any]:
    """A state of the size of a usual agent's, which changes and does not grow."""
    return {"turn": turn, "city": "Lyon", "notes": [f"{number}: {TEXT}" for number in range(turn, turn + 10)]}


def message(turn: int) -> dict[str, Any]:
    return {"role": "user", "content": f"{turn}: {TEXT}"}


# The clients


class Connection:
    """One connection that is kept open, and answers of known length."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, method: str, address: str, body: Any) -> int:
        """Send a request and return the status of the answer, which is read whole."""
        content = b"" if body is None else json.dumps(body).encode()
        kind = "" if body is None else "content-type: application/json\r\n"
        head = f"{method} {address} HTTP/1.1\r\nhost: localhost\r\n{kind}content-length: {len(content)}\r\n\r\n"
        self._writer.write(head.encode() + content)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2])
            for line in answer.lower().split(b"\r\n")
            if line.startswith(b"content-length:")
        )
        await self._reader.readexactly(length)
        return int(answer[9:12])

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def clients(port: int, count: int) -> AsyncIterator[list[Connection]]:
    opened = [Connection(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(count)]
    try:
        yield opened
    finally:
        await asyncio.gather(*(each.close() for each in opened))


# The server


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[tuple[int, int]]:
    """Run `clew serve` on a free port, without a limit of requests; yield the port and the process's id."""
    command = [sys.executable, "-m", "clew", "--url", url, "serve", "--port", "0", "--rate", "0", "--json"]
    command += ["--tokens", "no-tokens.json"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        told = json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE))
        yield int(told["url"].rpartition(":")[2]), process.pid
    finally:
        process.terminate()
        await process.wait()


def cpu_of(process: int) -> float:
    """Return the processor seconds of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(process: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def settled_memory(process: int, seconds: float) -> int:
    """Return the memory after a sixth of the time, when caches and pools have been filled."""
    await asyncio.sleep(seconds / 6)
    return resident(process)

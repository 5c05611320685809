"""What goes wrong: servers killed and paused, wires cut, answers lost and held back, writers killed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal

from clew.testing.servers import PostgresServer, Proxy, RedisServer

What = Literal["kill", "pause", "cut", "refuse", "lose", "delay", "writer"]
WEIGHTS: dict[What, int] = {"kill": 2, "pause": 3, "cut": 4, "refuse": 3, "lose": 5, "delay": 2, "writer": 1}
DURABLE = {"appendonly": "yes", "appendfsync": "always"}


class Site:
    """A server and the wires to it: one that most writers share, and one that some writer has for itself."""

    def __init__(self, name: str, server: PostgresServer | RedisServer, wires: list[Proxy]) -> None:
        self.name = name
        self.server = server
        self.wires = wires

    def url(self, wire: int = 0) -> str:
        return self.wires[wire].url(self.server.url)

    def heal(self) -> None:
        """Make the server run, and let everything through."""
        self.server.resume()
        if not self.server.running:
            self.server.start()
        for wire in self.wires:
            wire.accept()


def open_site(name: Literal["postgres", "redis"], stack: ExitStack, *, wires: int = 1) -> Site:
    """A durable server with so many wires, which `stack` closes."""
    server = PostgresServer(durable=True) if name == "postgres" else RedisServer(DURABLE)
    stack.enter_context(server)
    return Site(name, server, [stack.enter_context(Proxy.before(server.url)) for _ in range(wires)])


class Injector:
    """Does to `sites` what `chance` says, and counts it."""

    def __init__(self, sites: list[Site], chance: random.Random, kill_a_writer: Callable[[], None]) -> None:
        self._sites = sites
        self._chance = chance
        self._kill_a_writer = kill_a_writer
        self.counts: Counter[What] = Counter()

    def strike(self) -> None:
        """One fault, from its beginning to its end."""
        what = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        site = self._chance.choice(self._sites)
        self.do(what, site, self._chance.uniform(0, 0.3))

    def do(self, what: What, site: Site, seconds: float) -> None:
        """Do `what` to `site` for so long, then make it well again."""
        with self.outage(what, site):
            time.sleep(seconds)

    @contextmanager
    def outage(self, what: What, site: Site) -> Iterator[None]:
        """Within, `what` has befallen `site`; then it is well again."""
        wire = self._chance.choice(site.wires)
        self.counts[what] += 1
        match what:
            case "kill":
                site.server.kill()
            case "pause":
                site.server.pause()
            case "cut":
                wire.cut()
            case "refuse":
                wire.refuse()
            case "lose":
                wire.lose_answers(after=self._chance.choice((0, self._chance.randrange(1, 400))))
            case "delay":
                wire.delay(self._chance.uniform(0, 0.05))
            case "writer":
                self._kill_a_writer()
        try:
            yield
        finally:
            site.heal()

    def heal(self) -> None:
        for site in self._sites:
            site.heal()

"""Faults: servers killed and paused, connections cut, answers lost and delayed, writers killed."""

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
    """A server and its proxies: one that most writers share, and others for single writers."""

    def __init__(self, name: str, server: PostgresServer | RedisServer, proxies: list[Proxy]) -> None:
        self.name = name
        self.server = server
        self.proxies = proxies

    def url(self, proxy: int = 0) -> str:
        return self.proxies[proxy].url(self.server.url)

    def heal(self) -> None:
        """Start or resume the server, and let all traffic through."""
        self.server.resume()
        if not self.server.running:
            self.server.start()
        for proxy in self.proxies:
            proxy.accept()


def open_site(name: Literal["postgres", "redis"], stack: ExitStack, *, proxies: int = 1) -> Site:
    """Start a durable server with `proxies` proxies, which `stack` closes."""
    server = PostgresServer(durable=True) if name == "postgres" else RedisServer(DURABLE)
    stack.enter_context(server)
    return Site(name, server, [stack.enter_context(Proxy.before(server.url)) for _ in range(proxies)])


class Injector:
    """Injects random faults into `sites` and counts them."""

    def __init__(self, sites: list[Site], chance: random.Random, kill_a_writer: Callable[[], None]) -> None:
        self._sites = sites
        self._chance = chance
        self._kill_a_writer = kill_a_writer
        self.counts: Counter[What] = Counter()

    def strike(self) -> None:
        """Inject one fault, from its beginning to its end."""
        what = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        site = self._chance.choice(self._sites)
        self.do(what, site, self._chance.uniform(0, 0.3))

    def do(self, what: What, site: Site, seconds: float) -> None:
        """Inject `what` into `site` for some seconds, then heal it."""
        with self.outage(what, site):
            time.sleep(seconds)

    @contextmanager
    def outage(self, what: What, site: Site) -> Iterator[None]:
        """Inject `what` into `site` for the duration of the block, then heal it."""
        proxy = self._chance.choice(site.proxies)
        self.counts[what] += 1
        match what:
            case "kill":
                site.server.kill()
            case "pause":
                site.server.pause()
            case "cut":
                proxy.cut()
            case "refuse":
                proxy.refuse()
            case "lose":
                proxy.lose_answers(after=self._chance.choice((0, self._chance.randrange(1, 400))))
            case "delay":
                proxy.delay(self._chance.uniform(0, 0.05))
            case "writer":
                self._kill_a_writer()
        try:
            yield
        finally:
            site.heal()

    def heal(self) -> None:
        for site in self._sites:
            site.heal()

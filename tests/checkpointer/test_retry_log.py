"""A store that can't be reached is named in the log from the first attempt on, and not once for each call."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket

import pytest

import clew
from clew.checkpointer import retries
from clew.errors import TransientStorageError
from clew.storage.execution import may_block
from clew.storage.memory import MemoryStorage
from clew.testing import FakeClock, FaultyStorage, script


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, logger="clew")
    return caplog


@pytest.fixture
def ticking(monkeypatch):
    """A clock on which the pauses between attempts pass at once."""
    clock = FakeClock()

    async def pause(seconds):
        clock.advance(seconds)
        if not may_block():
            await asyncio.sleep(0)

    monkeypatch.setattr(retries, "pause", pause)
    return clock


def failing(*steps, **options):
    return clew.BaseCheckpointer(FaultyStorage(MemoryStorage(), script(steps)), **options)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_the_first_failed_attempt_is_logged_and_so_is_the_recovery(log):
    memory = failing("before apply", "before apply")
    memory.put_state("t", {"n": 1})
    warning, info = log.records
    assert warning.levelno == logging.WARNING
    assert warning.getMessage() == "save failed: a fault on purpose, before apply; retrying for up to 15 s"
    assert info.getMessage().startswith("storage answers again: save succeeded after ")


def test_a_call_that_is_not_retried_is_not_logged(log):
    memory = failing("before apply", retry_for=0)
    with pytest.raises(TransientStorageError):
        memory.put_state("t", {"n": 1})
    assert log.records == []


@pytest.mark.parametrize("name", ["postgresql", "redis"])
def test_a_wrong_port_is_named_without_the_password(log, name):
    port = free_port()
    memory = clew.connect(f"{name}://ana:geheim@127.0.0.1:{port}", retry_for=0.2)
    with pytest.raises(TransientStorageError, match=rf"at 127.0.0.1:{port} can't be reached \(.*\); try again$"):
        memory.put_state("t", {"n": 1})
    memory.release()
    first = log.records[0].getMessage()
    assert first.startswith("save failed: ")
    assert f"127.0.0.1:{port}" in first
    assert first.endswith("); retrying for up to 0.2 s")
    assert ".)" not in first
    assert "geheim" not in log.text


def test_a_thousand_waiting_calls_log_a_line_every_five_seconds(log, ticking):
    fails = FaultyStorage(MemoryStorage(), script(itertools.cycle(["before apply"])))
    memory = clew.BaseCheckpointer(fails, clock=ticking, retry_for=20)
    ticking.advance(100)

    async def all_at_once():
        saves = [memory.aput_state(f"t{n}", {}) for n in range(1000)]
        return await asyncio.gather(*saves, return_exceptions=True)

    begun = ticking.monotonic()
    outcomes = asyncio.run(all_at_once())
    assert all(isinstance(each, TransientStorageError) for each in outcomes)
    passed = ticking.monotonic() - begun
    assert 1 <= len(log.records) <= 1 + passed / retries.LOG_EVERY
    assert "(999 more calls wait)" in log.text


def test_the_log_says_how_long_the_retries_still_go_on(log, ticking):
    memory = failing(*["before apply"] * 20, clock=ticking, retry_for=60)
    memory.put_state("t", {"n": 1})
    left = [float(each.getMessage().split()[-2]) for each in log.records if each.levelno == logging.WARNING]
    assert left[0] == 60
    assert len(left) > 1
    assert left == sorted(left, reverse=True)


def test_a_later_outage_is_logged_again(log, ticking):
    memory = failing("before apply", None, None, "before apply", clock=ticking)
    memory.put_state("t", {"n": 1})
    memory.put_state("t", {"n": 2})
    ticking.advance(retries.LOG_EVERY)
    memory.put_state("t", {"n": 3})
    assert [each.levelname for each in log.records] == ["WARNING", "INFO", "WARNING", "INFO"]

"""Reads that wait are answered in one batch, and each gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from clew.errors import ClewError, CorruptRecordError, StorageError, TransientStorageError
from clew.model.commit import Applied, Commit
from clew.storage.batching import BatchRunner, ReadBatcher
from clew.storage.postgres.batcher import Batcher
from clew.testing.build import commit


class Server:
    """Answers questions with their squares once `let` is set; fails for those in `damaged`."""

    def __init__(self, *, at_once: int = 1, most: int = 4) -> None:
        self.calls: list[list[int]] = []
        self.let = asyncio.Event()
        self.let.set()
        self.damaged: set[int] = set()
        self.batcher = ReadBatcher(self.answer, at_once=at_once, most=most)

    async def answer(self, questions: Sequence[int]) -> list[int]:
        self.calls.append([*questions])
        await asyncio.sleep(0)
        await self.let.wait()
        if self.damaged.intersection(questions):
            raise CorruptRecordError("damaged", values=(1, 2))
        return [question**2 for question in questions]


def test_a_lone_question_goes_at_once():
    async def run() -> None:
        server = Server()
        assert await server.batcher.ask(3) == 9
        assert await server.batcher.ask(4) == 16
        assert server.calls == [[3], [4]]

    asyncio.run(run())


def test_those_that_come_meanwhile_go_together_in_order_and_not_too_many_at_once():
    async def run() -> None:
        server = Server(at_once=2, most=4)
        assert await asyncio.gather(*map(server.batcher.ask, range(12))) == [number**2 for number in range(12)]
        assert server.calls == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11]]

    asyncio.run(run())


def test_no_more_calls_are_under_way_than_allowed():
    async def run() -> None:
        server = Server(at_once=2, most=1)
        server.let.clear()
        asked = [asyncio.create_task(server.batcher.ask(number)) for number in range(6)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(server.calls) == 2
        server.let.set()
        assert await asyncio.gather(*asked) == [0, 1, 4, 9, 16, 25]

    asyncio.run(run())


def test_one_that_fails_fails_alone():
    async def run() -> None:
        server = Server()
        server.damaged = {2}
        answers = await asyncio.gather(*map(server.batcher.ask, range(4)), return_exceptions=True)
        assert answers[:2] == [0, 1]
        assert answers[3] == 9
        assert isinstance(answers[2], CorruptRecordError)
        assert answers[2].values == (1, 2)

    asyncio.run(run())


def test_a_transient_error_is_raised_to_each_caller_as_a_copy():
    async def run() -> None:
        calls = 0

        async def cut(questions: Sequence[int]) -> list[int]:
            nonlocal calls
            calls += 1
            await asyncio.sleep(0)
            raise TransientStorageError("cut off", host="h")

        batcher = ReadBatcher(cut, at_once=1, most=8)
        errors = await asyncio.gather(*map(batcher.ask, range(5)), return_exceptions=True)
        assert calls == 2
        assert [str(error) for error in errors] == ["cut off"] * 5
        assert len(set(map(id, errors))) == 5

    asyncio.run(run())


def test_whoever_gives_up_does_not_take_the_answer_from_the_others():
    async def run() -> None:
        server = Server()
        server.let.clear()
        asked = [asyncio.create_task(server.batcher.ask(number)) for number in range(4)]
        await asyncio.sleep(0)
        asked[0].cancel()
        asked[2].cancel()
        server.let.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [answers[1], answers[3]] == [1, 9]
        assert isinstance(answers[0], asyncio.CancelledError)
        assert isinstance(answers[2], asyncio.CancelledError)
        assert server.calls == [[0], [1, 3]]

    asyncio.run(run())


def test_a_call_that_is_cancelled_from_outside_leaves_nobody_waiting():
    async def run() -> None:
        server = Server()
        server.let.clear()
        asked = [asyncio.create_task(server.batcher.ask(number)) for number in range(3)]
        for _ in range(3):
            await asyncio.sleep(0)
        asked[0].cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        for task in [*server.batcher._runner.tasks]:
            task.cancel()
        for waiting in asked[1:]:
            with pytest.raises(StorageError, match="try again"):
                await waiting

    asyncio.run(run())


def test_an_unexpected_error_is_reported_and_leaves_nobody_waiting():
    async def run() -> None:
        reported = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))

        async def broken(questions: Sequence[int]) -> list[int]:
            await asyncio.sleep(0)
            if len(questions) > 1:
                raise RuntimeError("no more threads")
            return [*questions]

        batcher = ReadBatcher(broken, at_once=1, most=8)
        answers = await asyncio.gather(*map(batcher.ask, range(3)), return_exceptions=True)
        assert [type(answer) for answer in answers] == [int, TransientStorageError, TransientStorageError]
        await asyncio.sleep(0)
        assert [str(error) for error in reported] == ["no more threads"]

    asyncio.run(run())


def cancel_what_comes(runner: BatchRunner) -> None:
    """Cancel the next task of `runner` when it is created, before it starts."""

    def look() -> None:
        for task in runner.tasks:
            task.cancel()
        if not runner.tasks:
            runner.loop.call_soon(look)

    look()


def test_a_call_that_is_cancelled_before_it_begins_leaves_nobody_waiting():
    async def run() -> None:
        server = Server()
        server.let.clear()
        asked = [asyncio.create_task(server.batcher.ask(number)) for number in range(3)]
        for _ in range(3):
            await asyncio.sleep(0)
        server.let.set()
        cancel_what_comes(server.batcher._runner)
        assert await asyncio.wait_for(asked[0], 120) == 0
        for waiting in asked[1:]:
            with pytest.raises(TransientStorageError, match="try again"):
                await asyncio.wait_for(waiting, 120)
        assert server.calls == [[0]]

    asyncio.run(run())


def test_commits_whose_batch_is_cancelled_before_it_begins_leave_nobody_waiting_and_nothing_blocked():
    async def run() -> None:
        applied: list[str] = []

        async def many(commits: Sequence[Commit]) -> list[Applied | None]:
            await asyncio.sleep(0)
            applied.extend(each.commit_id for each in commits)
            return [Applied(basis=None) for _ in commits]

        async def one(alone: Commit) -> Applied:
            return (await many([alone]))[0] or Applied(basis=None)

        async def series(commits: Sequence[Commit]) -> list[Applied | ClewError | None]:
            return [*await many(commits)]

        batcher = Batcher(many, series, one)
        waiting = [batcher.submit(commit(f"t{number}", commit_id=f"c{number}")) for number in range(2)]
        behind = batcher.submit(commit("t0", commit_id="behind"))
        cancel_what_comes(batcher._runner)
        for each in waiting:
            with pytest.raises(TransientStorageError, match="try again"):
                await asyncio.wait_for(each, 120)
        await asyncio.wait_for(behind, 120)
        assert applied == ["behind"]
        assert not batcher._queues

    asyncio.run(run())

"""Watching: events of a thread or a user, in order, resumable, also what other processes write."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from typing import Any

import pytest

import clew
from clew.checkpointer import feed as hubs
from clew.errors import ConfigError, TransientStorageError
from clew.model.feed import FeedPage, FeedQuery
from clew.storage.memory import MemoryStorage
from clew.storage.wrapper import StorageWrapper
from tests.checkpointer.support import run

ANA = {"thread_id": "trip", "user_id": "ana"}
HANGS = 60


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def some(watch: Any, count: int) -> list[Any]:
    """The next `count` events."""
    async with asyncio.timeout(HANGS):
        return [await anext(watch) for _ in range(count)]


async def rest(memory: clew.BaseCheckpointer, config: Any, since: str) -> list[clew.Event]:
    """All events after `since`, up to one that is made here."""
    async with memory.awatch(config, since=since) as watch:
        await memory.aput_state({**ANA, "thread_id": "end"}, {"end": True})
        found: list[clew.Event] = []
        async with asyncio.timeout(HANGS):
            async for event in watch:
                if event.thread_id == "end":
                    return found
                found.append(event)
    raise AssertionError("the watch ended")


def kinds(events: Sequence[clew.Event]) -> list[str]:
    return [event.kind for event in events]


def test_a_watcher_sees_checkpoints_messages_descriptions_removals_and_deletions(checkpointer):
    async def main():
        async with checkpointer.awatch(ANA) as watch:
            first = await checkpointer.aput_checkpoint(ANA, {"n": 1}, messages=[said("hello")], node_name="plan")
            await checkpointer.aput_messages(ANA, [clew.Message(message_id="m2", role="user", content="again")])
            await checkpointer.aput_thread(ANA, {"thread_name": "Lisbon"})
            made, hello, again, named = await some(watch, 4)
            await checkpointer.adelete_message(ANA, "m2")
            await checkpointer.aclear_state(ANA)
            await checkpointer.adelete_thread(ANA)
            unsaid, cleared, deleted = await some(watch, 3)
        assert kinds([made, hello, again, named]) == ["checkpoint", "messages", "messages", "thread"]
        assert {(event.thread_id, event.user_id) for event in (made, hello, again, named)} == {("trip", "ana")}
        assert made.checkpoint.checkpoint_id == first.checkpoint_id == made.checkpoint_ids[0]
        assert made.checkpoint.node_name == "plan"
        assert [message.content for message in hello.messages + again.messages] == ["hello", "again"]
        assert again.message_ids == ("m2",)
        assert named.thread.thread_name == "Lisbon"
        assert (unsaid.kind, unsaid.message_ids) == ("removed", ("m2",))
        assert (cleared.kind, cleared.all_checkpoints) == ("removed", True)
        assert (deleted.kind, deleted.thread_id) == ("deleted", "trip")
        assert [event.sequence for event in (made, hello, again, named)] == [1, 1, 2, 3]

    run(main())


def test_events_convert_to_dicts_and_back(checkpointer):
    async def main():
        async with checkpointer.awatch(ANA) as watch:
            await checkpointer.aput_checkpoint(ANA, {"n": 1}, messages=[said("hello")])
            await checkpointer.aput_thread(ANA, {"thread_name": "Lisbon"})
            for event in await some(watch, 3):
                assert clew.Event.from_dict(event.to_dict()) == event

    run(main())


def test_a_user_sees_all_own_threads_and_nothing_of_others(checkpointer):
    async def main():
        async with (
            checkpointer.awatch({"user_id": "ana"}) as ana,
            checkpointer.awatch({"user_id": None}) as nobody,
            checkpointer.awatch({"user_id": clew.ANY_USER}) as everybody,
            checkpointer.awatch({"thread_id": "of ben", "user_id": "ana"}) as curious,
        ):
            for name, user in (("of ben", "ben"), ("public", None), ("a1", "ana"), ("of ben", "ben"), ("a2", "ana")):
                await checkpointer.aput_messages({"thread_id": name, "user_id": user}, [said(name)])
            assert [event.thread_id for event in await some(ana, 2)] == ["a1", "a2"]
            assert [event.thread_id for event in await some(nobody, 1)] == ["public"]
            assert [event.thread_id for event in await some(everybody, 5)] == ["of ben", "public", "a1", "of ben", "a2"]
            assert curious.position is not None
            assert not curious._member.entries

    run(main())


def test_a_thread_of_another_user_gives_no_events(checkpointer):
    async def main():
        await checkpointer.aput_state({"thread_id": "secret", "user_id": "ben"}, {"n": 1})
        for config in ({"thread_id": "secret", "user_id": "ana"}, "secret", {"user_id": "ana"}):
            async with checkpointer.awatch(config, timeout=0.2) as watch:
                await checkpointer.aput_messages({"thread_id": "secret", "user_id": "ben"}, [said("psst")])
                assert [event async for event in watch] == []

    run(main())


def test_a_thread_that_is_given_away_is_deleted_for_one_and_new_for_the_other(checkpointer):
    async def main():
        await checkpointer.aput_state(ANA, {"n": 1})
        async with checkpointer.awatch({"user_id": "ana"}) as ana, checkpointer.awatch({"user_id": "ben"}) as ben:
            await checkpointer.aput_thread({"thread_id": "trip", "user_id": clew.ANY_USER}, {"user_id": "ben"})
            await checkpointer.aput_messages({"thread_id": "trip", "user_id": "ben"}, [said("mine")])
            await checkpointer.aput_state({"thread_id": "other", "user_id": "ana"}, {"n": 1})
            lost, other = await some(ana, 2)
            got, mine = await some(ben, 2)
        assert (lost.kind, lost.user_id, lost.thread) == ("deleted", "ana", None)
        assert other.thread_id == "other"
        assert (got.kind, got.thread.user_id, mine.kind) == ("thread", "ben", "messages")

    run(main())


def test_a_watch_resumes_after_every_event(checkpointer):
    async def main():
        user = {"user_id": "ana"}
        async with checkpointer.awatch(user) as watch:
            start = watch.position
            for number in range(4):
                config = {**ANA, "thread_id": f"t{number % 2}"}
                await checkpointer.aput_checkpoint(config, {"n": number}, messages=[said(f"{number}")])
            await checkpointer.adelete_thread({**ANA, "thread_id": "t0"})
            await checkpointer.aput_checkpoint({**ANA, "thread_id": "t0"}, {"n": 9})
            events = await some(watch, 10)
        expected = [(event.kind, event.thread_id, event.sequence) for event in events]
        assert expected[8:] == [("deleted", "t0", 2), ("checkpoint", "t0", 1)]
        for number, since in enumerate([start, *(event.position for event in events)]):
            found = await rest(checkpointer, user, since)
            assert [(event.kind, event.thread_id, event.sequence) for event in found] == expected[number:]
            await checkpointer.adelete_thread({**ANA, "thread_id": "end"})
            expected = expected[:10]

    run(main())


@pytest.mark.parametrize("since", ["nonsense", "x.1", "1-1", "x~1~1"])
def test_an_unknown_position_gives_a_gap_and_goes_on(checkpointer, since):
    async def main():
        await checkpointer.aput_state(ANA, {"n": 1})
        async with checkpointer.awatch(ANA, since=since) as watch:
            (gap,) = await some(watch, 1)
            assert (gap.kind, gap.thread_id) == ("gap", "trip")
            await checkpointer.aput_state(ANA, {"n": 2})
            (event,) = await some(watch, 1)
            assert (event.kind, event.sequence) == ("checkpoint", 2)

    run(main())


def test_another_checkpointer_of_the_store_is_seen(store):
    one, other = store.open(), store.open()

    async def main():
        async with one.awatch(ANA) as watch:
            for number in range(5):
                await other.aput_state(ANA, {"n": number})
                (event,) = await some(watch, 1)
                assert event.sequence == number + 1

    run(main())


def test_a_position_is_good_in_another_process(store):
    async def main(memory, since=None):
        if since is None:
            async with memory.awatch(ANA) as watch:
                await memory.aput_checkpoint(ANA, {"n": 1}, messages=[said("hello")])
                first, _ = await some(watch, 2)
            await memory.aput_state(ANA, {"n": 2})
            return first.position
        async with memory.awatch(ANA, since=since) as watch:
            return await some(watch, 2)

    position = run(main(store.open()))
    messages, second = run(main(store.open(), position))
    assert (messages.kind, messages.sequence, second.kind, second.sequence) == ("messages", 1, "checkpoint", 2)


def test_sync_code_watches(checkpointer):
    with checkpointer.watch(ANA, timeout=HANGS) as watch:
        checkpointer.put_checkpoint(ANA, {"n": 1}, messages=[said("hello")])
        first, second = next(watch), next(watch)
    assert kinds([first, second]) == ["checkpoint", "messages"]
    assert list(watch) == []
    with checkpointer.watch(ANA, since=first.position, timeout=0) as resumed:
        assert kinds(list(resumed)) == ["messages"]


def test_a_sync_watch_wakes_for_another_thread(checkpointer):
    found: list[clew.Event] = []

    def look():
        found.extend(next(watch) for _ in range(2))

    with checkpointer.watch({"user_id": "ana"}, timeout=HANGS) as watch:
        looking = threading.Thread(target=look)
        looking.start()
        checkpointer.put_state(ANA, {"n": 1})
        checkpointer.put_messages(ANA, [said("hello")])
        looking.join(HANGS)
    assert kinds(found) == ["checkpoint", "messages"]


def test_a_watch_ends_after_its_timeout_or_when_it_is_closed(checkpointer):
    async def main():
        assert [event async for event in checkpointer.awatch(ANA, timeout=0.01)] == []
        watch = checkpointer.awatch(ANA)
        waiting = asyncio.ensure_future(anext(watch, None))
        await asyncio.sleep(0.01)
        await watch.aclose()
        await watch.aclose()
        assert await asyncio.wait_for(waiting, HANGS) is None
        assert [event async for event in watch] == []

    run(main())


def test_release_ends_the_watches(store):
    async def main():
        checkpointer = store.open()
        watch = checkpointer.awatch(ANA)
        await watch.__aenter__()
        waiting = asyncio.ensure_future(anext(watch, None))
        await asyncio.sleep(0.01)
        await checkpointer.arelease()
        assert await asyncio.wait_for(waiting, HANGS) is None
        assert len(asyncio.all_tasks()) == 1
        with pytest.raises(clew.StorageError, match="released"):
            await anext(checkpointer.awatch(ANA))

    run(main())


def test_release_ends_a_sync_watch_in_another_thread(store):
    checkpointer = store.open()
    ended = []
    watch = checkpointer.watch(ANA)
    watch.__enter__()
    looking = threading.Thread(target=lambda: ended.append(list(_until_error(watch))))
    looking.start()
    checkpointer.release()
    looking.join(HANGS)
    assert ended == [[]]


def _until_error(watch):
    try:
        yield from watch
    except clew.StorageError:
        # The call was under way when the loop ended.
        return


def test_a_cancelled_watcher_loses_no_event(checkpointer):
    async def main():
        async with checkpointer.awatch(ANA) as watch:
            seen: list[int] = []
            writing = asyncio.ensure_future(_write(checkpointer, 20))
            async with asyncio.timeout(HANGS):
                while len(seen) < 20:
                    waiting = asyncio.ensure_future(anext(watch))
                    done, _ = await asyncio.wait((waiting,), timeout=0.001)
                    if not done:
                        waiting.cancel()
                    seen += [
                        event.sequence
                        for event in await asyncio.gather(waiting, return_exceptions=True)
                        if isinstance(event, clew.Event)
                    ]
            await writing
        assert seen == list(range(1, 21))

    run(main())


async def _write(checkpointer, count, **more):
    for number in range(count):
        await checkpointer.aput_state({**ANA, **more}, {"n": number})


def test_a_slow_consumer_reads_from_the_store_what_it_missed(checkpointer, monkeypatch):
    monkeypatch.setattr(hubs, "QUEUED", 4)

    async def main():
        async with checkpointer.awatch(ANA) as watch:
            await _write(checkpointer, 3)
            (first,) = await some(watch, 1)
            await _write(checkpointer, 20)
            await asyncio.sleep(0.3)
            assert len(watch._member.entries) <= 4
            seen = [event.sequence for event in await some(watch, 22)]
            await _write(checkpointer, 2)
            seen += [event.sequence for event in await some(watch, 2)]
        assert [first.sequence, *seen] == list(range(1, 26))

    run(main())


def test_many_watchers_share_one_reader(checkpointer):
    class Counting(StorageWrapper):
        reads = 0

        async def feed(self, query: FeedQuery) -> FeedPage:
            Counting.reads += 1
            return await super().feed(query)

    async def main():
        memory = clew.BaseCheckpointer(Counting(checkpointer.storage))
        watches = [memory.awatch({"thread_id": f"t{number}", "user_id": "ana"}) for number in range(200)]
        await asyncio.gather(*(watch.__aenter__() for watch in watches))
        Counting.reads = 0
        await memory.aput_state({"thread_id": "t7", "user_id": "ana"}, {"n": 1})
        (event,) = await some(watches[7], 1)
        assert event.thread_id == "t7"
        assert Counting.reads < 20
        assert all(not watch._member.entries for watch in watches)
        for watch in watches:
            await watch.aclose()
        await asyncio.sleep(0)
        await memory._watchers.close()

    run(main())


def test_a_dropped_watch_leaves_the_hub(checkpointer):
    async def main():
        watch = checkpointer.awatch(ANA)
        await watch.__aenter__()
        hub = watch._hub
        del watch
        async with asyncio.timeout(HANGS):
            while hub._count:  # noqa: ASYNC110  (the garbage collector rings no bell)
                await asyncio.sleep(0.001)

    run(main())


def test_background_saves_have_events_when_they_are_durable(store):
    memory = store.open(durability="background")

    async def main():
        async with memory.awatch(ANA) as watch:
            for number in range(10):
                await memory.aput_state(ANA, {"n": number})
            assert [event.sequence for event in await some(watch, 10)] == list(range(1, 11))

    run(main())


def test_forks_and_copies_are_seen_when_they_are_whole(checkpointer):
    async def main():
        await checkpointer.aput_checkpoint(ANA, {"n": 1}, messages=[said("hello")])
        async with checkpointer.awatch({"user_id": "ana"}) as watch:
            await checkpointer.afork(ANA, "fork")
            made, described = await some(watch, 2)
            assert (made.kind, made.thread_id, described.kind) == ("checkpoint", "fork", "thread")
            assert described.thread.forked_from["thread_id"] == "trip"
            await checkpointer.acopy_thread(ANA, "copy")
            (copied,) = await some(watch, 1)
            assert (copied.kind, copied.thread_id, copied.thread.message_count) == ("thread", "copy", 1)

    run(main())


class Away(StorageWrapper):
    """A store that can be away for a while."""

    def __init__(self, inner):
        super().__init__(inner)
        self.away = False

    async def _around(self, kind, operation):
        if self.away:
            raise TransientStorageError("away")
        return await operation()


def test_nothing_is_missed_while_the_store_is_away(store):
    async def main():
        memory = store.open(Away)
        other = store.open()
        async with memory.awatch(ANA) as watch:
            await other.aput_state(ANA, {"n": 0})
            await some(watch, 1)
            memory.storage.away = True
            for number in range(1, 4):
                await other.aput_state(ANA, {"n": number})
            await asyncio.sleep(0.05)
            memory.storage.away = False
            assert [event.sequence for event in await some(watch, 3)] == [2, 3, 4]

    run(main())


def test_an_error_of_the_store_reaches_the_watcher():
    class Broken(StorageWrapper):
        broken = False

        async def feed(self, query):
            if self.broken:
                raise clew.StorageError("broken")
            return await super().feed(query)

    async def main():
        broken = Broken(MemoryStorage())
        memory = clew.BaseCheckpointer(broken)
        async with memory.awatch(ANA) as watch:
            broken.broken = True
            await memory.aput_state(ANA, {"n": 1})
            with pytest.raises(clew.StorageError, match="broken"):
                await some(watch, 2)
            broken.broken = False
            await memory.aput_state(ANA, {"n": 2})
            assert [event.sequence for event in await some(watch, 2)] == [1, 2]
        await memory.arelease()

    run(main())


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({}, {}),
        ({"run_id": "r"}, {}),
        (ANA, {"since": 7}),
        (ANA, {"since": "x" * 100_000}),
        (ANA, {"timeout": -1}),
        (ANA, {"timeout": "soon"}),
        ({"userid": "ana"}, {}),
    ],
)
def test_bad_arguments_are_refused_at_once(config, options):
    memory = clew.connect("memory://")
    for watch in (memory.awatch, memory.watch):
        with pytest.raises(ConfigError):
            watch(config, **options)


def test_the_feed_of_a_file_ends_when_nobody_watches(sqlite):
    one = sqlite.open()
    with one.watch(ANA, timeout=0) as watch:
        position = watch._watch._cursor
    file = sqlite3.connect(sqlite.path)
    file.execute("UPDATE feed_state SET until = 1")
    file.commit()
    one.put_state(ANA, {"n": 1})
    assert file.execute("SELECT count(*) FROM feed").fetchone() == (0,)
    file.close()
    with one.watch(ANA, since=position, timeout=0) as watch:
        assert next(watch).kind == "gap"
        one.put_state(ANA, {"n": 2})
        assert next(watch).sequence == 2

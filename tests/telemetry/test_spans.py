"""Spans: every public call is one, with the right parent, and without ids or content."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

import clew
from clew.errors import ClewError, TransientStorageError
from clew.model.commit import Applied, Commit
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Capabilities
from clew.storage.wrapper import StorageWrapper
from clew.telemetry.calls import public_calls
from clew.telemetry.storage import OPERATIONS, ObservedStorage
from clew.testing import FaultyStorage, script
from clew.testing.servers import shared_postgres
from tests.storage.postgres_support import shared_schema
from tests.telemetry.conftest import Seen


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent is not None else None


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    found: int = span.context.span_id
    return found


@pytest.fixture
def postgres():
    with shared_schema() as schema:
        yield f"{shared_postgres()}?schema={schema}"


def test_a_call_is_a_span_by_the_conventions_with_the_storage_operation_below_it(seen, postgres):
    with clew.connect(postgres, telemetry=seen.telemetry()) as memory:
        memory.put_state("t", {"n": 1})
    span = seen.span("put_state")
    assert span.kind is SpanKind.CLIENT
    assert (
        span.attributes.items()
        >= {
            "db.system.name": "postgresql",
            "db.operation.name": "put_state",
            "clew.storage": "postgresql",
        }.items()
    )
    assert span.attributes["server.address"]
    (applied,) = [each for each in seen.spans("storage.apply") if parent_of(each) == id_of(span)]
    assert applied.attributes == {"clew.storage.operation": "apply"}
    assert span.instrumentation_scope.name == "clew"
    assert span.instrumentation_scope.version == clew.__version__


def test_a_sync_call_and_an_async_call_are_children_of_the_callers_span(seen, postgres):
    def work(memory):
        with seen.tracer.start_as_current_span("in a thread"):
            memory.put_state("t", {"n": 1})

    async def main(memory):
        with seen.tracer.start_as_current_span("in a task"):
            await memory.aget_state("t")

    with clew.connect(postgres, telemetry=seen.telemetry()) as memory:
        thread = threading.Thread(target=work, args=(memory,))
        thread.start()
        thread.join()
        asyncio.run(main(memory))
    assert parent_of(seen.span("put_state")) == id_of(seen.span("in a thread"))
    assert parent_of(seen.span("get_state")) == id_of(seen.span("in a task"))


def test_calls_in_a_turn_and_its_lease_belong_to_the_callers_span(seen):
    with (
        clew.connect("memory://", telemetry=seen.telemetry()) as memory,
        seen.tracer.start_as_current_span("request"),
        memory.turn("t", begin={"n": 0}) as turn,
    ):
        turn.state["n"] = 1
    request = id_of(seen.span("request"))
    assert parent_of(seen.span("get_checkpoint")) == parent_of(seen.span("put_checkpoint")) == request
    assert {parent_of(each) for each in seen.spans("storage.lease")} == {request}


def test_a_background_save_stays_in_the_trace_of_the_call_that_made_it(seen, tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    with clew.connect(url, telemetry=seen.telemetry(), durability="background") as memory:
        for n in range(3):
            with seen.tracer.start_as_current_span(f"request {n}"):
                memory.put_state("t", {"n": n})
    saves = seen.spans("put_state")
    applied = seen.spans("storage.apply")
    assert [parent_of(each) for each in saves] == [id_of(seen.span(f"request {n}")) for n in range(3)]
    assert [parent_of(each) for each in applied] == [id_of(each) for each in saves]
    assert all(each.context.trace_id == of.context.trace_id for each, of in zip(applied, saves, strict=True))


class Gate(StorageWrapper):
    """A storage whose first commit waits until the gate opens, so that others queue up behind it."""

    def __init__(self, inner: MemoryStorage) -> None:
        super().__init__(inner)
        self.waiting, self.open = asyncio.Event(), asyncio.Event()

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.inner.capabilities, suspends=True)

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        self.waiting.set()
        await self.open.wait()
        return await self.inner.apply(commits)


def test_a_batch_is_linked_with_the_saves_that_it_took_along(seen):
    async def main():
        gate = Gate(MemoryStorage())
        memory = clew.BaseCheckpointer(gate, telemetry=seen.telemetry())
        first = asyncio.create_task(memory.aput_state("t", {"n": 0}))
        await gate.waiting.wait()
        others = [asyncio.create_task(memory.aput_state("t", {"n": n})) for n in range(1, 4)]
        for _ in range(5):
            await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(first, *others)
        await memory.arelease()

    asyncio.run(main())
    saves = {id_of(each) for each in seen.spans("put_state")}
    (batch,) = [each for each in seen.spans("storage.apply") if each.links]
    linked = {each.context.span_id for each in batch.links}
    assert batch.attributes["db.operation.batch.size"] == 3
    assert len(saves) == 4
    assert len(linked) == 2
    assert linked | {parent_of(batch)} < saves


def test_an_error_is_named_without_its_text(seen):
    with clew.connect("memory://", telemetry=seen.telemetry()) as memory:
        memory.put_state({"thread_id": "t", "user_id": "ana"}, {"n": 1})
        with pytest.raises(clew.PermissionDeniedError):
            memory.put_checkpoint({"thread_id": "t", "user_id": "bob"}, {"n": 2})
    span = seen.span("put_checkpoint")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None
    assert span.attributes["error.type"] == "clew.PermissionDeniedError"
    assert not span.events


def test_a_retry_is_an_event_and_a_give_up_is_an_error(seen):
    fails = FaultyStorage(MemoryStorage(), script(["before apply"]))
    with clew.BaseCheckpointer(fails, telemetry=seen.telemetry()) as memory:
        memory.put_state("t", {"n": 1})
    (event,) = seen.span("put_state").events
    assert event.name == "clew.retry"
    assert event.attributes == {"clew.retried": "save", "error.type": "clew.TransientStorageError"}
    failed, applied = seen.spans("storage.apply")
    assert failed.attributes["error.type"] == "clew.TransientStorageError"
    assert "error.type" not in applied.attributes


def test_a_cancelled_call_ends_its_span_and_leaves_no_context_behind(seen):
    async def main():
        gate = Gate(MemoryStorage())
        memory = clew.BaseCheckpointer(gate, telemetry=seen.telemetry())
        task = asyncio.create_task(memory.aput_state("t", {"n": 0}))
        await gate.waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not trace.get_current_span().get_span_context().is_valid
        gate.open.set()
        await memory.arelease()

    asyncio.run(main())
    assert seen.span("put_state").attributes["error.type"] == "asyncio.exceptions.CancelledError"


def test_no_id_and_no_content_leaves_the_process(seen):
    marks = ["geheim-thread", "geheim-user", "geheim-text", "geheim-run"]
    config = {"thread_id": "geheim-thread", "user_id": "geheim-user", "run_id": "geheim-run"}
    with clew.connect("memory://", telemetry=seen.telemetry(), cache="memory://") as memory:
        with memory.turn(config, begin={"text": "geheim-text"}) as turn:
            turn.say({"role": "user", "content": "geheim-text"})
        memory.list_messages(config, search="geheim-text")
        memory.get_state(config)
        with pytest.raises(clew.PermissionDeniedError):
            memory.put_state({**config, "user_id": "geheim-user-2"}, {"text": "geheim-text"})
        with contextlib.suppress(clew.ConflictError):
            memory.fork({**config, "checkpoint_id": "geheim-text"}, "geheim-thread-2")
    told = "".join(each.to_json() for each in seen.spans()) + str(list(seen.points()))
    assert len(seen.spans()) > 8
    assert [mark for mark in marks if mark in told] == []


def test_spans_have_the_thread_id_if_it_is_asked_for_but_metrics_never(seen):
    with clew.connect("memory://", telemetry=seen.telemetry(thread_ids=True)) as memory:
        memory.put_state({"thread_id": "trip", "user_id": "ana"}, {"n": 1})
        memory.get_state("trip")
        memory.stats()
    assert seen.span("put_state").attributes["gen_ai.conversation.id"] == "trip"
    assert seen.span("get_state").attributes["gen_ai.conversation.id"] == "trip"
    assert "gen_ai.conversation.id" not in seen.span("stats").attributes
    assert "trip" not in str(list(seen.points()))


@pytest.mark.parametrize("parent", [True, False])
def test_what_is_not_sampled_makes_no_spans(parent):
    seen = Seen(ALWAYS_OFF)
    with clew.connect("memory://", telemetry=seen.telemetry()) as memory:
        if parent:
            with seen.tracer.start_as_current_span("request") as span:
                memory.put_state("t", {"n": 1})
                assert trace.get_current_span() is span
        else:
            memory.put_state("t", {"n": 1})
    assert seen.spans() == []


def test_every_public_method_and_every_storage_operation_is_observed(seen):
    memory = clew.connect("memory://", telemetry=seen.telemetry())
    twins = {name for name in dir(memory) if hasattr(memory, f"a{name}") and not name.startswith("_")}
    coroutines = {name for name in twins if asyncio.iscoroutinefunction(getattr(memory, f"a{name}"))}
    assert {f"a{name}" for name in coroutines} == set(public_calls(type(memory))) <= set(vars(memory))
    assert set(OPERATIONS) <= set(vars(ObservedStorage))
    assert len(coroutines) > 40


def test_an_unreachable_server_is_named_by_its_host_and_port(seen):
    memory = clew.connect("postgresql://ana:geheim@127.0.0.1:1/app", telemetry=seen.telemetry(), retry_for=0)
    with pytest.raises(TransientStorageError):
        memory.get_state("t")
    memory.release()
    told = seen.span("get_state").attributes
    assert told["server.address"] == "127.0.0.1"
    assert told["server.port"] == 1
    assert "geheim" not in str(dict(told))

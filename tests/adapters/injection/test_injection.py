"""Functions get the checkpointer of the container that is active when they are called."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any, Protocol

import pytest
from injectq import Inject, InjectQ, InjectQError, inject

import clew
from clew.adapters.injection import active, provide, resolved
from tests.checkpointer.conftest import STORES
from tests.checkpointer.support import run


@pytest.fixture(params=STORES)
def pair(request, tmp_path):
    """Two containers, each with its own checkpointer."""
    opened = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        opened.append(request.param(tmp_path / name))
    containers = [InjectQ(), InjectQ()]
    for container, store in zip(containers, opened, strict=True):
        provide(container, store.open())
    yield containers, [store.opened[0] for store in opened]
    for store in opened:
        store.close()


@resolved
async def remember(text: str, memory: Any = Inject[clew.BaseCheckpointer]) -> None:
    await asyncio.sleep(0)
    await memory.aput_state("t", text)


@resolved
def which(memory: Any = Inject[clew.BaseCheckpointer], *, note: str = "") -> Any:
    return memory


@pytest.mark.parametrize("activate", [active, InjectQ.context])
def test_a_function_gets_the_checkpointer_of_the_active_container(pair, activate):
    containers, memories = pair
    for container, memory in [*zip(containers, memories, strict=True), (containers[0], memories[0])]:
        with activate(container):
            assert which(note="kept") is memory
            assert container[clew.BaseCheckpointer] is memory


def test_functions_that_run_at_once_get_each_their_own(pair):
    containers, memories = pair

    async def within(number):
        with active(containers[number]):
            await remember(f"for {number}")

    async def go():
        await asyncio.gather(within(0), within(1), within(0))
        assert [await memory.aget_state("t") for memory in memories] == ["for 0", "for 1"]

    run(go())


def test_tasks_that_overlap_leave_nothing_active():
    one, two, own = InjectQ(), InjectQ(), InjectQ.get_instance()

    async def within(container, before, after):
        with active(container):
            await before.wait()
            assert InjectQ.get_instance() is container
            assert await asyncio.to_thread(InjectQ.get_instance) is container
        after.set()

    async def go():
        first, second, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
        # The first to begin ends first, while the other still runs.
        tasks = [asyncio.create_task(within(one, first, second)), asyncio.create_task(within(two, second, done))]
        await asyncio.sleep(0)
        assert InjectQ.get_instance() is own
        first.set()
        await asyncio.gather(*tasks)
        assert InjectQ.get_instance() is own

    run(go())
    assert InjectQ.get_instance() is own


def test_a_coroutine_that_is_closed_from_elsewhere_leaves_nothing_active():
    own = InjectQ.get_instance()

    async def within():
        with active(InjectQ()):
            await asyncio.sleep(0)

    coroutine = within()
    contextvars.copy_context().run(coroutine.send, None)
    coroutine.close()
    assert InjectQ.get_instance() is own


def test_the_decorator_of_injectq_works_too(pair):
    containers, memories = pair

    @inject
    def by_context(memory: Any = Inject[clew.BaseCheckpointer]) -> Any:
        return memory

    @inject(container=containers[1])
    def by_name(memory: Any = Inject[clew.BaseCheckpointer]) -> Any:
        return memory

    for container, memory in zip(containers, memories, strict=True):
        with active(container):
            assert by_context() is memory
            assert by_name() is memories[1]


def test_a_generator_gets_it_too(pair):
    @resolved
    async def items(memory: Any = Inject[clew.BaseCheckpointer]) -> Any:
        yield memory

    async def go():
        return [item async for item in items()]

    for container, memory in zip(*pair, strict=True):
        with active(container):
            assert run(go()) == [memory]


def test_arguments_that_are_passed_are_not_looked_up(pair):
    assert which("given") == which(memory="given") == "given"


def test_exceptions_of_a_function_are_not_wrapped(pair):
    @resolved
    async def fail(memory: Any = Inject[clew.BaseCheckpointer]) -> None:
        raise LookupError("no such town")

    with active(pair[0][0]), pytest.raises(LookupError, match="no such town"):
        run(fail())


def test_a_checkpointer_is_found_by_its_own_class_too(tmp_path):
    container = InjectQ()
    with clew.connect(f"sqlite:///{tmp_path / 'clew.db'}") as memory:
        provide(container, memory)
        assert container[clew.SQLiteCheckpointer] is container[clew.BaseCheckpointer] is memory
        with clew.connect("memory://") as other:
            provide(container, other)
            assert container[clew.BaseCheckpointer] is other


def test_without_a_checkpointer_the_error_says_how_to_provide_one():
    with active(InjectQ()):
        with pytest.raises(clew.ConfigError, match=r"no Checkpointer; .*provide\(container, "):
            which()
        with pytest.raises(clew.ConfigError, match="provide"):
            run(remember("nowhere"))


def test_other_missing_services_raise_the_error_of_injectq():
    class Absent(Protocol): ...

    @resolved
    def needs(thing: Any = Inject[Absent]) -> Any:
        return thing

    with active(InjectQ()), pytest.raises(InjectQError):
        needs()


def test_a_function_that_asks_for_nothing_stays_as_it_is():
    assert resolved(run) is run
    assert resolved(which) is which
    with pytest.raises(clew.ConfigError, match=r"clew\.connect"):
        provide(InjectQ(), "sqlite:///clew.db")  # type: ignore[arg-type]

"""Without a key, no saved content can be read in a store: tables, files, keys, journals, caches."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from agents import Runner
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

import clew
from clew.adapters.langgraph import ClewSaver
from clew.adapters.openai_agents import ClewSession
from clew.factory.encryption import with_encryption
from clew.storage.cached.tier import HotTier
from clew.storage.encrypted import encrypted_in
from clew.storage.memory import MemoryStorage
from clew.storage.wrapper import Kind, shared_states
from clew.testing import FaultyStorage
from clew.testing.servers import shared_redis
from tests.adapters.openai.support import agent
from tests.checkpointer.cached_support import status
from tests.checkpointer.support import RedisStore, run
from tests.encryption.support import ENCRYPTION, ONLY_NEW, ROTATED, dump, of_memory, opened
from tests.replicated.support import wait_until

STATE = ("secret-state", "secret-key", "secret-nested")
WORDS = (
    *STATE,
    "secret-long",
    "secret-said",
    "secret-role",
    "secret-message-metadata",
    "secret-checkpoint-metadata",
    "secret-node",
    "secret-name",
    "secret-tag",
    "secret-thread-metadata",
    "secret-attached",
)


def say_everything(memory: clew.BaseCheckpointer, thread: str = "t") -> None:
    message = clew.Message(
        message_id="m1", role="secret-role", content="secret-said", metadata={"is": "secret-message-metadata"}
    )
    memory.put_checkpoint(
        thread,
        # The long text becomes a value; the others stay in the body.
        {"secret-key": "secret-state", "deep": [{"down": ["secret-nested"]}], "long": "secret-long" + "ab" * 300},
        messages=[message],
        metadata={"is": "secret-checkpoint-metadata"},
        node_name="secret-node",
        step=7,
    )
    memory.put_thread(
        thread,
        clew.ThreadInfo(
            thread_id=thread,
            thread_name="secret-name",
            tags=("secret-tag",),
            metadata={"is": "secret-thread-metadata"},
        ),
    )
    head = memory.list_checkpoints(thread)[0]
    memory.put_attachments({"thread_id": thread, "checkpoint_id": head.checkpoint_id}, {"k": "secret-attached"})


def found_in(stored: bytes, words: tuple[str, ...] = WORDS) -> list[str]:
    return [word for word in words if word.encode() in stored]


def test_the_dump_of_a_plain_store_shows_everything(store):
    """Proves that the search below would find plain text."""
    memory = store.open()
    say_everything(memory)
    memory.release()
    assert set(found_in(dump(store))) >= set(WORDS) - {"secret-long"}


def test_an_encrypted_store_shows_nothing(store):
    memory = opened(store)
    say_everything(memory)
    fork = memory.fork("t")
    memory.put_state(fork, {"more": "secret-state"})
    memory.copy_thread("t", "copy")
    for number in range(40):
        memory.update_state("t", append={"log": [f"secret-state {number} " + "x" * 300]})
    memory.compact()
    assert memory.get_state("copy")["secret-key"] == "secret-state"
    memory.release()
    stored = dump(store)
    assert found_in(stored) == []
    assert b"m1" in stored, "ids stay readable"
    again = opened(store)
    assert again.list_messages("t")[0].content == "secret-said"
    (info,) = again.list_checkpoints("copy")
    assert (info.node_name, info.step, info.metadata) == ("secret-node", 7, {"is": "secret-checkpoint-metadata"})
    thread = again.get_thread("t")
    assert thread is not None
    assert thread.thread_name == "secret-name"


def graph(saver: ClewSaver) -> Any:
    class State(MessagesState):
        scalar: str
        number: int

    def ask(state: State) -> dict[str, Any]:
        answer = interrupt({"question": "secret-question"})
        return {"messages": [AIMessage(f"secret-reply {answer}", id="a")], "scalar": "secret-scalar", "number": 424242}

    def beside(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage("secret-pending", id="p")]}

    builder: Any = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("beside", beside)
    builder.add_edge(START, "ask")
    builder.add_edge(START, "beside")
    return builder.compile(checkpointer=saver)


def test_a_langgraph_graph_leaves_nothing_readable_not_even_scalars_and_pending_writes(store):
    words = (
        *("secret-question", "secret-reply", "secret-scalar", "secret-pending", "secret-input", "secret-resume"),
        *("secret-user-metadata", "424242", "channel_versions", "__interrupt__", "beside"),
    )
    config: Any = {"configurable": {"thread_id": "t"}, "metadata": {"who": "secret-user-metadata"}}
    waiting = graph(ClewSaver(opened(store)))
    waiting.invoke({"messages": [HumanMessage("secret-input", id="h")]}, config)
    assert found_in(dump(store), words) == []
    resumed = graph(ClewSaver(opened(store)))
    assert resumed.get_state(config).tasks[0].interrupts[0].value == {"question": "secret-question"}
    state = resumed.invoke(Command(resume="secret-resume"), config)
    assert (state["scalar"], state["number"]) == ("secret-scalar", 424242)
    assert {each.content for each in state["messages"]} >= {"secret-input", "secret-pending"}
    assert found_in(dump(store), words) == []


def test_a_session_of_the_openai_sdk_leaves_nothing_readable(store):
    async def converse() -> list[str]:
        session = ClewSession("s", opened(store))
        await Runner.run(agent("secret-answer"), "secret-input", session=session)
        return [each.text() for each in await session.checkpointer.alist_messages("s", search="SECRET")]

    assert run(converse()) == ["secret-input", "secret-answer"]
    assert found_in(dump(store), ("secret-input", "secret-answer")) == []


def test_a_cache_and_the_states_in_it_are_sealed(tmp_path):
    with closing(RedisStore(tmp_path)) as shared:
        cache = f"{shared_redis()}?prefix={shared.prefix}"
        path = tmp_path / "clew.db"
        with clew.SQLiteCheckpointer(path, encryption=ENCRYPTION, cache=cache, cache_timeout=60) as memory:
            say_everything(memory)
            memory.put_state_cache("t", {"is": "secret-volatile"})
            settled_sealed(memory)
            with clew.SQLiteCheckpointer(path, encryption=ENCRYPTION, cache=cache, cache_timeout=60) as other:
                assert other.get_state_cache("t") == {"is": "secret-volatile"}
                assert other.get_state("t")["secret-key"] == "secret-state"
                assert status(other).hits == 1
            with clew.SQLiteCheckpointer(path, encryption=ROTATED, cache=cache, cache_timeout=60) as newer:
                newer.put_state_cache("t", {"is": "of a key that others don't have yet"})
            # What it can't open is not there: it answers with the head that it saved.
            assert memory.get_state_cache("t")["secret-key"] == "secret-state"
        assert found_in(dump(shared), (*WORDS, "secret-volatile")) == []
        assert len(dump(shared)) > 600


def test_both_stores_and_the_journal_are_sealed():
    stores = Stores()
    with clew.DistributedCheckpointer(*stores.both(), encryption=ENCRYPTION, health_check_interval=0.05) as memory:
        say_everything(memory)
        stores.down = True
        say_everything(memory, "u")
        journal = stores.one._journal
        assert journal, "the secondary is away"
        assert found_in(of_memory(stores.one)) == found_in(of_memory(stores.two)) == []
        stores.down = False
        wait_until(lambda: not stores.one._journal)
        assert memory.list_messages("u", search="said")[0].role == "secret-role"
    assert found_in(of_memory(stores.two)) == []
    alone = clew.BaseCheckpointer(with_encryption(stores.two, ENCRYPTION))
    for thread in ("t", "u"):
        assert alone.get_state(thread)["secret-key"] == "secret-state"
        assert alone.list_threads({}, search="secret-name", limit=1)


def test_two_histories_are_merged_though_both_stores_are_sealed():
    stores = Stores()
    settings: Any = {"encryption": ENCRYPTION, "health_check_interval": 0.02, "failback_delay": 0.0, "timeout": 0.2}
    with clew.DistributedCheckpointer(*stores.both(), **settings) as memory:
        memory.put_state("t", {"long": ["secret-long" + "x" * 300], "n": 1})
        wait_until(lambda: not stores.one._journal)
        stores.primary_down = True
        memory.put_state("t", {"long": ["secret-long" + "x" * 300, "secret-state" + "y" * 300], "n": 2})
        stores.primary_down = False
        wait_until(
            lambda: memory.status().active_backend == "primary" and not stores.two._journal and not stores.one._journal
        )
        assert memory.get_state("t")["n"] == 2
        assert len(memory.list_checkpoints("t")) == 2
    assert found_in(of_memory(stores.one)) == found_in(of_memory(stores.two)) == []


def test_one_of_two_stores_can_be_encrypted_separately():
    stores = Stores()
    own = clew.BaseCheckpointer(with_encryption(stores.primary, ENCRYPTION))
    with clew.DistributedCheckpointer(own, clew.BaseCheckpointer(stores.secondary), encryption=ONLY_NEW) as memory:
        say_everything(memory)
        wait_until(lambda: not stores.one._journal)
        assert memory.reseal().left == ()
    assert found_in(of_memory(stores.one)) == found_in(of_memory(stores.two)) == []
    for storage, encryption in ((stores.one, ENCRYPTION), (stores.two, ONLY_NEW)):
        assert clew.BaseCheckpointer(with_encryption(storage, encryption)).get_state("t")["deep"]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_both_stores_are_resealed(mode):
    stores = Stores()
    settings: Any = {"replication_mode": mode, "health_check_interval": 0.05}
    with clew.DistributedCheckpointer(*stores.both(), encryption=ENCRYPTION, **settings) as memory:
        say_everything(memory)
        memory.fork("t", "f")
        say_everything(memory, "u")
        memory.delete_thread("f")
    with clew.DistributedCheckpointer(*stores.both(), encryption=ROTATED, **settings) as memory:
        assert memory.reseal().resealed == 2
        wait_until(lambda: not stores.one._journal)
        assert memory.reseal() == clew.ResealReport(threads=2, resealed=0)
    with clew.DistributedCheckpointer(*stores.both(), encryption=ONLY_NEW, **settings) as memory:
        assert memory.get_state("u")["secret-key"] == "secret-state"
        assert memory.resync().repaired == ()
    for storage in (stores.one, stores.two):
        alone = clew.BaseCheckpointer(with_encryption(storage, ONLY_NEW))
        assert alone.verify().ok
        assert alone.list_messages("t")[0].content == "secret-said"


class Stores:
    """Two stores in memory that can be switched off."""

    def __init__(self) -> None:
        self.one, self.two = MemoryStorage(), MemoryStorage()
        self.down = self.primary_down = False
        self.primary = FaultyStorage(self.one, lambda kind: _fault(kind, self.primary_down))
        self.secondary = FaultyStorage(self.two, lambda kind: _fault(kind, self.down))

    def both(self) -> tuple[clew.BaseCheckpointer, clew.BaseCheckpointer]:
        return clew.BaseCheckpointer(self.primary), clew.BaseCheckpointer(self.secondary)


def _fault(kind: Kind, down: bool) -> Any:
    return (f"before {kind}") if down else None


def settled_sealed(memory: clew.BaseCheckpointer) -> None:
    """Wait for the cache's pending writes."""
    (sealing,) = encrypted_in(memory.storage)
    tier = shared_states(sealing.inner)
    assert isinstance(tier, HotTier)
    memory.run(tier.settle(), "settle")

"""Probe: `python -m mutants.probe STORAGE DIRECTORY` makes commits that every rule
allows, and `python -m mutants.probe api DIRECTORY` usual calls. None may be refused.

A mutant that fails here is broken altogether, for example by a syntax error in SQL or Lua. A
failing test would prove nothing about it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import clew
from clew.model.commit import After, Removal
from clew.model.config import ANY_USER
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.testing.build import checkpoint, commit, fields, fork_of, messages, row
from clew.testing.driver import DrivenStorage
from clew.testing.servers import shared_postgres, shared_redis
from mutants.targets import API


def make_storage(name: str, directory: Path) -> Storage:
    """Return an empty storage of the kind `name`, in a place named after `directory`."""
    if name == "memory":
        return MemoryStorage()
    if name == "sqlite":
        from clew.storage.sqlite import SQLiteStorage

        return SQLiteStorage(directory / "clew.db")
    if name == "postgres":
        from clew.storage.postgres import PgStorage

        return PgStorage(shared_postgres(), schema=f"mutant {directory.name}")
    from clew.storage.redis import RedisStorage

    return RedisStorage(shared_redis(), prefix=str(directory))


def probe(store: DrivenStorage) -> None:
    """Make valid commits of every kind. Raises the error of the first that is refused."""
    basis = store.apply(
        commit("t", commit_id="c0", user="ann", values=row(0, 2), checkpoint=checkpoint("c0", covers=[(0, 2)]))
    ).basis
    for number in range(1, 6):
        assert basis is not None
        new = checkpoint(f"c{number}", covers=[(0, basis.next_value + 1)])
        usual = commit(
            "t", commit_id=f"c{number}", user="ann", basis=basis, values=row(basis.next_value), checkpoint=new
        )
        basis = store.apply(usual).basis
    assert basis is not None
    together = [
        commit(name, commit_id=f"{name}0", user="ann", values=row(0), checkpoint=checkpoint(f"{name}0"))
        for name in ("u", "v", "w")
    ]
    for outcome in store.outcomes(*together):
        if isinstance(outcome, Exception):
            raise outcome
    store.apply(commit("t", user="ann", messages=messages("one", "two")))
    store.apply(commit("t", user=ANY_USER, thread=fields("a name", user_id="ann")))
    token = store.lease("me", "t", user="ann", ttl=60).token
    store.apply(commit("t", user="ann", fence=token, checkpoint=checkpoint("fenced", on_conflict="reject")))
    if store.capabilities.journals:
        store.apply(commit("t", commit_id="noted", user="ann", messages=messages("three"), journal=b"j"))
        store.apply(commit("t", user="ann", messages=messages("four"), after=After("noted"), receipts=["elsewhere"]))
    store.apply(commit("t", user="ann", basis=basis, merge=[row(2, 2)]))
    store.apply(commit("f", user="ann", fork=fork_of("u", "u0")))
    sequence = store.values("t", user="ann").sequence
    store.apply(commit("t", user="ann", remove=Removal(checkpoints=(("", "c1"),), as_of=sequence)))
    store.apply(commit("w", user="ann", remove=Removal(thread=True)))


def probe_api(directory: Path) -> None:
    """Make usual calls of many kinds. Raises the error of the first that fails."""
    for name, encryption in {"plain": None, "sealed": clew.Encryption(keys={"k": clew.Encryption.new_key()})}.items():
        with clew.connect(f"sqlite:///{directory}/{name}.db", encryption=encryption) as memory:
            config = {"thread_id": "t", "user_id": "ann"}
            for number in range(3):
                made = memory.put_checkpoint(
                    config, {"messages": ["said"] * 50 * number}, messages=[{"role": "user", "content": "one"}]
                )
                memory.put_attachments({**config, "checkpoint_id": made.checkpoint_id}, {"key": number})
            assert memory.get_state(config) == {"messages": ["said"] * 100}
            with memory.lease(config):
                memory.update_state(config, set={"more": 1})
            memory.copy_thread(config, "copy")
            assert memory.verify().ok
            memory.cleanup(clew.RetentionPolicy(max_history=1))
            memory.delete_thread(config)
            assert [each.thread_id for each in memory.list_threads({"user_id": "ann"})] == ["copy"]


if __name__ == "__main__":
    # The parent process checks that the right sources were imported.
    sys.stdout.write(clew.__file__)
    chosen, place = sys.argv[1], Path(sys.argv[2])
    if chosen == API:
        probe_api(place)
    else:
        driven = DrivenStorage(lambda: make_storage(chosen, place))
        probe(driven)
        driven.close()

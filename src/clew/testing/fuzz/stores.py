"""Cases that open and use a damaged store."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from clew.checkpointer.base import BaseCheckpointer
from clew.factory import connect
from clew.model.config import ANY_USER
from clew.model.message import Message
from clew.model.retention import RetentionPolicy
from clew.testing.fuzz.limits import Outcome
from clew.testing.fuzz.mutations import damage
from clew.testing.fuzz.templates import KINDS, fresh_store

MAX_STATE_BYTES = 1 << 20
_EVERYBODY: dict[str, Any] = {"user_id": ANY_USER}


def store_case(number: int, outcome: Outcome, folder: Path, golden: list[Path]) -> None:
    """Damage a store, then list, read, verify, clean up, write and delete in it."""
    random = Random(f"stores {number}")
    which = random.randrange(KINDS + len(golden))
    source = fresh_store(which, folder) if which < KINDS else golden[which - KINDS]
    path = folder / "damaged.db"
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    shutil.copyfile(source, path)
    since = _begin_of_feed(path)
    done = damage(path, random)
    before = len(outcome.findings)
    checkpointer = connect(f"sqlite:///{path}", retry_for=0, max_state_bytes=MAX_STATE_BYTES, synchronous="NORMAL")
    try:
        use(checkpointer, random, outcome, since)
    finally:
        outcome.call("release", checkpointer.release)
    outcome.findings[before:] = [f"{each} [{source.name}: {done}]" for each in outcome.findings[before:]]


def _begin_of_feed(path: Path) -> str | None:
    """The position before the first entry of the file's feed."""
    with closing(sqlite3.connect(path)) as connection:
        try:
            ((generation,),) = connection.execute("SELECT generation FROM feed_state").fetchall()
        except (sqlite3.Error, ValueError):
            return None
    return f"{generation}.0"


def use(checkpointer: BaseCheckpointer, random: Random, outcome: Outcome, since: str | None = None) -> None:
    """Call everything that reads, then everything that writes. `since` is a position to watch from."""
    call = outcome.call
    listed = call("list_threads", lambda: checkpointer.list_threads(_EVERYBODY, limit=None)) or []
    call("list_threads(search)", lambda: checkpointer.list_threads(_EVERYBODY, search=random.choice(("t", "thread u"))))
    report = call("verify", checkpointer.verify)
    if report is not None and len(listed) > report.threads:
        outcome.findings.append(f"verify read {report.threads} threads of {len(listed)}")
    call("list_threads(tags)", lambda: checkpointer.list_threads(_EVERYBODY, tags=["x"]))
    call("search", lambda: checkpointer.search("abc", user_id=ANY_USER))
    call("watch", lambda: _watch(checkpointer, since))
    call("stats", checkpointer.stats)
    names = [each.thread_id for each in listed] or ["t"]
    for name in random.sample(names, min(3, len(names))):
        _read(checkpointer, {"thread_id": name, **_EVERYBODY}, random, outcome)
    policy = RetentionPolicy(max_history=2, max_age=timedelta(days=1), max_bytes=random.choice((None, 2000)))
    call("cleanup(dry_run)", lambda: checkpointer.cleanup(policy, dry_run=True))
    _write(checkpointer, {"thread_id": random.choice(names), **_EVERYBODY}, random, outcome)
    call("cleanup", lambda: checkpointer.cleanup(policy))
    call("compact", checkpointer.compact)
    call("verify", checkpointer.verify)
    call("watch", lambda: _watch(checkpointer, since))
    if random.random() < 0.2:
        call("clear_all", checkpointer.clear_all)


def _watch(checkpointer: BaseCheckpointer, since: str | None) -> None:
    with checkpointer.watch(_EVERYBODY, since=since, timeout=0) as watch:
        for _ in islice(watch, 100):
            pass


def _read(checkpointer: BaseCheckpointer, config: dict[str, Any], random: Random, outcome: Outcome) -> None:
    call = outcome.call
    call("get_thread", partial(checkpointer.get_thread, config))
    call("get_state", partial(checkpointer.get_state, config))
    call("get_history", partial(checkpointer.get_history, config, None, namespaces="all"))
    checkpoints = call("list_checkpoints", partial(checkpointer.list_checkpoints, config, limit=None)) or []
    for info in checkpoints[:3]:
        named = {**config, "checkpoint_id": info.checkpoint_id}
        call("get_checkpoint", partial(checkpointer.get_checkpoint, named))
        call("list_attachments", partial(checkpointer.list_attachments, named))
        call("diff", partial(checkpointer.diff, named, config))
    messages = call("list_messages", partial(checkpointer.list_messages, config, limit=None)) or []
    call("list_messages(search)", partial(checkpointer.list_messages, config, search=random.choice(("abc", "a"))))
    for message in messages[:2]:
        call("get_message", partial(checkpointer.get_message, config, message.message_id))


def _write(checkpointer: BaseCheckpointer, config: dict[str, Any], random: Random, outcome: Outcome) -> None:
    call = outcome.call
    ways = [
        ("put_state", lambda: checkpointer.put_state(config, {"messages": ["x" * 300] * 3, "n": 1})),
        ("update_state", lambda: checkpointer.update_state(config, append={"messages": [1]})),
        ("put_messages", lambda: checkpointer.put_messages(config, [Message(role="user", content="abc")])),
        ("put_retention", lambda: checkpointer.put_retention(config, RetentionPolicy(max_history=1))),
        ("fork", lambda: checkpointer.fork(config, "new")),
        ("copy_thread", lambda: checkpointer.copy_thread(config, "copy")),
        ("repair", lambda: checkpointer.repair(config)),
        ("lease", lambda: checkpointer.lease(config, 5)),
        ("delete_runs", lambda: checkpointer.delete_runs(["r"])),
        ("warm", lambda: checkpointer.warm(ANY_USER)),  # type: ignore[arg-type]
        ("clear_state", lambda: checkpointer.clear_state(config)),
        ("delete_thread", lambda: checkpointer.delete_thread(config)),
    ]
    for name, way in random.sample(ways, 5):
        call(name, way)

"""Import of threads from LangGraph's own savers, oldest checkpoint first.

An interrupted import can be resumed.

The source is read with the saver that wrote it. Checkpoints that exist in the target are skipped. A
checkpoint is written after its pending writes, so an existing checkpoint is complete.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from clew.adapters.langgraph.messages import moment_of
from clew.adapters.langgraph.saver import ClewSaver
from clew.adapters.langgraph.serializer import GraphSerializer
from clew.adapters.langgraph.values import Allowed, strict_serializer
from clew.clock import SYSTEM_CLOCK
from clew.errors import ConfigError, CorruptRecordError, MissingExtraError, StorageError
from clew.model.config import ANY_USER
from clew.model.reports import Progress

Place = tuple[str, str, str]
"""A checkpoint's thread, namespace and id."""

_LITE: Final = {
    "places": "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints",
    "writes": "SELECT task_id, task_path, idx FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
}
_POSTGRES: Final = {
    "places": "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints",
    "writes": "SELECT task_id, task_path, idx FROM checkpoint_writes "
    "WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result of an import: threads found, checkpoints imported, and checkpoints that existed."""

    threads: int
    checkpoints: int
    known: int


_ADVICE: Final = (
    "if you trust the source (pickle runs code), import it in Python with the serializer that wrote it: "
    "clew.adapters.langgraph.importing.open_source(url, serde=…)"
)


class _SourceSerializer(GraphSerializer):
    """A serializer that also reads the JSON of early LangGraph versions."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        if data[0] == "json":
            return JsonPlusSerializer(allowed_msgpack_modules=None).loads_typed(data)
        return super().loads_typed(data)


class PastClock:
    """A clock that shows the time of the checkpoint that is being imported."""

    def __init__(self) -> None:
        self.shows: datetime | None = None

    def now(self) -> datetime:
        return self.shows or SYSTEM_CLOCK.now()

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()


class Source(Protocol):
    """A LangGraph store."""

    def places(self) -> list[Place]:
        """Return all checkpoints, in any order."""

    def load(self, place: Place) -> CheckpointTuple | None: ...

    def write_keys(self, place: Place) -> list[tuple[str, str, int]]:
        """Return the task, path and index of each pending write."""


def import_threads(
    source: Source, saver: ClewSaver, *, clock: PastClock | None = None, progress: Progress | None = None
) -> Imported:
    """Copy every checkpoint of `source` that `saver` lacks, with its pending writes.

    A thread's owner is the value of the saver's `owner_key` in the metadata of its oldest
    checkpoint. To keep the times of the source, pass the checkpointer's `clock`. Objects of classes
    that are not allowed are copied in LangGraph's format.
    """
    threads: dict[str, list[Place]] = defaultdict(list)
    for place in source.places():
        threads[place[0]].append(place)
    total = sum(map(len, threads.values()))
    done = known = 0
    for thread_id, places in threads.items():
        config = {"thread_id": thread_id, "user_id": ANY_USER}
        there = saver.checkpointer.list_checkpoints(config, limit=None, namespaces="all")
        have = {(each.namespace, each.checkpoint_id) for each in there}
        thread = saver.checkpointer.get_thread(config)
        owner = _named(saver, thread.user_id) if thread and thread.user_id else None
        # LangGraph's ids grow with time.
        for place in sorted(places, key=lambda each: each[2]):
            if progress is not None:
                progress(done, total)
            done += 1
            if place[1:] in have:
                known += 1
                continue
            found = _load(source, place)
            if found is None:
                continue
            if owner is None:
                user_id = found.metadata.get(saver.owner_key) if saver.owner_key is not None else None
                owner = _named(saver, user_id) if user_id and not have else {}
            _put(saver, source, place, found, owner, clock)
    if progress is not None:
        progress(total, total)
    return Imported(threads=len(threads), checkpoints=total - known, known=known)


def _named(saver: ClewSaver, user_id: Any) -> dict[str, Any]:
    return {saver.owner_key: user_id} if saver.owner_key is not None else {}


def _put(
    saver: ClewSaver, source: Source, place: Place, found: CheckpointTuple, owner: Any, clock: PastClock | None
) -> None:
    thread_id, namespace, checkpoint_id = place
    if clock is not None:
        clock.shows = moment_of(found.checkpoint)
    here: Any = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id, **owner}
    saver.put_indexed_writes({"configurable": here}, _writes(found, source.write_keys(place)))
    parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
    saver.put(
        {"configurable": {**here, "checkpoint_id": parent}},
        found.checkpoint,
        found.metadata,
        found.checkpoint["channel_versions"],
    )


def _writes(found: CheckpointTuple, keys: list[tuple[str, str, int]]) -> list[tuple[int, str, str, str, Any]]:
    """Return the pending writes with their indexes and paths.

    Within a task, both lists are in index order.
    """
    by_task: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for task_id, path, index in sorted(keys, key=lambda key: key[2]):
        by_task[task_id].append((index, path))
    placed = []
    for task_id, channel, value in found.pending_writes or ():
        index, path = by_task[task_id].pop(0)
        placed.append((index, task_id, path, channel, value))
    return placed


def _load(source: Source, place: Place) -> CheckpointTuple | None:
    try:
        return source.load(place)
    except CorruptRecordError as error:
        kind = error.facts.get("kind")
        raise StorageError(
            f"checkpoint {place[2]} of thread {place[0]!r} can't be read: "
            + (f"{error}" if kind is None else f"it is stored as {kind!r:.40}; {_ADVICE}"),
            thread_id=place[0],
            checkpoint_id=place[2],
        ) from error


@contextmanager
def open_source(url: str, *, allow: Allowed = (), serde: SerializerProtocol | None = None) -> Iterator[Source]:
    """Open the LangGraph store at `url`, `sqlite:///path.db` or `postgresql://…`, read-only.

    `serde` is the serializer that wrote it, if that was not LangGraph's default.
    """
    serde = serde or _SourceSerializer(strict_serializer(allow).classes, tell=lambda _: None)
    scheme = urlsplit(url).scheme
    if scheme in ("postgres", "postgresql"):
        with _postgres(url, serde) as source:
            yield source
    elif scheme == "sqlite":
        with _sqlite(Path(unquote(urlsplit(url).path[1:])), serde) as source:
            yield source
    else:
        raise ConfigError(f"{url!r} is not the URL of a LangGraph store: write sqlite:///path.db or postgresql://…")


class _Tables:
    """The tables of one of LangGraph's savers. `rows` runs a statement on its connection."""

    def __init__(self, saver: BaseCheckpointSaver[Any], sql: dict[str, str], rows: Any) -> None:
        self._saver = saver
        self._sql = sql
        self._rows = rows

    def places(self) -> list[Place]:
        return [tuple(row) for row in self._rows(self._sql["places"], ())]

    def load(self, place: Place) -> CheckpointTuple | None:
        thread_id, namespace, checkpoint_id = place
        named = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
        return self._saver.get_tuple({"configurable": named})

    def write_keys(self, place: Place) -> list[tuple[str, str, int]]:
        return [tuple(row) for row in self._rows(self._sql["writes"], place)]


@contextmanager
def _sqlite(path: Path, serde: SerializerProtocol) -> Iterator[Source]:
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "reading LangGraph's SQLite files needs its saver: pip install langgraph-checkpoint-sqlite"
        ) from error
    if not path.is_file():
        raise StorageError(f"there is no file {path}", path=str(path))
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        ) as opened:
            saver = SqliteSaver(opened, serde=serde)
            # Skip the saver's setup, which would write. Old tables lack a column.
            saver.is_setup = True
            saver._has_task_path = any(row[1] == "task_path" for row in opened.execute("PRAGMA table_info(writes)"))
            sql = _LITE if saver._has_task_path else {**_LITE, "writes": _LITE["writes"].replace("task_path", "''")}
            yield _Tables(saver, sql, lambda statement, values: opened.execute(statement, values).fetchall())
    except sqlite3.Error as error:
        raise StorageError(f"{path} can't be read as a LangGraph store: {error}", path=str(path)) from error


@contextmanager
def _postgres(url: str, serde: SerializerProtocol) -> Iterator[Source]:
    try:
        import psycopg
        from langgraph.checkpoint.postgres import PostgresSaver
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "reading LangGraph's PostgreSQL tables needs its saver: "
            "pip install langgraph-checkpoint-postgres 'psycopg[binary]'"
        ) from error
    try:
        with PostgresSaver.from_conn_string(url) as saver:
            saver.serde = serde
            opened: Any = saver.conn
            sql = _POSTGRES
            if not _has_paths(opened):
                # Tables of langgraph-checkpoint-postgres 1.0 and early 2.0 that were never
                # migrated.
                sql = {**sql, "writes": sql["writes"].replace("task_path", "''")}
                for name in ("SELECT_SQL", "SELECT_PENDING_SENDS_SQL"):
                    statement = getattr(saver, name)
                    setattr(
                        saver,
                        name,
                        statement.replace("cw.task_path", "''").replace("order by task_path, ", "order by "),
                    )

            def rows(statement: str, values: tuple[str, ...]) -> list[tuple[Any, ...]]:
                return [tuple(row.values()) for row in opened.execute(statement, values).fetchall()]

            yield _Tables(saver, sql, rows)
    except psycopg.Error as error:
        raise StorageError(f"{urlsplit(url).hostname} can't be read as a LangGraph store: {error}") from error


def _has_paths(opened: Any) -> bool:
    """Return whether the table of writes has the column that LangGraph's tenth migration added."""
    found = opened.execute(
        "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('checkpoint_writes') AND attname = 'task_path' "
        "AND NOT attisdropped"
    )
    return found.fetchone() is not None

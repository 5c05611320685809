"""Lookup of the store, thread and checkpoint that the user named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import clew
from clew.storage.protocol import Storage
from clew.storage.sqlite import SQLiteStorage
from clew.storage.wrapper import StorageWrapper


def open_store(url: str) -> clew.BaseCheckpointer:
    """Open the store at `url`. Raises an error if it does not exist: commands create no store."""
    checkpointer = clew.connect(url)
    if not _storage_of(checkpointer).capabilities.durable:
        raise clew.ConfigError(
            f"{url} exists only inside one process; name a durable store, such as --url sqlite:///file.db"
        )
    path = file_of(checkpointer)
    if path is not None:
        _must_hold_something(path)
    return checkpointer


def file_of(checkpointer: clew.BaseCheckpointer) -> Path | None:
    """Return the file that the store is, or `None` if it is something else."""
    storage = _storage_of(checkpointer)
    return Path(storage.path) if isinstance(storage, SQLiteStorage) else None


def _storage_of(checkpointer: clew.BaseCheckpointer) -> Storage:
    storage = checkpointer.storage
    while isinstance(storage, StorageWrapper):
        storage = storage.inner
    return storage


def _must_hold_something(path: Path) -> None:
    try:
        found = path.stat()
    except FileNotFoundError:
        raise clew.StorageError(
            f"{path} does not exist; name the store with --url sqlite:///file.db or $CLEW_URL", path=str(path)
        ) from None
    except OSError as error:
        raise clew.StorageError(f"{path} can't be opened: {error.strerror}", path=str(path)) from error
    if not path.is_file():
        raise clew.StorageError(f"{path} is not a file", path=str(path))
    if found.st_size == 0:
        raise clew.StorageError(f"{path} is empty: nothing has been saved there", path=str(path))


def config_of(thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any]:
    """Return a config that may access the threads of all users."""
    return {"thread_id": thread_id, "checkpoint_id": checkpoint_id, "user_id": clew.ANY_USER}


def find_thread(checkpointer: clew.BaseCheckpointer, thread_id: str) -> clew.ThreadInfo:
    """Return the thread. Raises ConfigError if it does not exist."""
    found = checkpointer.get_thread(config_of(thread_id))
    if found is None:
        raise clew.ConfigError(
            f"thread {thread_id!r} does not exist; `clew threads` lists all threads", thread_id=thread_id
        )
    return found


def find_checkpoint(checkpointer: clew.BaseCheckpointer, thread_id: str, name: str | None) -> clew.CheckpointInfo:
    """Return the checkpoint that `name` identifies: an id, a prefix of one, a number from
    `clew history`, or the head.

    Raises ConfigError if no checkpoint matches, or more than one.
    """
    find_thread(checkpointer, thread_id)
    checkpoints = checkpointer.list_checkpoints(config_of(thread_id), limit=1 if name is None else None)
    if not checkpoints:
        raise clew.ConfigError(f"thread {thread_id!r} has no checkpoints", thread_id=thread_id)
    if name is None:
        return checkpoints[0]
    number = name.removeprefix("#")
    exact = [each for each in checkpoints if each.checkpoint_id == name or str(each.sequence) == number]
    found = exact or [each for each in checkpoints if each.checkpoint_id.startswith(name)]
    if not found:
        raise clew.ConfigError(
            f"thread {thread_id!r} has no checkpoint {name!r}; `clew history {thread_id}` lists them",
            thread_id=thread_id,
        )
    if len(found) > 1:
        raise clew.ConfigError(
            f"{len(found)} checkpoints of thread {thread_id!r} begin with {name!r}; give a longer prefix",
            thread_id=thread_id,
        )
    return found[0]

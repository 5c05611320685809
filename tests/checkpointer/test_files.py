"""Unusable files and failing disks: a clear error, and no partial writes."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import clew
from clew.storage.sqlite.connections import Connections
from tests.checkpointer.support import python, run, text

CALLS = {
    "put_state": lambda c: c.put_state("t", {"n": 1}),
    "get_state": lambda c: c.get_state("t"),
    "update_state": lambda c: c.update_state("t", set={"n": 1}),
    "put_messages": lambda c: c.put_messages("t", [clew.Message(role="user")]),
    "list_threads": lambda c: c.list_threads({}),
    "setup": lambda c: c.setup(),
    "ping": lambda c: c.ping(),
    "stats": lambda c: c.stats(),
    "lease": lambda c: c.lease("t").__enter__(),
    "compact": lambda c: c.compact(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_directory_that_does_not_exist_is_named_by_every_call(tmp_path, call):
    checkpointer = clew.SQLiteCheckpointer(tmp_path / "absent" / "clew.db")
    with pytest.raises(clew.StorageError, match="absent is not a directory: create it"):
        CALLS[call](checkpointer)
    assert not (tmp_path / "absent").exists()
    (tmp_path / "absent").mkdir()
    checkpointer.put_state("t", {"n": 1})
    assert checkpointer.get_state("t") == {"n": 1}
    checkpointer.release()


def test_it_is_named_to_async_callers_too(tmp_path):
    async def go():
        checkpointer = clew.SQLiteCheckpointer(tmp_path / "absent" / "clew.db")
        with pytest.raises(clew.StorageError, match="absent is not a directory"):
            await checkpointer.aput_state("t", 1)
        with pytest.raises(clew.StorageError, match="absent is not a directory"):
            await checkpointer.aget_state("t")
        await checkpointer.arelease()

    run(go())


def test_a_directory_or_a_path_under_a_file_is_no_place_for_a_database(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(clew.ConfigError, match="is a directory") as refused:
        clew.SQLiteCheckpointer(tmp_path)
    assert str(tmp_path) in str(refused.value)
    checkpointer = clew.SQLiteCheckpointer(tmp_path / "file" / "clew.db")
    with pytest.raises(clew.StorageError, match=r"can't be opened|not a directory") as caught:
        checkpointer.put_state("t", 1)
    assert str(tmp_path / "file") in str(caught.value)
    checkpointer.release()
    assert (tmp_path / "file").read_text() == "x"


def not_a_database(path):
    path.write_bytes(b"My notes. " * 500)


def another_applications(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE notes (x)")
        connection.execute("INSERT INTO notes VALUES ('mine')")
    connection.close()


def newer(path):
    clew.SQLiteCheckpointer(path).put_state("t", 1)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (not_a_database, "not a database.*own"),
        (another_applications, "not one of Clew's.*own"),
        (newer, "version 99.*upgrade"),
    ],
)
def test_a_file_that_is_not_ours_to_write_is_refused_and_left_as_it_was(tmp_path, prepare, says):
    path = tmp_path / "clew.db"
    prepare(path)
    checkpointer = clew.SQLiteCheckpointer(path)
    before = path.read_bytes()
    for call in CALLS.values():
        with pytest.raises(clew.SchemaVersionError, match=says):
            call(checkpointer)
    checkpointer.release()
    assert path.read_bytes() == before


def test_a_truncated_file_is_an_error_not_an_empty_store(sqlite):
    checkpointer = sqlite.open()
    for number in range(50):
        checkpointer.put_state(f"t{number}", {"m": text(number, 3000)})
    checkpointer.release()
    with sqlite.path.open("r+b") as file:
        file.truncate(sqlite.path.stat().st_size // 2)
    damaged = sqlite.open()
    outcomes = []
    for number in range(50):
        try:
            outcomes.append(damaged.get_state(f"t{number}") == {"m": text(number, 3000)})
        except clew.ClewError:
            outcomes.append("error")
    assert "error" in outcomes
    assert False not in outcomes


# Not writable. Root ignores permissions, so the reader is another user.

_NOBODY = """
import os, sys
import clew
clew.InMemoryCheckpointer().update_state("t", set={"n": 1})  # imports what nobody may not
if os.getuid() == 0:
    os.setuid(65534)
checkpointer = clew.SQLiteCheckpointer(sys.argv[1], busy_timeout=1)
for call in (lambda: checkpointer.put_state("t", {"n": 2}), lambda: checkpointer.update_state("t", set={"n": 2})):
    try:
        call()
    except clew.StorageError as error:
        print(type(error).__name__, error)
    else:
        print("it went through")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize("what", ["file", "directory", "both"])
def test_what_is_read_only_is_said_to_be_so_and_stays_as_it_is(tmp_path, what):
    # In a directory that another user can enter; pytest's is private.
    home = tmp_path / "home"
    home.mkdir()
    path = home / "clew.db"
    with clew.SQLiteCheckpointer(path) as checkpointer:
        checkpointer.put_state("t", {"n": 1})
    path.chmod(0o444 if what in ("file", "both") else 0o666)
    home.chmod(0o555 if what in ("directory", "both") else 0o777)
    modes = {parent: parent.stat().st_mode for parent in [tmp_path, *tmp_path.parents] if "pytest-of-" in str(parent)}
    for parent in modes:
        parent.chmod(0o755)
    try:
        said = python(_NOBODY, path)
    finally:
        for parent, mode in modes.items():
            parent.chmod(mode)
        home.chmod(0o777)
    assert len(said.splitlines()) == 2, said
    assert "it went through" not in said
    assert all("writable" in line or "permissions" in line for line in said.splitlines()), said
    path.chmod(0o666)
    with clew.SQLiteCheckpointer(path) as checkpointer:
        assert checkpointer.get_state("t") == {"n": 1}
        checkpointer.put_state("t", {"n": 3})


# Full


def test_a_full_disk_is_said_to_be_full_and_the_earlier_state_still_loads(sqlite, monkeypatch):
    opening, pages = Connections.open, [80]

    def open_small(self, **options):
        connection = opening(self, **options)
        connection.execute(f"PRAGMA max_page_count = {pages[0]}")
        return connection

    monkeypatch.setattr(Connections, "open", open_small)
    checkpointer = sqlite.open()
    checkpointer.put_checkpoint("t", {"n": 1}, messages=[clew.Message(role="user", content="before")])
    big = [clew.Message(role="user", content=text("big", 1_000_000))]
    for write in (
        lambda: checkpointer.put_state("t", {"n": text(2, 1_000_000)}),
        lambda: checkpointer.put_checkpoint("t", {"n": 2}, messages=big),
        lambda: checkpointer.put_messages("t", big),
        lambda: checkpointer.update_state("t", set={"n": text(2, 1_000_000)}),
    ):
        with pytest.raises(clew.StorageError, match="full; free some space"):
            write()
    assert checkpointer.get_state("t") == {"n": 1}
    assert len(checkpointer.list_checkpoints("t")) == 1
    assert [each.content for each in checkpointer.list_messages("t")] == ["before"]
    pages[0] = 100_000
    checkpointer.put_state("t", {"n": "it goes on"})
    checkpointer.put_state("t", {"n": text(2, 1_000_000)})
    assert checkpointer.get_state("t") == {"n": text(2, 1_000_000)}
    assert checkpointer.verify().ok


_LIMITED = """
import resource, signal, sys
import clew
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
checkpointer = clew.SQLiteCheckpointer(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
saved, refused = 0, ""
for number in range(400):
    try:
        checkpointer.put_state("t", {"n": number, "m": [str(number) * 5000 + str(hash((number, n))) * 50 for n in range(9)]})
        saved = number
    except clew.StorageError as error:
        refused = str(error)
        break
print(saved)
print(refused)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert checkpointer.get_state("t")["n"] == saved, checkpointer.get_state("t")["n"]
checkpointer.put_state("t", {"n": saved + 1})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX resource limits")
def test_a_file_that_may_not_grow_keeps_everything_acknowledged(sqlite):
    saved, refused = python(_LIMITED, sqlite.path).splitlines()
    assert int(saved) > 3
    assert "disk" in refused
    checkpointer = sqlite.open()
    assert checkpointer.get_state("t")["n"] == int(saved) + 1
    assert checkpointer.size("t") == int(saved) + 2
    assert checkpointer.verify().ok


def test_a_new_file_and_its_log_are_for_their_user_only(tmp_path):
    path = tmp_path / "agent.db"
    with umask(0o022), clew.connect(f"sqlite:///{path}") as memory:
        memory.put_state("t", {"a": 1})
        modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    assert modes["agent.db"] == 0o600
    assert set(modes.values()) == {0o600}


def test_a_new_file_behind_a_symbolic_link_is_for_its_user_only(tmp_path):
    link, path = tmp_path / "link.db", tmp_path / "there" / "agent.db"
    path.parent.mkdir()
    link.symlink_to(path)
    with umask(0o022), clew.connect(f"sqlite:///{link}") as memory:
        memory.put_state("t", {"a": 1})
        assert {each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {0o600}


def test_a_file_that_is_there_keeps_its_permissions(tmp_path):
    path = tmp_path / "agent.db"
    path.touch(0o640)
    path.chmod(0o640)
    with clew.connect(f"sqlite:///{path}") as memory:
        memory.put_state("t", {"a": 1})
    assert path.stat().st_mode & 0o777 == 0o640


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_goes_away_under_a_running_process_is_noticed(tmp_path, how):
    path = tmp_path / "agent.db"
    memory = clew.connect(f"sqlite:///{path}")
    memory.put_state("t", {"a": 1})
    memory.get_state("t")
    path.rename(tmp_path / "elsewhere.db")
    if how == "replaced":
        with clew.connect(f"sqlite:///{path}") as other:
            other.put_state("other", {"b": 1})
    for call in (
        lambda: memory.put_state("t", {"a": 2}),
        lambda: memory.get_state("t"),
        lambda: memory.list_threads({}),
    ):
        with pytest.raises(clew.StorageError, match="deleted or replaced"):
            call()
    assert path.exists() == (how == "replaced")
    memory.release()

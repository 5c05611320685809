"""Encryption settings: the sources of keys, and that no key is ever shown."""

from __future__ import annotations

import base64
import logging
import sys
import traceback

import pytest
from typer.testing import CliRunner

import clew
from clew.cli.app import app
from tests.encryption.support import ENCRYPTION, NEW, OLD, ROTATED, opened

TEXT = base64.b64encode(OLD).decode()


def test_a_key_is_bytes_or_text_in_base64():
    urlsafe = base64.urlsafe_b64encode(bytes([255] * 32)).decode()
    made = clew.Encryption(keys={"a": OLD, "b": TEXT, "c": urlsafe})
    assert dict(made.keys) == {"a": OLD, "b": OLD, "c": bytes([255] * 32)}
    assert made.current == "a"
    assert clew.Encryption(keys={"a": OLD, "b": NEW}, current="b").current == "b"


def test_a_new_key_is_another_one_each_time():
    one, other = clew.Encryption.new_key(), clew.Encryption.new_key()
    assert one != other
    assert len(clew.Encryption(keys={"k": one}).keys["k"]) == 32


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, "needs keys"),
        ([OLD], "needs keys"),
        ({"a": OLD[:16]}, "has 16 bytes; it needs 32"),
        ({"a": TEXT[:20]}, "it needs 32"),
        ({"a": "no base64!"}, "not text in base64"),
        ({"a": 7}, "must be bytes"),
        ({"": OLD}, "id"),
        ({"a:b": OLD}, "id"),
        ({"x" * 33: OLD}, "id"),
        ({1: OLD}, "id"),
    ],
)
def test_invalid_keys_are_refused(keys, said):
    with pytest.raises(clew.ConfigError, match=said):
        clew.Encryption(keys=keys)


def test_other_settings_that_make_no_sense_are_refused():
    with pytest.raises(clew.ConfigError, match="not one of the keys a"):
        clew.Encryption(keys={"a": OLD}, current="b")
    with pytest.raises(clew.ConfigError, match="plain must be"):
        clew.Encryption(keys={"a": OLD}, plain="maybe")  # type: ignore[arg-type]
    with pytest.raises(clew.ConfigError, match=r"takes a clew\.Encryption"):
        clew.connect("memory://", encryption={"a": OLD})  # type: ignore[call-overload]
    for text in ("", "a", "a:", f"a:{TEXT},a:{TEXT}", f"a:{TEXT[:-4]}"):
        with pytest.raises(clew.ConfigError):
            clew.Encryption.from_text(text)


def test_no_key_is_ever_shown(sqlite, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    memory = opened(sqlite)
    memory.put_state("t", {"n": 1})
    shown = [repr(ENCRYPTION), str(ENCRYPTION), repr(memory), repr(memory.storage)]
    for wrong in (
        lambda: clew.Encryption(keys={"a": TEXT[:-8]}),
        lambda: clew.Encryption(keys={TEXT: "x"}),
        lambda: clew.Encryption.from_text(TEXT),
        lambda: clew.Encryption.from_text(f"a={TEXT}"),
        lambda: clew.connect("memory://", encryption=TEXT),  # type: ignore[call-overload]
        lambda: opened(sqlite, clew.Encryption(keys={"new": NEW})).get_state("t"),
    ):
        with pytest.raises(clew.ClewError) as caught:
            wrong()
        shown += traceback.format_exception_only(caught.value)
        shown += [str(each) for each in (caught.value.facts, caught.value.__cause__)]
    secrets = [TEXT[:12], repr(OLD)[2:20], base64.b64encode(NEW).decode()[:12], repr(NEW)[2:20]]
    assert [each for each in secrets if each in "\n".join([*shown, caplog.text])] == []


@pytest.mark.parametrize(
    "make",
    [
        lambda path, **options: clew.InMemoryCheckpointer(**options),
        lambda path, **options: clew.SQLiteCheckpointer(path, **options),
        lambda path, **options: clew.connect(f"sqlite:///{path}", **options),
        lambda path, **options: clew.connect(f"sqlite:///{path}", secondary=f"sqlite:///{path}2", **options),
        lambda path, **options: clew.connect(f"sqlite:///{path}", cache="memory://", **options),
        lambda path, **options: clew.connect(f"sqlite:///{path}", durability="background", **options),
    ],
    ids=["memory", "sqlite", "connect", "two stores", "a cache", "background"],
)
def test_every_way_to_make_a_checkpointer_takes_encryption(tmp_path, make):
    with make(tmp_path / "clew.db", encryption=ENCRYPTION) as memory:
        memory.put_state("t", {"is": "secret"})
        assert memory.get_state("t") == {"is": "secret"}
        assert memory.reseal().resealed == 0
    for path in tmp_path.iterdir():
        assert b"secret" not in path.read_bytes()


def test_connect_takes_the_keys_of_the_environment(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path / 'clew.db'}"
    monkeypatch.setenv("CLEW_ENCRYPTION_KEYS", f"new:{base64.b64encode(NEW).decode()}, old:{TEXT}")
    with clew.connect(url) as memory:
        memory.put_state("t", 1)
    with clew.connect(url, encryption=ROTATED) as memory:
        assert memory.get_state("t") == 1
    with pytest.raises(clew.EncryptionError), clew.connect(url, encryption=None):
        pass
    with pytest.raises(clew.EncryptionError, match="'new'"), clew.connect(url, encryption=ENCRYPTION):
        pass
    monkeypatch.setenv("CLEW_ENCRYPTION_KEYS", "nonsense")
    with pytest.raises(clew.ConfigError, match="CLEW_ENCRYPTION_KEYS"):
        clew.connect(url)


def test_without_cryptography_the_error_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name == "clew.codec.keyring" or name.startswith("cryptography")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(clew.MissingExtraError, match=r"pip install 'clew\[crypto\]'"):
        clew.connect("memory://", encryption=ENCRYPTION)
    assert clew.connect("memory://") is not None


def clew_command(*arguments: str, keys: str | None = None):
    return CliRunner().invoke(app, arguments, env={"CLEW_ENCRYPTION_KEYS": keys})


def test_the_command_reads_and_reseals_an_encrypted_store(tmp_path):
    url = f"sqlite:///{tmp_path / 'clew.db'}"
    old = clew_command("key", "--id", "old").output.strip()
    new = clew_command("key").output.strip()
    with clew.connect(url, encryption=clew.Encryption.from_text(old)) as memory:
        memory.put_state("t", {"is": "secret"})
        memory.put_messages("t", [clew.Message(role="user", content="secret words")])
    assert "secret words" in clew_command("--url", url, "messages", "t", "--search", "SECRET", keys=old).output
    failed = clew_command("--url", url, "show", "t")
    assert failed.exit_code == 1
    done = clew_command("--url", url, "reseal", keys=f"{new},{old}")
    assert (done.exit_code, done.output.strip()) == (0, "1 of 1 thread encrypted with the current key")
    assert "secret" in clew_command("--url", url, "show", "t", keys=new).output
    assert clew_command("--url", f"{url}-not-there", "threads", keys=new).exit_code == 1
    assert clew_command("key", "--id", "a:b").exit_code == 1


def test_the_command_says_what_could_not_be_resealed(tmp_path):
    url = f"sqlite:///{tmp_path / 'clew.db'}"
    old, new = f"old:{TEXT}", f"new:{base64.b64encode(NEW).decode()}"
    with clew.connect(url, encryption=ENCRYPTION) as memory:
        memory.put_state("t", {"is": ["x" * 300]})
        memory.fork("t", "f")
    done = clew_command("--url", url, "reseal", keys=f"{new},{old}")
    assert done.exit_code == 1
    assert "keep the old keys" in done.output
    assert clew_command("--url", url, "reseal", "f", keys=f"{new},{old}").exit_code == 1

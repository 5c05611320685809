"""Encryption keys of a store."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from clew.errors import ConfigError, EncryptionError, shown

KEY_SIZE: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,32}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Encryption:
    """Keys by id. Records are written with `current` (by default the first) and read with any key.

    A key is 32 bytes, or base64 text like that of `new_key`. `plain` decides about records that are not
    encrypted: `"refuse"` them, or `"read"` them, for a store that is being encrypted in place. Keys are
    never shown.
    """

    keys: Mapping[str, bytes | str]
    current: str | None = None
    plain: Literal["refuse", "read"] = "refuse"

    def __post_init__(self) -> None:
        if not isinstance(self.keys, Mapping) or not self.keys:
            raise ConfigError('Encryption needs keys by id: clew.Encryption(keys={"2026": key})')
        read = {_checked_name(name): _checked_key(name, key) for name, key in self.keys.items()}
        object.__setattr__(self, "keys", read)
        if self.current is None:
            object.__setattr__(self, "current", next(iter(read)))
        elif self.current not in read:
            raise ConfigError(f"current={shown(self.current)} is not one of the keys {', '.join(read)}")
        if self.plain not in ("refuse", "read"):
            raise ConfigError(f'plain must be "refuse" or "read", not {shown(self.plain)}')

    def __repr__(self) -> str:
        return f"Encryption(keys={list(self.keys)}, current={self.current!r}, plain={self.plain!r})"

    @staticmethod
    def new_key() -> str:
        """Return a new random key as base64 text."""
        return base64.b64encode(secrets.token_bytes(KEY_SIZE)).decode()

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read keys from `id:key,id:key` (`CLEW_ENCRYPTION_KEYS`). The first is current."""
        keys: dict[str, bytes | str] = {}
        for part in text.split(","):
            name, separator, key = part.strip().partition(":")
            if not separator or name in keys:
                # The error does not quote the text, because part of it is a key.
                raise ConfigError(
                    "encryption keys are written as id:key,id:key with each id once; `clew key` makes one"
                )
            keys[name] = key.strip()
        return cls(keys=keys)


def no_key() -> EncryptionError:
    """The error for a process without keys that opens an encrypted store or record."""
    return EncryptionError(
        "the store is encrypted: open it with encryption=clew.Encryption(keys=…), or with its keys in "
        "CLEW_ENCRYPTION_KEYS"
    )


def missing_key(what: str, *names: str) -> EncryptionError:
    """The error for `what`, which is encrypted with keys of these ids, none of which was given."""
    needed = ", ".join(map(ascii, names))
    return EncryptionError(
        f"{what} is encrypted with key {needed}, which was not given; add it to the keys in encryption=", keys=names
    )


def wrong_key(what: str, name: str) -> EncryptionError:
    """The error for `what`, which is encrypted with another key of this id."""
    return EncryptionError(
        f"key {name!a} is not the key that {what} is encrypted with under this id; give the right one in encryption=",
        keys=(name,),
    )


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(f"a key's id has up to 32 letters, digits, '.', '_' or '-'; got {type(name).__name__}")
    return name


def _checked_key(name: str, key: object) -> bytes:
    if isinstance(key, str):
        try:
            key = base64.b64decode(key.replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            raise ConfigError(f"key {name!r} is not text in base64; `clew key` makes one") from None
    if not isinstance(key, (bytes, bytearray)):
        raise ConfigError(f"key {name!r} must be bytes, or text in base64; not {type(key).__name__}")
    if len(key) != KEY_SIZE:
        raise ConfigError(f"key {name!r} has {len(key)} bytes; it needs {KEY_SIZE}: `clew key` makes one")
    return bytes(key)

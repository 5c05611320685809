"""The keys of an encrypted store."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from clew.errors import ConfigError, shown

KEY_SIZE: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,32}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Encryption:
    """Keys by id: what is written is sealed with `current` (without it, the first), what is read may be sealed with any.

    A key is 32 bytes, or text in base64 as `new_key` makes it. `plain` says what becomes of records that are not encrypted:
    `"refuse"` them, or `"read"` them, for a store that is being encrypted in place. No key is ever shown.
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
            raise ConfigError(f"current={shown(self.current)} is none of the keys {', '.join(read)}")
        if self.plain not in ("refuse", "read"):
            raise ConfigError(f'plain must be "refuse" or "read", not {shown(self.plain)}')

    def __repr__(self) -> str:
        return f"Encryption(keys={list(self.keys)}, current={self.current!r}, plain={self.plain!r})"

    @staticmethod
    def new_key() -> str:
        """A key drawn at random, as text in base64."""
        return base64.b64encode(secrets.token_bytes(KEY_SIZE)).decode()

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The keys in `id:key,id:key`, as `CLEW_ENCRYPTION_KEYS` has them; the first is the current one."""
        keys: dict[str, bytes | str] = {}
        for part in text.split(","):
            name, separator, key = part.strip().partition(":")
            if not separator or name in keys:
                # Nothing of the text is shown: part of it is a key.
                raise ConfigError(
                    "encryption keys are written as id:key,id:key with each id once; `clew key` makes one"
                )
            keys[name] = key.strip()
        return cls(keys=keys)


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

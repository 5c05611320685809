"""The config that every call takes, and what it means once read."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from clew.errors import ConfigError, shown


class AnyUser(enum.Enum):
    """The type of `ANY_USER`."""

    ANY_USER = "any user"

    def __repr__(self) -> str:
        return "clew.ANY_USER"


ANY_USER: Final = AnyUser.ANY_USER
"""Acts for everybody: for tools and maintenance, never for a request of a user."""

_USER_BITS: Final = 128
"""How many bits a user id that is a number may have: those of a UUID."""

User = str | None | AnyUser
Config = Mapping[str, Any]
"""`{"thread_id": …, "user_id": …, "run_id": …, "checkpoint_id": …, "checkpoint_ns": …}`; only the first is required."""


class Address(Struct, frozen=True, kw_only=True):
    """A config, read and checked."""

    thread_id: str
    user: User
    run_id: str | None
    checkpoint_id: str | None
    namespace: str


def read_config(config: Config | str) -> Address:
    """The address that `config` names. Raises ConfigError if it names no thread or holds a wrong type."""
    if isinstance(config, str):
        return Address(thread_id=_text("thread_id", config), user=None, run_id=None, checkpoint_id=None, namespace="")
    if not isinstance(config, Mapping):
        raise ConfigError(f"config must be a mapping with a 'thread_id', or a thread id; got {type(config).__name__}")
    thread_id = config.get("thread_id")
    if thread_id is None:
        thread_id = config.get("session_id")
    if thread_id is None:
        raise ConfigError(f"config needs a 'thread_id'; it has {', '.join(map(repr, config)) or 'nothing'}")
    namespace = config.get("checkpoint_ns")
    return Address(
        thread_id=_text("thread_id", thread_id),
        user=read_user(config),
        run_id=_optional_text("run_id", config.get("run_id")),
        checkpoint_id=_optional_text("checkpoint_id", config.get("checkpoint_id")),
        namespace="" if namespace is None or namespace == "" else _text("checkpoint_ns", namespace),
    )


def read_user(config: Config | str) -> User:
    """Whose threads `config` speaks of. A number stands for its digits."""
    if isinstance(config, str):
        return None
    if not isinstance(config, Mapping):
        raise ConfigError(f"config must be a mapping; got {type(config).__name__}")
    return user_of(config.get("user_id"))


def user_of(user_id: object) -> User:
    """The user that `user_id` names: text, a number (its digits), `None` or `ANY_USER`."""
    if user_id is None or isinstance(user_id, AnyUser):
        return user_id
    if isinstance(user_id, int) and not isinstance(user_id, bool):
        if user_id.bit_length() > _USER_BITS:
            raise ConfigError(f"config['user_id'] must have at most {_USER_BITS} bits: {shown(user_id)}")
        return str(user_id)
    return _text("user_id", user_id)


def _optional_text(name: str, value: object) -> str | None:
    return None if value is None else _text(name, value)


def _text(name: str, value: object) -> str:
    return checked_text(f"config[{name!r}]", value)


def checked_text(name: str, value: object) -> str:
    """`value` if it can be an id: text that is not empty and that every storage can write. `name` is for the error."""
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be text, not {type(value).__name__}: {shown(value)}")
    if not value:
        raise ConfigError(f"{name} is empty")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(f"{name} is not valid Unicode: {error.reason}") from error
    # A str subclass (an enum member, say) would be a different key in some drivers.
    return value if type(value) is str else str.__str__(value)

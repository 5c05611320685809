"""The config that every call takes, and the `Address` it is read into."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from clew.errors import ConfigError, nearest, shown
from clew.model.thread_config import Config as TypedConfig


class AnyUser(enum.Enum):
    """The type of `ANY_USER`."""

    # An int, because msgspec can't decode a union of a string and an enum of strings.
    ANY_USER = 1

    def __repr__(self) -> str:
        return "clew.ANY_USER"


ANY_USER: Final = AnyUser.ANY_USER
"""Acts for all users: for tools and maintenance, never for a user's request."""

RESERVED: Final = "\0"
"""The prefix of reserved ids of users and threads. No caller may name them, except with `ANY_USER`."""
RESERVED_USER: Final = RESERVED
"""The owner of unfinished copies (see `storage.protocol`)."""
_ID_BITS: Final = 128
"""How many bits a numeric id may have: as many as a UUID."""

User = str | None | AnyUser
Config = TypedConfig | Mapping[str, Any]
"""What methods take: `{"thread_id": …, "user_id": …, "run_id": …, "checkpoint_id": …, "checkpoint_ns": …}`; only the
first is required."""


_KEYS: Final = frozenset({"thread_id", "session_id", "user_id", "run_id", "checkpoint_id", "checkpoint_ns"})


class Address(Struct, frozen=True, kw_only=True):
    """A config that was read and validated."""

    thread_id: str
    user: User
    run_id: str | None
    checkpoint_id: str | None
    namespace: str


class OwnConfig(dict[str, Any]):
    """The config of a thread that an adapter keeps for itself, with the user that owns it.

    Nothing that users pass as ids of threads or users reaches such a thread.
    """

    def __init__(self, part: str, name: str) -> None:
        thread_id = f"{RESERVED}{part}/{checked_text('name', name)}"
        super().__init__(thread_id=thread_id, user_id=f"{RESERVED}{part}")


def read_config(config: Config | str) -> Address:
    """Return the address in `config`. Raises ConfigError if it is missing or invalid."""
    if isinstance(config, OwnConfig):
        return Address(
            thread_id=config["thread_id"], user=config["user_id"], run_id=None, checkpoint_id=None, namespace=""
        )
    if type(config) is str or (isinstance(config, (str, int)) and not isinstance(config, bool)):
        return Address(
            thread_id=_thread_id(config, name="thread_id"), user=None, run_id=None, checkpoint_id=None, namespace=""
        )
    if type(config) is not dict and not isinstance(config, Mapping):
        raise ConfigError(f"config must be a mapping with a 'thread_id', or a thread id; got {type(config).__name__}")
    thread_id, session_id = config.get("thread_id"), config.get("session_id")
    if thread_id is None:
        thread_id = session_id
    elif session_id is not None and str(session_id) != str(thread_id):
        raise ConfigError("config has a 'thread_id' and another 'session_id', which is another name for it: give one")
    if thread_id is None:
        for name in ("thread_id", "session_id"):
            if name in config:
                raise ConfigError(f"config[{name!r}] is None; it must be text or a whole number")
        keys = [shown(key) for key in islice(config, len(_KEYS))]
        hint = "; pass config['configurable']" if isinstance(config.get("configurable"), Mapping) else ""
        raise ConfigError(f"config needs a 'thread_id'; it has {', '.join(keys) or 'nothing'}{hint}")
    namespace, user = config.get("checkpoint_ns"), read_user(config)
    return Address(
        thread_id=_thread_id(thread_id, user),
        user=user,
        run_id=_optional_text("run_id", config.get("run_id")),
        checkpoint_id=_optional_text("checkpoint_id", config.get("checkpoint_id")),
        namespace="" if namespace is None or namespace == "" else _text("checkpoint_ns", namespace),
    )


def read_user(config: Config | str) -> User:
    """Return the user that `config` names. A number becomes its digits."""
    if isinstance(config, str):
        return None
    if type(config) is not dict and not isinstance(config, Mapping):
        raise ConfigError(f"config must be a mapping; got {type(config).__name__}")
    if not (config.keys() if type(config) is dict else set(config)) <= _KEYS:
        _check_keys(config)
    return user_of(config.get("user_id"), "config['user_id']")


def _check_keys(config: Config) -> None:
    """Refuse unknown keys: a misspelled `user_id` would make a thread that everybody can read.

    Frameworks may keep keys of their own in a config, which begin with an underscore.
    """
    for key in config:
        if key in _KEYS or (isinstance(key, str) and key.startswith("_")):
            continue
        near = nearest(key, _KEYS, cutoff=0.75)
        meant = f"did you mean {near!r}?" if near else f"it takes {', '.join(sorted(map(repr, _KEYS)))}"
        raise ConfigError(f"config has an unknown key {shown(key)}; {meant}")


def user_of(user_id: object, name: str = "user_id") -> User:
    """Return the user for `user_id`: text, a number (its digits), `None` or `ANY_USER`. Errors call it `name`."""
    if user_id is None or isinstance(user_id, AnyUser):
        return user_id
    if isinstance(user_id, int) and not isinstance(user_id, bool):
        return _digits(name, user_id)
    user = _id(name, user_id)
    if user.startswith(RESERVED):
        raise _reserved(name)
    return user


def _thread_id(value: object, user: User = None, name: str = "config['thread_id']") -> str:
    """Return a thread id: text, or a number, which becomes its digits. Errors call it `name`."""
    if isinstance(value, int) and not isinstance(value, (bool, enum.Enum)):
        return _digits(name, value)
    thread_id = _id(name, value)
    if thread_id.startswith(RESERVED) and user is not ANY_USER:
        raise _reserved(name)
    return thread_id


def _reserved(name: str) -> ConfigError:
    return ConfigError(f"{name} begins with a NUL character, which is reserved: use another id")


def _digits(name: str, value: int) -> str:
    if value.bit_length() > _ID_BITS:
        raise ConfigError(f"{name} must have at most {_ID_BITS} bits: {shown(value)}")
    return str(int(value))


def _id(name: str, value: object) -> str:
    """Return the id of a thread or a user, which is no number."""
    if type(value) is str and value and value.isascii():
        return value
    return checked_text(name, value, "text or a whole number")


def _optional_text(name: str, value: object) -> str | None:
    return None if value is None else _text(name, value)


def _text(name: str, value: object) -> str:
    # Nearly all ids are valid, so the name for an error is made only when it is needed.
    if type(value) is str and value and value.isascii():
        return value
    return checked_text(f"config[{name!r}]", value)


def checked_text(name: str, value: object, wanted: str = "text") -> str:
    """Return `value` if it is a valid id: text that is not empty and that every storage can write.

    Raises ConfigError with `name` if it is not, which says that it must be `wanted`.
    """
    if not isinstance(value, str):
        hint = "; pass str(…) of it" if type(value).__name__ == "UUID" else ""
        raise ConfigError(f"{name} must be {wanted}, not {type(value).__name__}: {shown(value)}{hint}")
    # A str subclass (an enum member, say) would be a different key in some drivers.
    text = value if type(value) is str else str.__str__(value)
    if not text:
        raise ConfigError(f"{name} is empty")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(f"{name} is not valid Unicode: {error.reason}") from error
    return text

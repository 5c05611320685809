"""Users: the user that a call acts for, by its config and the checkpointer's settings."""

from __future__ import annotations

from typing import overload

from msgspec.structs import replace

from clew.errors import ConfigError
from clew.model.config import ANY_USER, Address, AnyUser, Config, User, read_config, read_user, user_of


class Users:
    """The rules of one checkpointer.

    `required`: every call must name a user. `isolated`: users have their own threads; otherwise user
    ids are ignored. `numeric`: ids are numbers and are returned as such.
    """

    def __init__(self, *, required: bool = False, isolated: bool = True, numeric: bool = False) -> None:
        self.required = required
        self.isolated = isolated
        self.numeric = numeric

    def address(self, config: Config | str) -> Address:
        """Return the address in `config`. Raises ConfigError if it is invalid or must name a user."""
        address = read_config(config)
        if address.user is None and self.required:
            raise _nobody()
        return address if self.isolated else replace(address, user=ANY_USER)

    def in_config(self, config: Config | str) -> User:
        """Return the user of a config without a thread. Raises ConfigError likewise."""
        return self._checked(read_user(config))

    def given(self, user_id: object) -> User:
        """Return the user that an argument names. Raises ConfigError likewise."""
        return self._checked(user_of(user_id))

    def _checked(self, user: User) -> User:
        if user is None and self.required:
            raise _nobody()
        return user if self.isolated else ANY_USER

    @overload
    def shown(self, user: str | None) -> str | int | None: ...
    @overload
    def shown(self, user: User) -> str | int | AnyUser | None: ...
    def shown(self, user: User) -> str | int | AnyUser | None:
        """Return a user as callers know it."""
        return int(user) if self.numeric and isinstance(user, str) and user.lstrip("-").isdecimal() else user


def _nobody() -> ConfigError:
    return ConfigError(
        "this call names no user, but the checkpointer has require_user=True: put 'user_id' into the config, "
        "or clew.ANY_USER to act for all users"
    )

"""The owner column: user ids are text in the model, and text or numbers in the column."""

from __future__ import annotations

from typing import Literal, get_args

from clew.errors import ConfigError, shown
from clew.model.config import ANY_USER, User
from clew.storage.postgres.texts import escaped, unescaped
from clew.storage.protocol import COPYING, UNFINISHED

UserIdType = Literal["string", "int", "bigint"]
_COLUMNS = {"string": "text", "int": "integer", "bigint": "bigint"}
_BITS = {"int": 31, "bigint": 63}


class UserColumn:
    """Converts user ids to column values and back."""

    def __init__(self, user_id_type: UserIdType) -> None:
        if user_id_type not in get_args(UserIdType):
            raise ConfigError(
                f"user_id_type must be one of {', '.join(get_args(UserIdType))}, not {shown(user_id_type)}"
            )
        self.user_id_type = user_id_type
        self.sql_type = _COLUMNS[user_id_type]
        self.definition = 'text COLLATE "C"' if user_id_type == "string" else self.sql_type
        self._bits = _BITS.get(user_id_type)
        self.takes_any = self._bits is None
        self._last = (1 << self._bits) - 1 if self._bits is not None else 0
        """The greatest number that a user id may be; its negative is the least."""
        self._own = {UNFINISHED: -self._last - 1, COPYING: -self._last}
        """The numbers of Clew's own owners, those of unfinished threads. No user id has them."""

    def stored(self, user: User) -> str | int | None:
        """Return the column's value for `user` (`None` for `ANY_USER`). Raises ConfigError if the
        column can't hold it."""
        if user is None or user is ANY_USER:
            return None
        if self._bits is None:
            return escaped(user)
        if user in self._own:
            return self._own[user]
        try:
            number = int(user)
        except ValueError:
            number = None
        # Canonical digits only: "007" and "7" would be one user here, but two in other storages.
        if number is None or str(number) != user or not -self._last < number <= self._last:
            message = f"user_id {shown(user)} is not a number that fits the owner column ({self.sql_type})"
            raise ConfigError(f"{message}; use numeric user ids, or user_id_type='string'", user=user)
        return number

    def read(self, stored: str | int | None) -> str | None:
        """Return the user id for a column value."""
        if stored is None:
            return None
        if not self.takes_any and stored in self._own.values():
            return next(user for user, number in self._own.items() if number == stored)
        return unescaped(stored) if isinstance(stored, str) else str(stored)

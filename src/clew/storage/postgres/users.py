"""The owner column: text or a number, where the model has text."""

from __future__ import annotations

from typing import Literal, get_args

from clew.errors import ConfigError, shown
from clew.model.config import ANY_USER, User
from clew.storage.postgres.texts import escaped, unescaped
from clew.storage.protocol import RESERVED

UserIdType = Literal["string", "int", "bigint"]
_COLUMNS = {"string": "text", "int": "integer", "bigint": "bigint"}
_BITS = {"int": 31, "bigint": 63}


class UserColumn:
    """How user ids go into the column and come out of it."""

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
        self._least = -(1 << self._bits) if self._bits is not None else 0
        """The one number that stands for Clew itself."""

    def stored(self, user: User) -> str | int | None:
        """The column's value for `user` (none for `ANY_USER`). Raises ConfigError for what the column can't hold."""
        if user is None or user is ANY_USER:
            return None
        if self._bits is None:
            return escaped(user)
        if user == RESERVED:
            return self._least
        try:
            number = int(user)
        except ValueError:
            number = None
        # Only the plain digits: "007" and "7" would be one user here, and two elsewhere.
        if number is None or str(number) != user or not self._least < number < -self._least:
            message = f"user_id {shown(user)} is not a number that fits the owner column ({self.sql_type})"
            raise ConfigError(f"{message}; use such user ids, or user_id_type='string'", user=user)
        return number

    def read(self, stored: str | int | None) -> str | None:
        """The user id that `stored` was given."""
        if stored is None:
            return None
        if stored == self._least and not self.takes_any:
            return RESERVED
        return unescaped(stored) if isinstance(stored, str) else str(stored)

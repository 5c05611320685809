"""Statements that list messages and threads, put together from what a query asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clew.model.config import ANY_USER
from clew.model.queries import MessageQuery, ThreadQuery
from clew.storage.conversions import micros
from clew.storage.postgres.texts import escaped, pattern
from clew.storage.postgres.users import UserColumn

Question = tuple[str, list[Any]]
"""A statement and its parameters."""
_MESSAGES: Final = {"messages_all": 5, "messages_one": 7, "messages_found": 6}
"""How many parameters each kind of message query has before its cursors."""
_THREADS: Final = {"threads_one": 6, "threads_of_user": 4, "threads_of_nobody": 3, "threads_of_all": 3}
"""How many parameters each kind of thread query has before its place and labels."""
_SOUGHT: Final = {
    "threads_of_user": "$3, false, $4::text",
    "threads_of_nobody": "$3, false, NULL",
    "threads_of_all": "$3, true, NULL",
}
"""The arguments of `thread_sought`."""


class Lists:
    """The statements of one schema, each made when a query first needs it."""

    def __init__(self, sql: Mapping[str, str], users: UserColumn) -> None:
        self._sql = sql
        self._users = users
        self._messages: dict[tuple[str, str | None, bool, bool, bool], str] = {}
        self._threads: dict[tuple[str, bool, bool, bool], str] = {}

    def messages(self, query: MessageQuery) -> Question:
        """Return the question. With `query.newest`, its answer is in reverse order."""
        user = query.user
        parameters = [escaped(query.thread_id), user is ANY_USER, self._users.stored(user), query.limit, query.offset]
        wanted = pattern(query.search) if query.search else None
        kind = "messages_all"
        if query.message_id is not None:
            kind = "messages_one"
            parameters += [escaped(query.message_id), wanted]
        elif wanted is not None:
            kind = "messages_found"
            parameters.append(wanted)
        branch = None
        if kind != "messages_one" and query.branch is not None:
            branch = "messages_of_head"
            if isinstance(query.branch, str):
                branch = "messages_of_checkpoint"
                parameters += [escaped(query.namespace), escaped(query.branch)]
        parameters += [escaped(each) for each in (query.after, query.before) if each is not None]
        shape = (kind, branch, query.after is not None, query.before is not None, query.newest)
        statement = self._messages.get(shape)
        if statement is None:
            statement = self._messages[shape] = self._message_statement(*shape)
        return statement, parameters

    def _message_statement(self, kind: str, branch: str | None, after: bool, before: bool, newest: bool) -> str:
        sql, number = self._sql, _MESSAGES[kind]
        found = kind == "messages_found"
        which = "true" if found else sql[kind]
        if branch is not None:
            which += " " + sql[branch].replace("@namespace", f"${number + 1}").replace("@id", f"${number + 2}")
            number += 2 if branch == "messages_of_checkpoint" else 0
        for name, given in (("message_after", after), ("message_before", before)):
            if given:
                number += 1
                which += " AND " + sql[name].replace("@id", f"${number}")
        text = sql["messages_found" if found else "messages"].replace("@which", which)
        return text.replace("@direction", "DESC" if newest else "")

    def threads(self, query: ThreadQuery) -> Question:
        parameters: list[Any] = [query.limit, query.offset, escaped(query.search) if query.search else None]
        user = self._users.stored(query.user)
        if query.thread_id is not None:
            kind = "threads_one"
            parameters += [escaped(query.thread_id), query.user is ANY_USER, user]
        elif query.user is ANY_USER:
            kind = "threads_of_all"
        elif user is None:
            kind = "threads_of_nobody"
        else:
            kind = "threads_of_user"
            parameters.append(user)
        if query.before is not None:
            parameters += [micros(query.before[0]), escaped(query.before[1])]
        if query.labels:
            parameters.append([label.hex() for label in query.labels])
        shape = (kind, bool(query.search), bool(query.labels), query.before is not None)
        statement = self._threads.get(shape)
        if statement is None:
            statement = self._threads[shape] = self._thread_statement(*shape)
        return statement, parameters

    def _thread_statement(self, kind: str, searched: bool, labelled: bool, placed: bool) -> str:
        sql, number = self._sql, _THREADS[kind]
        of_all = kind == "threads_of_all"
        which, found = sql[kind], sql["thread_found"]
        indexed = sql["words_indexed"].replace("@sought", _SOUGHT.get(kind, ""))
        if placed:
            earlier = sql["thread_earlier"].replace("@active", "t.active::bigint" if of_all else "t.active")
            which += " AND " + earlier.replace("@at", f"${number + 1}").replace("@named", f"${number + 2}")
            number += 2
        if labelled:
            having = sql["thread_labelled"].replace("@labels", f"${number + 1}")
            # With the other conditions, so that the planner may combine indexes.
            found, indexed = f"{found} AND {having}", f"{having} AND {which}"
        by_index = kind != "threads_one" and (searched or labelled)
        text = sql["threads_found" if by_index else "threads"].replace("@indexed", indexed)
        text = text.replace("@thread ", sql["thread_columns"] + " ").replace("@head", sql["thread_head"])
        text = text.replace("@which", which).replace("@found", found)
        return text.replace("@order", sql["order_of_all" if of_all else "order_of_user"])

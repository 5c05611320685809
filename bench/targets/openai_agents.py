"""Sessions of the OpenAI Agents SDK, which store messages but no history of states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from agents import SQLiteSession

from bench.places import File
from bench.targets.protocol import State, Target, Unsupported


class OpenAISession(Target):
    """`SQLiteSession`: one session per thread, each with its own connection, opened as in the docs."""

    name = "openai"
    storages: ClassVar[Sequence[str]] = ("sqlite",)

    async def open(self) -> None:
        self._sessions: dict[str, Any] = {}
        self._counts: dict[str, int] = {}
        self._first = self._session("nobody")
        await self._first.get_items()

    def _session(self, thread: str) -> Any:
        session = self._sessions.get(thread)
        if session is None:
            session = self._sessions[thread] = self._opened(thread)
        return session

    def _opened(self, thread: str) -> Any:
        assert isinstance(self.place, File)
        return SQLiteSession(thread, self.place.path)

    async def close(self) -> None:
        for session in self._sessions.values():
            session.close()

    @property
    def engine(self) -> object:
        return self._first

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        if set(state) != {"messages"}:
            raise Unsupported("keeps messages only")
        count = self._counts.get(thread, 0) + len(new)
        if len(state["messages"]) != count:
            raise Unsupported("only adds messages")
        self._counts[thread] = count
        await self._session(thread).add_items(list(new))

    async def load(self, thread: str) -> Any:
        return {"messages": await self._session(thread).get_items()}


class OpenAISQLAlchemy(OpenAISession):
    """`SQLAlchemySession`: all sessions on one engine, as in the docs for
    an application with an engine."""

    name = "openai sqlalchemy"
    storages = ("sqlite", "postgres")

    async def open(self) -> None:
        from sqlalchemy.ext.asyncio import create_async_engine

        if isinstance(self.place, File):
            url = f"sqlite+aiosqlite:///{self.place.path}"
        else:
            url = self.place.url.replace("postgresql", "postgresql+asyncpg")
        self._engine = create_async_engine(url)
        await super().open()

    def _opened(self, thread: str) -> Any:
        from agents.extensions.memory import SQLAlchemySession

        # The first session creates the tables.
        return SQLAlchemySession(thread, engine=self._engine, create_tables=not self._sessions)

    async def close(self) -> None:
        await self._engine.dispose()


SESSIONS = (OpenAISession,)
SQLALCHEMY = (OpenAISQLAlchemy,)

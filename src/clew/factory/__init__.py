"""Factories: from a URL or settings to a checkpointer. The only package that knows every part."""

from clew.factory.classes import InMemoryCheckpointer, PgCheckpointer, RedisCheckpointer, SQLiteCheckpointer
from clew.factory.options import URL_OPTIONS
from clew.factory.urls import DEFAULT_URL, connect

__all__ = [
    "DEFAULT_URL",
    "URL_OPTIONS",
    "InMemoryCheckpointer",
    "PgCheckpointer",
    "RedisCheckpointer",
    "SQLiteCheckpointer",
    "connect",
]

"""The catalog of all mutations."""

from __future__ import annotations

from mutants import postgres, python, redis, sqlite

MUTATIONS = [*python.MUTATIONS, *sqlite.MUTATIONS, *postgres.MUTATIONS, *redis.MUTATIONS]

"""The catalog of all mutations."""

from __future__ import annotations

from mutants import postgres, promises, python, redis, sqlite
from mutants.mutation import Change, Mutation

OF_RULES: list[Mutation] = [*python.MUTATIONS, *sqlite.MUTATIONS, *postgres.MUTATIONS, *redis.MUTATIONS]
MUTATIONS: list[Change] = [*OF_RULES, *promises.MUTATIONS]

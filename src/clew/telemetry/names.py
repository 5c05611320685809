"""Names of attributes and metrics.

`db.*`, `error.type` and `server.*` are OpenTelemetry's stable conventions for database clients.
"""

from __future__ import annotations

from typing import Final

from clew.version import __version__

SCOPE: Final = "clew"
VERSION: Final = __version__
SCHEMA: Final = "https://opentelemetry.io/schemas/1.33.0"
"""The version in which the conventions for databases became stable."""

SYSTEM: Final = "db.system.name"
OPERATION: Final = "db.operation.name"
BATCH_SIZE: Final = "db.operation.batch.size"
STATUS_CODE: Final = "db.response.status_code"
ERROR: Final = "error.type"
SERVER: Final = "server.address"
PORT: Final = "server.port"
CONVERSATION: Final = "gen_ai.conversation.id"
"""The convention's name for the id of a thread. Only in spans, and only if it is asked for."""

STORAGE: Final = "clew.storage"
STORAGE_OPERATION: Final = "clew.storage.operation"
CACHE_RESULT: Final = "clew.cache.result"
RETRIED: Final = "clew.retried"
"""Which kind of call was retried: save, load, read, lease or setup."""
RETRY_EVENT: Final = "clew.retry"

DURATION: Final = "db.client.operation.duration"
DURATION_BOUNDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
WRITTEN: Final = "clew.storage.written"
READ: Final = "clew.storage.read"
CONFLICTS: Final = "clew.storage.conflicts"
RETRIES: Final = "clew.storage.retries"
CACHE_LOOKUPS: Final = "clew.cache.lookups"
PENDING: Final = "clew.background.pending"
LAG: Final = "clew.replication.lag"
QUEUE: Final = "clew.replication.queue"

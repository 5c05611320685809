"""Clew: durable session memory for AI agents.

    import clew

    checkpointer = clew.connect("sqlite:///agent.db")
    checkpointer.put_state("thread-1", {"messages": ["hello"]})
    checkpointer.get_state("thread-1")

Names are imported when they are first used, so `import clew` costs next to nothing.
"""

from typing import TYPE_CHECKING

from clew.errors import (
    BlockingCallError,
    ClewError,
    ConfigError,
    ConflictError,
    CorruptRecordError,
    EncryptionError,
    LeaseError,
    MissingExtraError,
    PermissionDeniedError,
    SchemaVersionError,
    StateTooLargeError,
    StorageError,
    StoreUnreachableError,
    ThreadDeletedError,
    TransientStorageError,
    UnsupportedTypeError,
)
from clew.version import __version__ as __version__

if TYPE_CHECKING:
    from clew.checkpointer.autocleanup import AutoCleanup
    from clew.checkpointer.base import BaseCheckpointer, Checkpointer
    from clew.checkpointer.leases import Lease
    from clew.checkpointer.loader import NOT_LOADED
    from clew.checkpointer.turns import Turn
    from clew.codec.registry import Record, register
    from clew.dialects.conversation import Conversation
    from clew.factory.classes import InMemoryCheckpointer, PgCheckpointer, RedisCheckpointer, SQLiteCheckpointer
    from clew.factory.distributed import DistributedCheckpointer
    from clew.factory.urls import connect
    from clew.model.checkpoint import Checkpoint, CheckpointInfo, CheckpointMetadata
    from clew.model.config import ANY_USER
    from clew.model.diff import Change, Diff
    from clew.model.encryption import Encryption
    from clew.model.event import Event
    from clew.model.message import Message
    from clew.model.queries import Totals
    from clew.model.reports import (
        CleanupReport,
        CompactReport,
        Damage,
        IndexStats,
        ResealReport,
        ResyncReport,
        Stats,
        VerifyReport,
    )
    from clew.model.retention import RetentionPolicy
    from clew.model.search import SearchHit
    from clew.model.status import BackgroundStatus, CacheStatus, CleanupStatus, Status
    from clew.model.telemetry import Telemetry
    from clew.model.thread import ThreadInfo, ThreadPart
    from clew.model.thread_config import Config

__all__ = [
    "ANY_USER",
    "NOT_LOADED",
    "AutoCleanup",
    "BackgroundStatus",
    "BaseCheckpointer",
    "BlockingCallError",
    "CacheStatus",
    "Change",
    "Checkpoint",
    "CheckpointInfo",
    "CheckpointMetadata",
    "Checkpointer",
    "CleanupReport",
    "CleanupStatus",
    "ClewError",
    "CompactReport",
    "Config",
    "ConfigError",
    "ConflictError",
    "Conversation",
    "CorruptRecordError",
    "Damage",
    "Diff",
    "DistributedCheckpointer",
    "Encryption",
    "EncryptionError",
    "Event",
    "InMemoryCheckpointer",
    "IndexStats",
    "Lease",
    "LeaseError",
    "Message",
    "MissingExtraError",
    "PermissionDeniedError",
    "PgCheckpointer",
    "Record",
    "RedisCheckpointer",
    "ResealReport",
    "ResyncReport",
    "RetentionPolicy",
    "SQLiteCheckpointer",
    "SchemaVersionError",
    "SearchHit",
    "StateTooLargeError",
    "Stats",
    "Status",
    "StorageError",
    "StoreUnreachableError",
    "Telemetry",
    "ThreadDeletedError",
    "ThreadInfo",
    "ThreadPart",
    "Totals",
    "TransientStorageError",
    "Turn",
    "UnsupportedTypeError",
    "VerifyReport",
    "connect",
    "register",
]

_EXPORTS = {
    "clew.checkpointer.autocleanup": "AutoCleanup",
    "clew.checkpointer.base": "BaseCheckpointer Checkpointer",
    "clew.checkpointer.leases": "Lease",
    "clew.checkpointer.loader": "NOT_LOADED",
    "clew.checkpointer.turns": "Turn",
    "clew.codec.registry": "Record register",
    "clew.dialects.conversation": "Conversation",
    "clew.factory.classes": "InMemoryCheckpointer PgCheckpointer RedisCheckpointer SQLiteCheckpointer",
    "clew.factory.distributed": "DistributedCheckpointer",
    "clew.factory.urls": "connect",
    "clew.model.checkpoint": "Checkpoint CheckpointInfo CheckpointMetadata",
    "clew.model.config": "ANY_USER",
    "clew.model.diff": "Change Diff",
    "clew.model.encryption": "Encryption",
    "clew.model.event": "Event",
    "clew.model.message": "Message",
    "clew.model.queries": "Totals",
    "clew.model.reports": "CleanupReport CompactReport Damage IndexStats ResealReport ResyncReport Stats VerifyReport",
    "clew.model.retention": "RetentionPolicy",
    "clew.model.search": "SearchHit",
    "clew.model.status": "BackgroundStatus CacheStatus CleanupStatus Status",
    "clew.model.telemetry": "Telemetry",
    "clew.model.thread": "ThreadInfo ThreadPart",
    "clew.model.thread_config": "Config",
}
"""The exported names of each module."""

if not TYPE_CHECKING:  # With `__getattr__`, a type checker would accept any name.
    _MODULES = {name: module for module, names in _EXPORTS.items() for name in names.split()}

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(__import__(_MODULES[name], fromlist=(name,)), name)
        return value

    def __dir__():
        return [*globals().keys() | _MODULES.keys()]

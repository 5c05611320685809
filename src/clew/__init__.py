"""Clew: durable session memory for AI agents.

import clew

checkpointer = clew.connect("sqlite:///agent.db")
checkpointer.put_state("thread-1", {"messages": ["hello"]})
checkpointer.get_state("thread-1")
"""

from clew.checkpointer.autocleanup import AutoCleanup
from clew.checkpointer.base import BaseCheckpointer
from clew.checkpointer.leases import Lease
from clew.checkpointer.saving import NOT_LOADED
from clew.codec.registry import Record, register
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
    ThreadDeletedError,
    TransientStorageError,
    UnsupportedTypeError,
)
from clew.factory import (
    DistributedCheckpointer,
    InMemoryCheckpointer,
    PgCheckpointer,
    RedisCheckpointer,
    SQLiteCheckpointer,
    connect,
)
from clew.model.checkpoint import Checkpoint, CheckpointInfo, CheckpointMetadata
from clew.model.config import ANY_USER, Config
from clew.model.diff import Change, Diff
from clew.model.encryption import Encryption
from clew.model.message import Message
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
from clew.model.status import BackgroundStatus, CacheStatus, CleanupStatus, Status
from clew.model.thread import ThreadInfo

__version__ = "0.1.0"

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
    "CleanupReport",
    "CleanupStatus",
    "ClewError",
    "CompactReport",
    "Config",
    "ConfigError",
    "ConflictError",
    "CorruptRecordError",
    "Damage",
    "Diff",
    "DistributedCheckpointer",
    "Encryption",
    "EncryptionError",
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
    "StateTooLargeError",
    "Stats",
    "Status",
    "StorageError",
    "ThreadDeletedError",
    "ThreadInfo",
    "TransientStorageError",
    "UnsupportedTypeError",
    "VerifyReport",
    "connect",
    "register",
]

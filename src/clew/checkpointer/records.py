"""Between stored records and the model that users see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from clew.codec.state import StateCodec
from clew.errors import ConfigError, CorruptRecordError, shown
from clew.model.checkpoint import CheckpointInfo, CheckpointMetadata
from clew.model.config import checked_text
from clew.model.message import Message, folded
from clew.model.records import CheckpointRecord, MessageRecord, ThreadRecord
from clew.model.retention import RetentionPolicy
from clew.model.thread import ThreadInfo

DAMAGED = "clew.damaged"
"""In the metadata of what is listed although its own record can't be read: what is wrong with it."""


def checkpoint_metadata(codec: StateCodec, thread_id: str, record: CheckpointRecord) -> CheckpointMetadata:
    return CheckpointMetadata(**_fields(codec, thread_id, record))


def checkpoint_info(codec: StateCodec, thread_id: str, record: CheckpointRecord) -> CheckpointInfo:
    """For a list, which one damaged record does not spoil."""
    return CheckpointInfo(**_fields(codec, thread_id, record, in_list=True), size=record.size)


def _fields(codec: StateCodec, thread_id: str, record: CheckpointRecord, *, in_list: bool = False) -> dict[str, Any]:
    try:
        metadata = codec.unpack(record.metadata) if record.metadata else {}
    except (CorruptRecordError, ConfigError) as error:
        if not in_list:
            raise
        metadata = {DAMAGED: str(error)}
    return {
        "checkpoint_id": record.checkpoint_id,
        "thread_id": thread_id,
        "parent_id": record.parent_id,
        "timestamp": record.created_at,
        "node_name": record.node_name,
        "step": record.step,
        "run_id": record.run_id,
        "metadata": metadata,
        "namespace": record.namespace,
        "sequence": record.sequence,
    }


def message_records(
    codec: StateCodec,
    messages: Sequence[Message | Mapping[str, Any]],
    metadata: Mapping[str, Any] | None,
    run_id: str | None,
) -> tuple[MessageRecord, ...]:
    """Messages as they are stored. `metadata` is added to each one's own; `run_id` goes to those without one."""
    if isinstance(messages, (Message, Mapping, str)) or not isinstance(messages, Iterable):
        raise ConfigError(f"messages must be a list of messages, not one {type(messages).__name__}")
    return tuple([_message_record(codec, at, message, metadata or {}, run_id) for at, message in enumerate(messages)])


def _message_record(
    codec: StateCodec, at: int, message: Message | Mapping[str, Any], metadata: Mapping[str, Any], run_id: str | None
) -> MessageRecord:
    if isinstance(message, Mapping):
        message = Message.from_dict(message)
    elif not isinstance(message, Message):
        raise ConfigError(f"messages[{at}] must be a clew.Message or a mapping, not {type(message).__name__}")
    _check_message(message, f"messages[{at}]")
    if (message.run_id is None and run_id is not None) or metadata:
        message = replace(message, metadata={**metadata, **message.metadata}, run_id=message.run_id or run_id)
    content = {
        "role": message.role,
        "content": message.content,
        "tool_calls": list(message.tool_calls),
        "metadata": dict(message.metadata),
        "created_at": message.created_at,
        "run_id": message.run_id,
    }
    return MessageRecord(
        message_id=message.message_id,
        # Packing first, so that text that can't be stored is refused with its path.
        data=codec.pack(content, name=f"messages[{at}]"),
        text=folded(message.search_text()),
        tool_calls=len(message.tool_calls),
        run_id=message.run_id,
        created_at=message.created_at,
    )


def _check_message(message: Message, name: str) -> None:
    checked_text(f"{name}.message_id", message.message_id)
    if message.run_id is not None:
        checked_text(f"{name}.run_id", message.run_id)
    for field, kinds, wanted in _MESSAGE_FIELDS:
        value = getattr(message, field)
        if not isinstance(value, kinds):
            raise ConfigError(f"{name}.{field} must be {wanted}, not {type(value).__name__}: {shown(value)}")
    if message.created_at.utcoffset() is None:
        raise ConfigError(f"{name}.created_at has no time zone; datetime.now(UTC) has one")
    try:
        message.created_at.astimezone(UTC)
    except (OverflowError, ValueError) as error:
        # Stores keep times in UTC, and could not give this one back.
        raise ConfigError(
            f"{name}.created_at is outside of the years 1 to 9999 in UTC: {message.created_at}; give it another time"
        ) from error


_MESSAGE_FIELDS: Final[tuple[tuple[str, tuple[type, ...], str], ...]] = (
    ("role", (str,), "text"),
    ("content", (str, list, tuple), "text or a list of blocks"),
    ("tool_calls", (list, tuple), "a tuple"),
    ("metadata", (Mapping,), "a mapping"),
    ("created_at", (datetime,), "a datetime"),
)


def message_of(codec: StateCodec, record: MessageRecord) -> Message:
    content = codec.unpack(record.data)
    return Message(**{**content, "message_id": record.message_id, "tool_calls": tuple(content["tool_calls"])})


def listed_message(codec: StateCodec, record: MessageRecord) -> Message:
    """For a list, which one damaged record does not spoil."""
    try:
        return message_of(codec, record)
    except (CorruptRecordError, ConfigError) as error:
        return Message(
            message_id=record.message_id,
            role="damaged",
            metadata={DAMAGED: str(error)},
            created_at=record.created_at,
            run_id=record.run_id,
        )


def thread_text(info: ThreadInfo) -> str:
    """What a search over threads looks at."""
    return folded("\n".join([info.thread_name or "", *info.tags]))


def thread_data(codec: StateCodec, info: ThreadInfo, retention: Mapping[str, Any] | None) -> bytes:
    """The description as it is stored; `retention` is the thread's policy as plain data."""
    if info.thread_name is not None and not isinstance(info.thread_name, str):
        raise ConfigError(f"thread_name must be text, not {type(info.thread_name).__name__}")
    if isinstance(info.tags, str) or not all(isinstance(tag, str) for tag in info.tags):
        raise ConfigError(f"tags must be a list of texts; got {shown(info.tags)}")
    if not isinstance(info.metadata, Mapping):
        raise ConfigError(f"metadata must be a mapping, not {type(info.metadata).__name__}")
    described = {"thread_name": info.thread_name, "tags": list(info.tags), "metadata": dict(info.metadata)}
    if retention is not None:
        described["retention"] = dict(retention)
    return codec.pack(described, name="thread")


def policy_data(policy: RetentionPolicy | None) -> dict[str, Any] | None:
    """A policy as plain data, without the rules that it does not have."""
    if policy is None:
        return None
    return {name: value for name, value in policy.to_dict().items() if value is not None}


def described_policy(codec: StateCodec, record: ThreadRecord) -> RetentionPolicy | None:
    """The thread's own policy. Raises CorruptRecordError or ConfigError if it can't be read."""
    return _policy(codec.unpack(record.data)) if record.data else None


def _policy(described: Mapping[str, Any]) -> RetentionPolicy | None:
    kept = described.get("retention")
    return None if kept is None else RetentionPolicy.from_dict(kept)


def thread_info(codec: StateCodec, record: ThreadRecord) -> ThreadInfo:
    """The thread, also if its description is damaged: then its metadata says so."""
    described: Mapping[str, Any] = {"thread_name": None, "tags": [], "metadata": {}}
    try:
        described = codec.unpack(record.data) if record.data else described
    except (CorruptRecordError, ConfigError) as error:
        described = {**described, "metadata": {DAMAGED: str(error)}}
    forked = record.forked_from
    try:
        retention = _policy(described)
    except ConfigError:
        # Of a newer version; acleanup does not touch the thread then.
        retention = None
    return ThreadInfo(
        thread_id=record.thread_id,
        user_id=record.user_id,
        thread_name=described["thread_name"],
        tags=tuple(described["tags"]),
        metadata=described["metadata"],
        created_at=record.created_at,
        updated_at=record.updated_at,
        run_id=record.run_id,
        forked_from={"thread_id": forked[0], "checkpoint_id": forked[1]} if forked is not None else None,
        head=checkpoint_info(codec, record.thread_id, record.head) if record.head is not None else None,
        checkpoint_count=record.checkpoint_count,
        message_count=record.message_count,
        size=record.size,
        retention=retention,
    )

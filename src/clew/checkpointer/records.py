"""Translation between stored records and the public model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final

from clew.checkpointer.users import Users
from clew.clock import Clock
from clew.codec.state import StateCodec
from clew.dialects.messages import derived, is_plain, received
from clew.dialects.usage import NAMES as TOKENS
from clew.dialects.usage import counted
from clew.errors import UNREADABLE, ConfigError, CorruptRecordError, SchemaVersionError, shown
from clew.model.checkpoint import CheckpointInfo, CheckpointMetadata, quick_info, quick_metadata
from clew.model.config import User, checked_text
from clew.model.message import (
    DAMAGED_ROLE,
    UNUSABLE_ROLES,
    USUAL_ROLES,
    Message,
    folded,
    quick_message,
    timed,
    usual_role,
)
from clew.model.records import MOST_TOKENS, AttachmentRecord, CheckpointRecord, MessageRecord, ThreadRecord
from clew.model.retention import LONGEST_TTL, RetentionPolicy
from clew.model.thread import ThreadInfo

DAMAGED = "clew.damaged"
"""The key in the metadata of a damaged record in a list; its value says what is wrong."""
BAD_RECORD: Final = (*UNREADABLE, ConfigError, SchemaVersionError)
"""Errors of a single record: lists and sweeps continue with the others."""


def checkpoint_metadata(
    codec: StateCodec, users: Users, thread_id: str, user: User, record: CheckpointRecord
) -> CheckpointMetadata:
    return quick_metadata(**_fields(codec, users, thread_id, user, record))


def checkpoint_info(
    codec: StateCodec, users: Users, thread_id: str, user: User, record: CheckpointRecord
) -> CheckpointInfo:
    """The checkpoint for a list; if it is damaged, its metadata says so."""
    return quick_info(**_fields(codec, users, thread_id, user, record, in_list=True), size=record.size)


def _fields(
    codec: StateCodec, users: Users, thread_id: str, user: User, record: CheckpointRecord, *, in_list: bool = False
) -> dict[str, Any]:
    try:
        metadata = _metadata(codec, record)
    except BAD_RECORD as error:
        if not in_list:
            raise
        metadata = {DAMAGED: str(error)}
    return {
        "checkpoint_id": record.checkpoint_id,
        "thread_id": thread_id,
        "parent_id": record.parent_id,
        "created_at": record.created_at,
        "updated_at": record.saved_at,
        "node_name": record.node_name,
        "step": record.step,
        "run_id": record.run_id,
        "metadata": metadata,
        "namespace": record.namespace,
        "sequence": record.sequence,
        "user_id": users.shown(user),
    }


def _metadata(codec: StateCodec, record: CheckpointRecord) -> dict[str, Any]:
    check_columns(record)
    metadata = codec.unpack(record.metadata) if record.metadata else {}
    if type(metadata) is not dict:
        raise CorruptRecordError(f"its metadata is not a mapping: {shown(metadata)}")
    return metadata


def check_columns(record: CheckpointRecord | MessageRecord | ThreadRecord | AttachmentRecord) -> None:
    """Raise CorruptRecordError if the storage could not read all columns of the record."""
    if record.damage:
        raise CorruptRecordError(record.damage)


def attached(codec: StateCodec, record: AttachmentRecord) -> Any:
    """The attached data. Raises CorruptRecordError if it is damaged."""
    check_columns(record)
    return codec.unpack(record.data)


def message_records(
    codec: StateCodec,
    messages: Sequence[Message | Mapping[str, Any] | Any],
    metadata: Mapping[str, Any] | None,
    run_id: str | None,
    clock: Clock,
) -> tuple[MessageRecord, ...]:
    """The records to store. `metadata` is added to that of each message. Messages without a run get `run_id`,
    and messages without a time get the time of `clock`."""
    if not messages and type(messages) in (tuple, list):
        return ()
    listed = enumerate(checked_messages(messages))
    found = [timed(received(message, f"messages[{at}]"), clock) for at, message in listed]
    return tuple([_message_record(codec, at, message, metadata or {}, run_id) for at, message in enumerate(found)])


def checked_messages(messages: Iterable[Any]) -> Iterable[Any]:
    """`messages`, if it is a list of messages, and not a single one."""
    if isinstance(messages, (Message, Mapping, str)) or not isinstance(messages, Iterable):
        raise ConfigError(f"messages must be a list of messages, not one {type(messages).__name__}")
    return messages


def _message_record(
    codec: StateCodec, at: int, message: Message, metadata: Mapping[str, Any], run_id: str | None
) -> MessageRecord:
    name = f"messages[{at}]"
    check_message(message, name)
    if (message.run_id is None and run_id is not None) or metadata:
        message = replace(message, metadata={**metadata, **message.metadata}, run_id=message.run_id or run_id)
    tokens = (counted(message.usage) if message.usage else None) or {}
    return MessageRecord(
        message_id=message.message_id,
        # Packed first, so that text that can't be stored is refused with its path.
        data=codec.pack(_message_content(message), name=name),
        text=folded(message.search_text()),
        tool_calls=len(message.tool_calls),
        run_id=message.run_id,
        created_at=message.created_at,
        input_tokens=tokens.get("input_tokens", 0),
        output_tokens=tokens.get("output_tokens", 0),
    )


def _message_content(message: Message) -> dict[str, Any]:
    """The fields to store, without empty ones and without those that can be derived from the provider's original."""
    content: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        content["tool_calls"] = list(message.tool_calls)
    if message.metadata:
        content["metadata"] = dict(message.metadata)
    content["created_at"] = message.created_at
    if message.run_id is not None:
        content["run_id"] = message.run_id
    if message.tool_results:
        content["tool_results"] = list(message.tool_results)
    if message.usage:
        content["usage"] = message.usage
    if message.raw is None or message.format is None:
        return content
    if is_plain(message.raw):
        if message.raw == {"role": message.role, "content": message.content}:
            content["format"] = message.format  # `raw` follows from the other fields.
            return content
        if usual_role(message.raw["role"]) == message.raw["role"]:
            return content
    follows = derived(message.raw, message.format)
    said = {"role", "content", "tool_calls", "tool_results"}
    if any(
        content.get(name) is not follows[name] and (content.get(name) or "") != (follows[name] or "") for name in said
    ):
        # The message was changed, for example redacted, so the provider's original no longer matches it.
        return content
    kept = {name: value for name, value in content.items() if name not in said and value != follows.get(name)}
    return {**kept, "raw": message.raw, "format": message.format}


def check_message(message: Message, name: str) -> None:
    """Raise ConfigError if the message can't be stored as it is. The error calls it `name`."""
    checked_text(f"{name}.message_id", message.message_id)
    if message.run_id is not None:
        checked_text(f"{name}.run_id", message.run_id)
    for value, (field, kinds, wanted) in zip(_message_fields(message), _MESSAGE_FIELDS, strict=True):
        if type(value) not in kinds and not isinstance(value, kinds):
            raise ConfigError(f"{name}.{field} must be {wanted}, not {type(value).__name__}: {shown(value)}")
    if message.role in UNUSABLE_ROLES:
        raise ConfigError(
            f"{name}.role can't be {message.role!r}: say who speaks, as in 'user', 'assistant', 'system' or 'tool' "
            f"({DAMAGED_ROLE!r} marks listed messages whose record can't be read)"
        )
    if message.tool_results and not all(isinstance(result, Mapping) for result in message.tool_results):
        raise ConfigError(f"{name}.tool_results must be mappings with a 'tool_call_id' and a 'content'")
    if message.usage:
        for field, count in message.usage.items():
            if field in TOKENS and not (count is None or (type(count) is int and 0 <= count <= MOST_TOKENS)):
                raise ConfigError(f"{name}.usage[{field!r}] must be a number of tokens, not {shown(count)}")
    if message.created_at.tzinfo is UTC:
        return
    if message.created_at.utcoffset() is None:
        raise ConfigError(f"{name}.created_at has no time zone; use datetime.now(UTC)")
    try:
        message.created_at.astimezone(UTC)
    except (OverflowError, ValueError) as error:
        # Stores keep times in UTC.
        raise ConfigError(
            f"{name}.created_at is outside of the years 1 to 9999 in UTC: {message.created_at}; use another time"
        ) from error


_MESSAGE_FIELDS: Final[tuple[tuple[str, tuple[type, ...], str], ...]] = (
    # `dict` before `Mapping`: a check against an abstract class takes ten times as long.
    ("role", (str,), "text"),
    ("content", (str, list, tuple), "text or a list of blocks"),
    ("tool_calls", (list, tuple), "a tuple"),
    ("metadata", (dict, Mapping), "a mapping"),
    ("created_at", (datetime,), "a datetime"),
    ("tool_results", (list, tuple), "a tuple"),
    ("usage", (type(None), dict, Mapping), "a mapping"),
    ("raw", (type(None), dict, Mapping), "a mapping"),
    ("format", (str, type(None)), "text"),
)
_message_fields: Final = attrgetter(*[field for field, _, _ in _MESSAGE_FIELDS])


_NO_FIELDS: Final = {"content": "", "run_id": None, "usage": None, "raw": None, "format": None}
"""The values of fields that a stored message lacks."""


def message_of(codec: StateCodec, record: MessageRecord) -> Message:
    """The message. Raises CorruptRecordError if it is damaged."""
    check_columns(record)
    content = codec.unpack(record.data)
    try:
        fields = derived(content["raw"], content["format"]) if "raw" in content else {}
        fields.update(content)
        fields["message_id"] = record.message_id
        fields.setdefault("created_at", record.created_at)
        if "format" in fields and "raw" not in fields:
            fields["raw"] = {"role": fields["role"], "content": fields["content"]}
        if fields["role"] not in USUAL_ROLES:
            fields["role"] = usual_role(fields["role"])  # Earlier versions stored each name of a role.
        fields["tool_calls"] = tuple(fields.get("tool_calls") or ())
        fields["tool_results"] = tuple(fields.get("tool_results") or ())
        message = quick_message(**{**_NO_FIELDS, "metadata": {}, **fields})
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise CorruptRecordError(f"the stored data is not a message: {error}") from error
    for value, (field, kinds, wanted) in zip(_message_fields(message), _MESSAGE_FIELDS, strict=True):
        if type(value) not in kinds and not isinstance(value, kinds):
            raise CorruptRecordError(f"its {field} is not {wanted}: {shown(value)}")
    if message.tool_results and not all(isinstance(result, Mapping) for result in message.tool_results):
        raise CorruptRecordError("its tool_results are not mappings")
    if message.created_at.tzinfo is None or not isinstance(message.run_id, (str, type(None))):
        raise CorruptRecordError("its created_at has no time zone, or its run_id is not text")
    return message


def listed_message(codec: StateCodec, record: MessageRecord) -> Message:
    """The message for a list; if it is damaged, a placeholder whose metadata says so."""
    try:
        return message_of(codec, record)
    except BAD_RECORD as error:
        return Message(
            message_id=record.message_id,
            role=DAMAGED_ROLE,
            metadata={DAMAGED: str(error)},
            created_at=record.created_at,
            run_id=record.run_id,
        )


def thread_text(name: str | None, tags: Iterable[str]) -> str:
    """The text that searches for threads match."""
    return folded("\n".join([name or "", *tags]))


def thread_data(codec: StateCodec, described: Mapping[str, Any]) -> bytes:
    """The description to store. Fields of newer versions are kept; those without a value are left out."""
    filled = {name: value for name, value in described.items() if value is not None or name in _NO_DESCRIPTION}
    return codec.pack({"thread_name": None, **filled}, name="thread")


def policy_data(policy: RetentionPolicy | None) -> dict[str, Any] | None:
    """A policy as plain data, without the rules that are `None`."""
    if policy is None:
        return None
    return {name: value for name, value in policy.to_dict().items() if value is not None}


def described_policy(codec: StateCodec, record: ThreadRecord) -> RetentionPolicy | None:
    """The thread's own policy. Raises CorruptRecordError or ConfigError if it can't be read."""
    return _policy(description(codec, record))


def described_ttl(codec: StateCodec, record: ThreadRecord) -> timedelta | None:
    """The thread's own time to live. Raises CorruptRecordError if it can't be read."""
    ttl = _ttl(description(codec, record))
    return None if ttl is None else timedelta(seconds=ttl)


def _ttl(described: Mapping[str, Any]) -> float | None:
    ttl = described.get("ttl")
    if ttl is None:
        return None
    if type(ttl) not in (int, float) or not 0 < ttl <= LONGEST_TTL:
        raise CorruptRecordError(f"its ttl is not a number of seconds: {shown(ttl)}")
    return float(ttl)


def _policy(described: Mapping[str, Any]) -> RetentionPolicy | None:
    kept = described.get("retention")
    return None if kept is None else RetentionPolicy.from_dict(kept)


_NO_DESCRIPTION: Final[Mapping[str, Any]] = {"thread_name": None, "tags": [], "metadata": {}}


def description(codec: StateCodec, record: ThreadRecord) -> Mapping[str, Any]:
    """The fields that `thread_data` packed. Raises CorruptRecordError if they are damaged."""
    check_columns(record)
    if not record.data:
        return _NO_DESCRIPTION
    described = codec.unpack(record.data)
    if type(described) is not dict:
        raise CorruptRecordError(f"its description is not a mapping: {shown(described)}")
    if missing := _NO_DESCRIPTION.keys() - described.keys():
        raise CorruptRecordError(f"its description lacks {', '.join(sorted(missing))}")
    name, tags, metadata = (described.get(each) for each in _NO_DESCRIPTION)
    if not isinstance(name, (str, type(None))) or type(metadata) is not dict:
        raise CorruptRecordError("its name is not text, or its metadata is not a mapping")
    if type(tags) is not list or not all(isinstance(tag, str) for tag in tags):
        raise CorruptRecordError(f"its tags are not a list of texts: {shown(tags)}")
    return described


def thread_info(codec: StateCodec, record: ThreadRecord, users: Users) -> ThreadInfo:
    """The thread. Raises CorruptRecordError if its record is damaged."""
    try:
        return _thread_info(codec, record, description(codec, record), users)
    except BAD_RECORD as error:
        raise type(error)(f"thread {record.thread_id!r}: {error}", thread_id=record.thread_id) from error


def listed_thread(codec: StateCodec, record: ThreadRecord, users: Users) -> ThreadInfo:
    """The thread for a list; if it is damaged, its metadata says so."""
    try:
        described = description(codec, record)
    except BAD_RECORD as error:
        described = {**_NO_DESCRIPTION, "metadata": {DAMAGED: str(error)}}
    return _thread_info(codec, record, described, users)


def _thread_info(codec: StateCodec, record: ThreadRecord, described: Mapping[str, Any], users: Users) -> ThreadInfo:
    forked = record.forked_from
    try:
        retention = _policy(described)
    except ConfigError:
        # Written by a newer version. A cleanup skips the thread.
        retention = None
    try:
        ttl = _ttl(described)
    except CorruptRecordError:
        ttl = None
    return ThreadInfo(
        thread_id=record.thread_id,
        user_id=users.shown(record.user_id),
        thread_name=described["thread_name"],
        tags=tuple(described["tags"]),
        metadata=described["metadata"],
        created_at=record.created_at,
        updated_at=record.updated_at,
        run_id=record.run_id,
        forked_from={"thread_id": forked[0], "checkpoint_id": forked[1]} if forked is not None else None,
        head=None
        if record.head is None
        else checkpoint_info(codec, users, record.thread_id, record.user_id, record.head),
        checkpoint_count=record.checkpoint_count,
        message_count=record.message_count,
        size=record.size,
        retention=retention,
        ttl=ttl,
    )

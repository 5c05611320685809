"""Descriptions of threads: changes to the fields that a caller gives, and to no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any, Final, Literal, TypedDict

from msgspec import Struct

from clew.checkpointer.arguments import checked_policy
from clew.checkpointer.labels import labels_of
from clew.checkpointer.records import description, policy_data, thread_data, thread_text
from clew.codec.state import StateCodec
from clew.errors import ConfigError, CorruptRecordError, PermissionDeniedError, nearest, shown
from clew.model.commit import ThreadFields
from clew.model.config import ANY_USER, Address, User, checked_text, user_of
from clew.model.records import ThreadRecord
from clew.model.retention import LONGEST_TTL, RetentionPolicy
from clew.model.thread import ThreadInfo
from clew.validation import checked_number

_KNOWN: Final = {field.name for field in fields(ThreadInfo)}
_DESCRIBING: Final = ("thread_name", "tags", "metadata", "retention", "ttl")
_SETTABLE: Final = (*_DESCRIBING, "run_id", "user_id")

ExistingMetadata = Literal["merge", "replace"]


class ThreadChanges(TypedDict, total=False):
    """The fields of a thread that `aput_thread` changes."""

    thread_name: str | None
    tags: Iterable[str] | None
    metadata: Mapping[str, Any] | None
    run_id: str | None
    user_id: str | int | None
    ttl: float | timedelta | None
    retention: RetentionPolicy | None


class Change(Struct, frozen=True, kw_only=True):
    """A change of a thread's description: new values of the fields in `given`, as they are stored.

    The metadata is merged: keys that are given change, and those given as `None` are removed. With
    `existing_metadata="replace"`, keys that are not given are removed, too.
    """

    given: Mapping[str, Any]
    existing_metadata: ExistingMetadata = "merge"
    owner: str | None = None
    """The new owner; `None` keeps the present one."""
    run_id: str | None = None
    changes_run: bool = False

    def applied(self, codec: StateCodec, address: Address, record: ThreadRecord | None) -> ThreadFields:
        """Return the description of the thread `record` after the change."""
        described = dict(_present(codec, record))
        for name, value in self.given.items():
            if name == "metadata" and value is not None:
                kept = described.get("metadata", {}) if self.existing_metadata == "merge" else {}
                merged = {**kept, **value}
                described[name] = {key: inner for key, inner in merged.items() if inner is not None}
            else:
                described[name] = value
        tags, metadata = tuple(described.get("tags") or ()), described.get("metadata") or {}
        run_id = record.run_id if record is not None and not self.changes_run else self.run_id
        owner = record.user_id if record is not None else address.user if isinstance(address.user, str) else None
        return ThreadFields(
            text=thread_text(described.get("thread_name"), tags),
            data=thread_data(codec, {**described, "tags": list(tags), "metadata": dict(metadata)}),
            run_id=run_id,
            user_id=owner if self.owner is None else self.owner,
            labels=labels_of(tags, metadata),
        )


def _present(codec: StateCodec, record: ThreadRecord | None) -> Mapping[str, Any]:
    """The present description. A damaged one is replaced; one whose key is missing raises EncryptionError."""
    if record is None:
        return {}
    try:
        return description(codec, record)
    except CorruptRecordError:
        return {}


def change_of(
    address: Address,
    info: ThreadInfo | Mapping[str, Any] | None,
    given: Mapping[str, Any],
    existing_metadata: ExistingMetadata = "merge",
) -> Change:
    """Return the change that a caller describes. Raises ConfigError for unknown or invalid fields."""
    if existing_metadata not in ("merge", "replace"):
        raise ConfigError(f'existing_metadata must be "merge" or "replace", not {shown(existing_metadata)}')
    fields = {**_given_in(info), **given}
    if unknown := sorted(map(str, fields.keys() - _KNOWN)):
        near = nearest(unknown[0], _SETTABLE, cutoff=0.5)
        meant = f"did you mean {near!r}?" if near else f"put_thread sets {', '.join(sorted(_SETTABLE))}"
        raise ConfigError(f"a thread has no field {', '.join(unknown)}; {meant}")
    named = fields.get("thread_id", address.thread_id)
    if named != address.thread_id:
        raise ConfigError(f"the config names thread {address.thread_id!r}, the ThreadInfo {named!r}")
    run_id = fields.get("run_id", address.run_id)
    return Change(
        given={name: _stored(name, fields[name]) for name in _DESCRIBING if name in fields},
        existing_metadata=existing_metadata,
        owner=_owner(address, user_of(fields.get("user_id"))),
        run_id=None if run_id is None else checked_text("run_id", run_id),
        changes_run="run_id" in fields or address.run_id is not None,
    )


def _given_in(info: ThreadInfo | Mapping[str, Any] | None) -> Mapping[str, Any]:
    if info is None:
        return {}
    if isinstance(info, ThreadInfo):
        # Defaults change nothing, because a field that was left out has its default. Otherwise a ThreadInfo
        # that only names a thread would remove its tags.
        return {name: value for name in _KNOWN if (value := getattr(info, name)) or name == "thread_id"}
    if isinstance(info, Mapping):
        return info
    raise ConfigError(f"put_thread takes fields, a mapping or a clew.ThreadInfo, not {type(info).__name__}")


def _owner(address: Address, owner: User) -> str | None:
    if owner is not None and address.user is not ANY_USER and owner != address.user:
        raise PermissionDeniedError(
            f"only clew.ANY_USER may give thread {address.thread_id!r} to another user", thread_id=address.thread_id
        )
    return owner if isinstance(owner, str) else None


def _stored(name: str, value: Any) -> Any:
    """`value` as it is stored."""
    if name == "thread_name" and not isinstance(value, (str, type(None))):
        raise ConfigError(f"thread_name must be text, not {type(value).__name__}")
    if name == "tags":
        if value is None:
            return []
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise ConfigError(f"tags must be a list of texts; got {shown(value)}")
        tags = list(value)
        if not all(isinstance(tag, str) for tag in tags):
            raise ConfigError(f"tags must be a list of texts; got {shown(value)}")
        return tags
    if name == "metadata" and not isinstance(value, (Mapping, type(None))):
        raise ConfigError(f"metadata must be a mapping, not {type(value).__name__}")
    if name == "retention":
        return policy_data(checked_policy(value, "retention"))
    if name == "ttl" and value is not None:
        seconds = value.total_seconds() if isinstance(value, timedelta) else value
        return checked_number("ttl", seconds, "number of seconds", more_than=0, at_most=LONGEST_TTL)
    return value

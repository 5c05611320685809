"""Checkpoints as users see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar

from clew.errors import ConfigError
from clew.model.config import User
from clew.model.dict_record import DictRecord
from clew.model.generic import StateT
from clew.model.quick import quick
from clew.model.thread_config import Config

_C = TypeVar("_C")


_OTHER_NAMES: Final = {"session_id": "thread_id", "timestamp": "updated_at"}


def _takes_other_names(cls: type[_C]) -> type[_C]:
    """Have the constructor of a dataclass take `_OTHER_NAMES`, and `updated_at` for a missing `created_at`."""
    init: Any = vars(cls)["__init__"]

    @wraps(init)
    def initialize(self: Any, **fields: Any) -> None:
        init(self, **_with_usual_names(fields))

    type.__setattr__(cls, "__init__", initialize)
    return cls


def _with_usual_names(fields: dict[str, Any]) -> dict[str, Any]:
    for other, name in _OTHER_NAMES.items():
        value = fields.pop(other, None)
        if value is not None and fields.setdefault(name, value) != value:
            raise ConfigError(f"{other} is another name of {name}: give one of them")
    if fields.get("created_at") is None:
        fields["created_at"] = fields.get("updated_at")
    return fields


@_takes_other_names
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetadata(DictRecord):
    """The identity of a checkpoint, its origin, its times, and its writer's metadata.

    `sequence` is the thread's own counter: a greater number is newer. Clocks don't matter. `user_id`
    is the user that it was saved or read for. `created_at` is when its id was first saved, `updated_at`
    when it was last saved: they differ if it was replaced, by a save with the same `new_id`. If the
    clock was set back in between, `updated_at` is the earlier one.
    """

    checkpoint_id: str
    thread_id: str
    parent_id: str | None = None
    created_at: datetime
    updated_at: datetime
    node_name: str | None = None
    step: int | None = None
    run_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = ""
    sequence: int = 0
    user_id: int | User = field(default=None, compare=False)

    _times: ClassVar[frozenset[str]] = frozenset({"created_at", "updated_at"})
    _users: ClassVar[frozenset[str]] = frozenset({"user_id"})
    _given: ClassVar[frozenset[str]] = frozenset({"metadata", "step"})

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            checkpoint_id: str,
            thread_id: str = ...,
            session_id: str = ...,
            parent_id: str | None = None,
            created_at: datetime | None = None,
            updated_at: datetime = ...,
            timestamp: datetime = ...,
            node_name: str | None = None,
            step: int | None = None,
            run_id: str | None = None,
            metadata: Mapping[str, Any] = ...,
            namespace: str = "",
            sequence: int = 0,
            user_id: int | User = None,
        ) -> None: ...

    @property
    def session_id(self) -> str:
        """Another name for `thread_id`."""
        return self.thread_id

    @property
    def timestamp(self) -> datetime:
        """Another name for `updated_at`."""
        return self.updated_at

    @property
    def config(self) -> Config:
        """The config that names this checkpoint, for the user that it was saved or read for."""
        named: Config = {"thread_id": self.thread_id, "checkpoint_id": self.checkpoint_id}
        if self.user_id is not None:
            named["user_id"] = self.user_id
        if self.namespace:
            named["checkpoint_ns"] = self.namespace
        return named

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the record that `to_dict` wrote."""
        for other, name in _OTHER_NAMES.items():
            if isinstance(data, Mapping) and other in data and name not in data:
                data = {name if key == other else key: value for key, value in data.items()}
        # Zero-argument super() does not work here: @dataclass(slots=True) creates a new class.
        return super(CheckpointMetadata, cls).from_dict(data)


@_takes_other_names
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInfo(CheckpointMetadata):
    """A checkpoint without its state; `size` is the encoded size of the state in bytes."""

    size: int = 0

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            checkpoint_id: str,
            thread_id: str = ...,
            session_id: str = ...,
            parent_id: str | None = None,
            created_at: datetime | None = None,
            updated_at: datetime = ...,
            timestamp: datetime = ...,
            node_name: str | None = None,
            step: int | None = None,
            run_id: str | None = None,
            metadata: Mapping[str, Any] = ...,
            namespace: str = "",
            sequence: int = 0,
            user_id: int | User = None,
            size: int = 0,
        ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(DictRecord, Generic[StateT]):
    """The state of a thread at one moment. The state is the caller's own copy.

    `version` identifies the stored state; another state under the same id has another version. It is
    `None` if it is unknown or the state is not stored yet.
    """

    metadata: CheckpointMetadata
    state: StateT
    version: str | None = field(default=None, compare=False)

    _nested: ClassVar[Mapping[str, type[DictRecord]]] = {"metadata": CheckpointMetadata}
    _given: ClassVar[frozenset[str]] = frozenset({"state"})

    @property
    def checkpoint_id(self) -> str:
        """The id of the checkpoint."""
        return self.metadata.checkpoint_id

    @property
    def thread_id(self) -> str:
        """The id of the thread."""
        return self.metadata.thread_id

    @property
    def parent_id(self) -> str | None:
        """The id of the checkpoint that it was made from."""
        return self.metadata.parent_id

    @property
    def node_name(self) -> str | None:
        """The node that made the state."""
        return self.metadata.node_name

    @property
    def step(self) -> int | None:
        """The number of the step that made the state."""
        return self.metadata.step

    @property
    def run_id(self) -> str | None:
        """The run that saved it."""
        return self.metadata.run_id

    @property
    def namespace(self) -> str:
        """The lineage inside the thread that it belongs to."""
        return self.metadata.namespace

    @property
    def sequence(self) -> int:
        """The thread's own counter: a greater number is newer."""
        return self.metadata.sequence

    @property
    def created_at(self) -> datetime:
        """When the id of the checkpoint was first saved."""
        return self.metadata.created_at

    @property
    def updated_at(self) -> datetime:
        """When the checkpoint was last saved: later than `created_at` if it was replaced."""
        return self.metadata.updated_at

    @property
    def config(self) -> Config:
        """The config that names this checkpoint."""
        return self.metadata.config


quick_metadata: Final = quick(CheckpointMetadata)
quick_info: Final = quick(CheckpointInfo)
quick_checkpoint: Final = quick(Checkpoint)

"""Where the roles are kept: a thread of each store, hidden from everybody, whose head says who serves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from clew.errors import ConflictError, CorruptRecordError
from clew.ids import new_id
from clew.model.commit import Applied, Commit, NewCheckpoint, Removal, ThreadFields
from clew.model.config import ANY_USER
from clew.model.queries import CheckpointQuery
from clew.model.records import CheckpointRecord
from clew.storage.protocol import Storage
from clew.storage.replicated.failover import Roles

RESERVED: Final = "clew:replication"
"""The thread that holds the roles, and the user who owns it: nobody is called so, and nobody else finds it. Threads that are
not whole yet belong to this user too."""
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Its time: it is the last one in every list."""
_FIELDS: Final = ThreadFields(text="", data=b"", run_id=None, user_id=RESERVED)


async def read_roles(store: Storage) -> Roles | None:
    """The roles as `store` knows them."""
    head = await _head(store)
    return None if head is None else _decoded(head)


async def write_roles(store: Storage, roles: Roles) -> bool:
    """Write the roles, unless `store` has them or newer ones by then: whether it was done."""
    head = await _head(store)
    now = None if head is None else _decoded(head)
    if now is not None and (now.term, not now.closing) >= (roles.term, not roles.closing):
        return False
    made = new_id()
    old = (("", head.parent_id),) if head is not None and head.parent_id is not None else ()
    commit = Commit(
        commit_id=made,
        thread_id=RESERVED,
        user=ANY_USER,
        at=LONG_AGO,
        remove=Removal(checkpoints=old) if old else None,
        checkpoint=NewCheckpoint(
            checkpoint_id=made,
            namespace="",
            parent=None if head is None else head.checkpoint_id,
            on_conflict="reject",
            node_name=None,
            step=None,
            run_id=None,
            size=0,
            metadata=b"",
            body=msgspec.msgpack.encode(roles),
            covers=(),
        ),
        thread=_FIELDS if head is None else None,
    )
    (outcome,) = await store.apply((commit,))
    if isinstance(outcome, ConflictError):
        return False
    if not isinstance(outcome, Applied):
        raise outcome
    return True


async def _head(store: Storage) -> CheckpointRecord | None:
    page = await store.checkpoints(CheckpointQuery(thread_id=RESERVED, user=ANY_USER, detail="body"))
    return page.checkpoints[0] if page.checkpoints else None


def _decoded(head: CheckpointRecord) -> Roles:
    try:
        return msgspec.msgpack.decode(head.body, type=Roles)
    except msgspec.MsgspecError as error:
        raise CorruptRecordError(
            f"the record of who serves (thread {RESERVED!r}) is damaged: {error}; delete that thread in both stores",
            thread_id=RESERVED,
        ) from error


def at_once(roles: Roles, now: datetime) -> Roles:
    """`roles`, changed now."""
    return replace(roles, since=now.timestamp())

"""Where the roles are kept: in a thread of each store, hidden from everybody. Its chain of commits lets one change win.

It has no checkpoints and no messages: whoever opens one of the stores alone finds nothing in it to read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Struct

from clew.errors import CorruptRecordError
from clew.ids import new_id
from clew.model.commit import After, Applied, Commit, ThreadFields
from clew.model.config import ANY_USER
from clew.model.queries import AttachmentQuery
from clew.model.records import AttachmentRecord
from clew.storage.protocol import RESERVED, StaleBasisError, Storage
from clew.storage.replicated.failover import Roles

LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Its time: it is the last one in every list."""
# The thread that holds the roles belongs to a user whom nobody is called like; so do threads that are not whole yet.
_FIELDS: Final = ThreadFields(text="", data=b"", run_id=None, user_id=RESERVED)
_QUERY: Final = AttachmentQuery(thread_id=RESERVED, user=ANY_USER, checkpoint_id="roles")


class _Record(Struct, frozen=True):
    """The roles, and the commit that brought them: what the next change comes after."""

    commit_id: str
    roles: Roles


async def read_roles(store: Storage) -> Roles | None:
    """The roles as `store` knows them."""
    record = await _read(store)
    return None if record is None else record.roles


async def write_roles(store: Storage, roles: Roles) -> bool:
    """Write the roles, unless `store` has them or newer ones by then: whether it was done."""
    record = await _read(store)
    if record is not None and not roles.follows(record.roles):
        return False
    made = _Record(new_id(), roles)
    commit = Commit(
        commit_id=made.commit_id,
        thread_id=RESERVED,
        user=ANY_USER,
        at=LONG_AGO,
        after=After(None if record is None else record.commit_id),
        attachments=(
            AttachmentRecord(namespace="", checkpoint_id="roles", key="roles", data=msgspec.msgpack.encode(made)),
        ),
        thread=_FIELDS if record is None else None,
    )
    (outcome,) = await store.apply((commit,))
    if isinstance(outcome, StaleBasisError):
        return False
    if not isinstance(outcome, Applied):
        raise outcome
    return True


async def _read(store: Storage) -> _Record | None:
    found = await store.attachments(_QUERY)
    if not found:
        return None
    try:
        return msgspec.msgpack.decode(found[0].data, type=_Record)
    except msgspec.MsgspecError as error:
        raise CorruptRecordError(
            f"the record of who serves (thread {RESERVED!r}) is damaged: {error}; delete that thread in both stores",
            thread_id=RESERVED,
        ) from error

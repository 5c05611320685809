"""Layout of rows and volatile states in a hot storage: a hot thread has the id of its cold thread.

Rows are bundled into *entries*. An entry is a checkpoint of the hot thread, with a new id and the
rows in its body. Its namespace names the thread's incarnation and the *block* of value numbers that
its rows begin in. So a reader queries the blocks that it needs, a writer appends without reading,
and superfluous entries can be removed one by one. A row that extends into further blocks leaves a
*pointer* there: the row without its data.

A volatile state is an attachment, named by namespace and user.

Every entry has a checksum over its content and its place. It detects damaged and misplaced entries,
but does not protect against an attacker who can write to the hot storage.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.ids import new_id
from clew.model.commit import Commit, NewCheckpoint, Removal, ThreadFields
from clew.model.config import ANY_USER, User
from clew.model.records import AttachmentRecord, CheckpointRecord, Range, ValueRow
from clew.storage.cached.coverage import DIGEST_SIZE, HeldRow
from clew.storage.conversions import UNDECODABLE, text_bytes
from clew.storage.wrapper import StateVersion

BLOCK: Final = 1024
"""Value numbers per block."""
BUNDLE: Final = 256 << 10
"""The approximate size of an entry in bytes."""
STATES: Final = "states"
_VERSION: Final = 1
_CHECKSUM: Final = 16

_Packed = tuple[int, int, bytes, bytes]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, int, list[_Packed]]).decode
_decode_state = msgspec.msgpack.Decoder(tuple[int, StateVersion, float, bytes]).decode


class Entry(Struct, frozen=True):
    """A decoded entry: its rows, and pointers to rows in other blocks."""

    namespace: str
    entry_id: str
    rows: tuple[HeldRow, ...]
    pointers: tuple[Range, ...]
    size: int


def blocks_of(ranges: Iterable[Range]) -> set[int]:
    """Return the blocks that `ranges` touch."""
    return {block for first, end in ranges for block in range(first // BLOCK, (end - 1) // BLOCK + 1)}


def namespace_of(incarnation: str, block: int) -> str:
    return f"{incarnation}/{block}"


class _Bundle:
    """The rows of an entry that is being made."""

    def __init__(self) -> None:
        self.rows: list[HeldRow] = []
        self.size = 0


def row_commits(
    thread_id: str, incarnation: str, rows: Iterable[HeldRow], at: datetime
) -> Iterator[tuple[Commit, list[HeldRow]]]:
    """Yield commits that put `rows` into the hot thread, bundled, and the rows of each."""
    bundles: dict[tuple[int, int], _Bundle] = {}
    pointers: dict[tuple[int, int], list[ValueRow]] = {}

    def commit_of(place: tuple[int, int], rows: Sequence[ValueRow]) -> Commit:
        return _entry_commit(thread_id, namespace_of(incarnation, place[0]), place[1], rows, at)

    for held in rows:
        own, *further = sorted(blocks_of([(held.row.first, held.row.end)]))
        bundle = bundles.setdefault((own, held.epoch), _Bundle())
        if bundle.rows and bundle.size + held.size > BUNDLE:
            yield commit_of((own, held.epoch), [each.row for each in bundle.rows]), bundle.rows
            bundle = bundles[own, held.epoch] = _Bundle()
        bundle.rows.append(held)
        bundle.size += held.size
        for block in further:
            pointers.setdefault((block, held.epoch), []).append(replace(held.row, digests=b"", data=b""))
    for place, bundle in bundles.items():
        yield commit_of(place, [each.row for each in bundle.rows]), bundle.rows
    for place, pointing in pointers.items():
        yield commit_of(place, pointing), []


def _entry_commit(thread_id: str, namespace: str, epoch: int, rows: Sequence[ValueRow], at: datetime) -> Commit:
    packed = _encode((_VERSION, epoch, [(row.first, row.count, row.digests, row.data) for row in rows]))
    # With one id for both, a storage needs no receipt for the commit.
    entry_id = new_id()
    entry = NewCheckpoint(
        checkpoint_id=entry_id,
        namespace=namespace,
        parent=None,
        on_conflict="branch",
        node_name=None,
        step=None,
        run_id=None,
        size=0,
        metadata=b"",
        body=_checksum(packed, thread_id, namespace) + packed,
        covers=(),
    )
    return Commit(commit_id=entry_id, thread_id=thread_id, user=ANY_USER, at=at, checkpoint=entry)


def read_entry(thread_id: str, record: CheckpointRecord) -> Entry | None:
    """Decode `record`. Returns None if it is damaged, misplaced or of another version."""
    packed = memoryview(record.body)[_CHECKSUM:]
    if record.body[:_CHECKSUM] != _checksum(packed, thread_id, record.namespace):
        return None
    try:
        version, epoch, parts = _decode(packed)
    except UNDECODABLE:
        return None
    block = record.namespace.rpartition("/")[2]
    rows: list[HeldRow] = []
    pointers: list[Range] = []
    for first, count, digests, data in parts:
        if first < 0 or count <= 0:
            return None
        if not data and not digests:
            pointers.append((first, first + count))
        elif len(digests) == DIGEST_SIZE * count and str(first // BLOCK) == block:
            rows.append(HeldRow(ValueRow(first=first, count=count, digests=digests, data=data), epoch))
        else:
            return None
    if version != _VERSION:
        return None
    return Entry(record.namespace, record.checkpoint_id, tuple(rows), tuple(pointers), len(record.body))


def _checksum(packed: bytes | memoryview, *belongs_to: str) -> bytes:
    known = hashlib.blake2b(digest_size=_CHECKSUM, person=b"clew.cache")
    for part in belongs_to:
        text = text_bytes(part)
        known.update(len(text).to_bytes(8, "big") + text)
    known.update(packed)
    return known.digest()


# Other commits


def removal_commit(thread_id: str, entries: Iterable[tuple[str, str]], at: datetime) -> Commit:
    """Return a commit that removes entries."""
    return Commit(
        commit_id=new_id(), thread_id=thread_id, user=ANY_USER, at=at, remove=Removal(checkpoints=tuple(entries))
    )


def drop_commit(thread_id: str, at: datetime) -> Commit:
    """Return a commit that deletes the hot thread."""
    return Commit(commit_id=new_id(), thread_id=thread_id, user=ANY_USER, at=at, remove=Removal(thread=True))


def touch_commit(thread_id: str, at: datetime) -> Commit:
    """Return a commit that only updates the hot thread's last activity."""
    fields = ThreadFields(text="", data=b"", run_id=None, user_id=None)
    return Commit(commit_id=new_id(), thread_id=thread_id, user=ANY_USER, at=at, thread=fields)


def state_commit(
    thread_id: str, namespace: str, user: User, version: StateVersion, expires: float, state: bytes, at: datetime
) -> Commit:
    """Return a commit that keeps a volatile state and replaces the previous one."""
    packed = _encode((_VERSION, version, expires, state))
    key = _user_key(user)
    data = _checksum(packed, thread_id, namespace, key) + packed
    kept = AttachmentRecord(namespace=STATES, checkpoint_id=namespace, key=key, data=data)
    return Commit(commit_id=new_id(), thread_id=thread_id, user=ANY_USER, at=at, attachments=(kept,))


def read_state(thread_id: str, namespace: str, user: User, found: Iterable[AttachmentRecord]) -> State | None:
    """Return a namespace and user's volatile state; None if it is missing or damaged."""
    key = _user_key(user)
    for each in found:
        packed = memoryview(each.data)[_CHECKSUM:]
        if each.key != key or each.data[:_CHECKSUM] != _checksum(packed, thread_id, namespace, key):
            continue
        try:
            layout, version, expires, state = _decode_state(packed)
        except UNDECODABLE:
            continue
        if layout == _VERSION:
            return State(version, expires, state)
    return None


class State(Struct, frozen=True):
    """A volatile state, the head of the thread that it belongs to, and its expiry."""

    version: StateVersion
    expires: float
    packed: bytes


def _user_key(user: User) -> str:
    if user is None:
        return "-"
    return "*" if user is ANY_USER else f"+{user}"

"""Seals and opens each kind of record. Empty fields, ids, times and counts stay readable.

A fork is made inside the inner storage, so its records stay sealed for the thread that they were
written to. The fork's description, which is sealed for the fork, names that thread: its *lineage*.
Without a key nobody can forge one, so a record that was copied into another thread can't be opened
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.errors import EncryptionError
from clew.model.commit import Commit, NewCheckpoint, ThreadFields
from clew.model.records import AttachmentRecord, CheckpointRecord, JournalEntry, MessageRecord, ThreadRecord, ValueRow
from clew.storage.columns import UnreadableFrame
from clew.storage.conversions import bytes_text, text_bytes
from clew.storage.encrypted.cipher import Cipher, about

_encode = msgspec.msgpack.Encoder().encode
_decode_checkpoint: Final = msgspec.msgpack.Decoder(tuple[bytes | None, int | None, bytes]).decode
_decode_message: Final = msgspec.msgpack.Decoder(tuple[bytes, bytes]).decode


class Origin(Struct, frozen=True, array_like=True):
    """A fork's source. Its checkpoint is `as_checkpoint_id` in the fork."""

    thread_id: str
    checkpoint_id: str
    as_checkpoint_id: str


Lineage = tuple[Origin, ...]
"""A fork's origin, the origin's own, and so on; empty for a thread that is no fork."""


class _Described(Struct, frozen=True, array_like=True):
    """The sealed content of a description."""

    text: bytes
    data: bytes
    lineage: Lineage
    labels: tuple[bytes, ...] = ()


_decode_thread: Final = msgspec.msgpack.Decoder(_Described).decode


class Sealer:
    """Seals the records of one thread."""

    def __init__(self, cipher: Cipher, thread_id: str) -> None:
        self._cipher = cipher
        self._thread_id = thread_id

    def commit(self, commit: Commit, lineage: Lineage) -> Commit:
        """Return the commit with its content sealed. `lineage` goes into the description."""
        return replace(
            commit,
            values=self.row(commit.values) if commit.values is not None else None,
            merge=tuple([self.row(each) for each in commit.merge]),
            checkpoint=self.checkpoint(commit.checkpoint) if commit.checkpoint is not None else None,
            attachments=tuple([self.attachment(each) for each in commit.attachments]),
            messages=tuple([self.message(each) for each in commit.messages]),
            thread=self.fields(commit.thread, lineage) if commit.thread is not None else None,
            journal=self._sealed(commit.journal, "journal", commit.commit_id) if commit.journal is not None else None,
        )

    def row(self, row: ValueRow) -> ValueRow:
        digests = self._cipher.hide(row.digests)
        return replace(row, digests=digests, data=self._sealed(row.data, "row", row.first, row.count, digests))

    def checkpoint(self, new: NewCheckpoint) -> NewCheckpoint:
        """Seal a checkpoint. Its node and step move into the metadata."""
        names = new.namespace, new.checkpoint_id
        described = b""
        if new.metadata or new.node_name is not None or new.step is not None:
            node = None if new.node_name is None else text_bytes(new.node_name)
            described = self._sealed(_encode((node, new.step, new.metadata)), "checkpoint", *names)
        return replace(new, node_name=None, step=None, metadata=described, body=self._sealed(new.body, "body", *names))

    def attachment(self, record: AttachmentRecord) -> AttachmentRecord:
        names = record.namespace, record.checkpoint_id, record.key
        return replace(record, data=self._sealed(record.data, "attachment", *names))

    def message(self, record: MessageRecord) -> MessageRecord:
        """Seal a message. Its text moves into the data, so only key holders can search it."""
        content = _encode((text_bytes(record.text), record.data)) if record.text or record.data else b""
        return replace(record, text="", data=self._sealed(content, "message", record.message_id))

    def fields(self, fields: ThreadFields, lineage: Lineage) -> ThreadFields:
        """Seal a description. Its text and labels move into the data, so only key holders find them."""
        content = b""
        if fields.text or fields.data or fields.labels or lineage:
            content = _encode(_Described(text_bytes(fields.text), fields.data, lineage, fields.labels))
        return replace(fields, text="", labels=(), data=self._sealed(content, "thread"))

    def _sealed(self, content: bytes, kind: str, *names: str | int | bytes) -> bytes:
        return self._cipher.seal(content, about(kind, self._thread_id, *names)) if content else b""


class Opener:
    """Opens the records of one thread. One that can't be opened does not affect the others.

    It is replaced by a frame that can't be decoded. `failed` is set if a record was not sealed for
    its place, and `refused` to the error if a key is missing.
    """

    def __init__(self, cipher: Cipher, thread_id: str, lineage: Lineage = ()) -> None:
        self._cipher = cipher
        self._thread_id = thread_id
        self.lineage = lineage
        self.failed = False
        self.refused: EncryptionError | None = None

    def row(self, row: ValueRow) -> ValueRow:
        try:
            digests = self._cipher.reveal(row.digests, row.data)
        except EncryptionError as error:
            return replace(row, data=self._refuse(error))
        if self._stays(row.data):
            return replace(row, digests=digests)
        places = (about("row", each, row.first, row.count, row.digests) for each in self._threads())
        return replace(row, digests=digests, data=self._content(row.data, places))

    def checkpoint(self, record: CheckpointRecord) -> CheckpointRecord:
        if not self._stays(record.body):
            record = replace(record, body=self._content(record.body, self._checkpoint_places("body", record)))
        if self._stays(record.metadata, record.node_name, record.step):
            return record
        content = self._content(record.metadata, self._checkpoint_places("checkpoint", record))
        if isinstance(content, UnreadableFrame):
            return replace(record, node_name=None, step=None, metadata=content)
        node, step, metadata = _decode_checkpoint(content)
        return replace(record, node_name=None if node is None else bytes_text(node), step=step, metadata=metadata)

    def attachment(self, record: AttachmentRecord) -> AttachmentRecord:
        if self._stays(record.data):
            return record
        places = self._checkpoint_places("attachment", record, record.key)
        return replace(record, data=self._content(record.data, places))

    def message(self, record: MessageRecord) -> MessageRecord:
        if self._stays(record.data, record.text):
            return record
        content = self._content(record.data, (about("message", each, record.message_id) for each in self._threads()))
        if isinstance(content, UnreadableFrame):
            return replace(record, text="", data=content)
        text, data = _decode_message(content)
        return replace(record, text=bytes_text(text), data=data)

    def entry(self, entry: JournalEntry) -> JournalEntry:
        if self._stays(entry.data):
            return entry
        place = about("journal", self._thread_id, entry.commit_id)
        return replace(entry, data=self._content(entry.data, iter([place])))

    def thread(self, record: ThreadRecord) -> ThreadRecord:
        """Open the thread, and set `lineage` from it."""
        if not self._stays(record.data, record.text):
            content = self._content(record.data, iter([about("thread", self._thread_id)]))
            self.lineage = ()
            if isinstance(content, UnreadableFrame):
                record = replace(record, text="", labels=(), data=content)
            else:
                opened = _decode_thread(content)
                self.lineage = opened.lineage
                record = replace(record, text=bytes_text(opened.text), labels=opened.labels, data=opened.data)
        return replace(record, head=self.checkpoint(record.head)) if record.head is not None else record

    def _stays(self, stored: bytes, *absorbed: str | int | None) -> bool:
        """Return whether there is nothing to open: `stored` is empty or was never sealed.

        `absorbed` are the fields that sealing moves into it. A record with these fields in the
        clear and nothing sealed is forged.
        """
        if not stored and all(each is None or each == "" for each in absorbed):
            return True
        try:
            return self._cipher.is_plain(stored)
        except EncryptionError:
            return False

    def _threads(self) -> Iterator[str]:
        """Yield the threads that a record may have been sealed for, nearest first."""
        yield self._thread_id
        for origin in self.lineage:
            yield origin.thread_id

    def _checkpoint_places(
        self, kind: str, record: CheckpointRecord | AttachmentRecord, *names: str
    ) -> Iterator[bytes]:
        for thread_id, checkpoint_id in _places(self._thread_id, record.checkpoint_id, self.lineage):
            yield about(kind, thread_id, record.namespace, checkpoint_id, *names)

    def _content(self, stored: bytes, places: Iterator[bytes]) -> bytes:
        """Return the content of `stored`, sealed for one of `places`; or an `UnreadableFrame`."""
        try:
            self._cipher.is_plain(stored)
            for place in places:
                if (content := self._cipher.open(stored, place)) is not None:
                    return content
        except EncryptionError as error:
            return self._refuse(error)
        self.failed = True
        return UnreadableFrame(self._cipher.broken)

    def _refuse(self, error: EncryptionError) -> UnreadableFrame:
        self.refused = self.refused or error
        return UnreadableFrame(self._cipher.refused(error), error)


def _places(thread_id: str, checkpoint_id: str, lineage: Sequence[Origin]) -> Iterator[tuple[str, str]]:
    """Yield the threads and ids under which a checkpoint or its attachments may have been sealed."""
    yield thread_id, checkpoint_id
    for origin in lineage:
        if checkpoint_id != origin.as_checkpoint_id:
            return
        checkpoint_id = origin.checkpoint_id
        yield origin.thread_id, checkpoint_id

"""How each kind of record is sealed and opened. What is empty stays empty; ids, times, counts and numbers stay readable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from clew.model.commit import Commit, NewCheckpoint, ThreadFields
from clew.model.records import AttachmentRecord, CheckpointRecord, JournalEntry, MessageRecord, ThreadRecord, ValueRow
from clew.storage.encrypted.cipher import Cipher, about, opened
from clew.storage.encrypted.lineage import Lineage, Origin, places_of, threads_of
from clew.storage.packing import bytes_text, text_bytes

_encode = msgspec.msgpack.Encoder().encode
_described: Final = msgspec.msgpack.Decoder(tuple[bytes | None, int | None, bytes])
_said: Final = msgspec.msgpack.Decoder(tuple[bytes, bytes])
_named: Final = msgspec.msgpack.Decoder(tuple[bytes, bytes, tuple[Origin, ...]])


class Sealer:
    """Seals what is written to one thread."""

    def __init__(self, cipher: Cipher, thread_id: str) -> None:
        self._cipher = cipher
        self._thread_id = thread_id

    def commit(self, commit: Commit, lineage: Lineage) -> Commit:
        """The same commit, with everything in it sealed. `lineage` is the thread's, for its description."""
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
        """Its node and its step go into the metadata."""
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
        """Its text goes into the data: only who can open it can search it."""
        content = _encode((text_bytes(record.text), record.data)) if record.text or record.data else b""
        return replace(record, text="", data=self._sealed(content, "message", record.message_id))

    def fields(self, fields: ThreadFields, lineage: Lineage) -> ThreadFields:
        content = b""
        if fields.text or fields.data or lineage:
            content = _encode((text_bytes(fields.text), fields.data, lineage))
        return replace(fields, text="", data=self._sealed(content, "thread"))

    def _sealed(self, content: bytes, kind: str, *names: str | int | bytes) -> bytes:
        return self._cipher.seal(content, about(kind, self._thread_id, *names)) if content else b""


class Opener:
    """Opens what is read in one thread. What can't be opened is `broken`, and `failed` says that there was such."""

    def __init__(self, cipher: Cipher, thread_id: str, lineage: Lineage = ()) -> None:
        self._cipher = cipher
        self._thread_id = thread_id
        self.lineage = lineage
        self.failed = False

    def row(self, row: ValueRow) -> ValueRow:
        digests = self._cipher.reveal(row.digests, row.data)
        if self._stays(row.data):
            return replace(row, digests=digests)
        places = (about("row", each, row.first, row.count, row.digests) for each in self._threads())
        return replace(row, digests=digests, data=self._opened(row.data, places) or self._cipher.broken)

    def checkpoint(self, record: CheckpointRecord) -> CheckpointRecord:
        if not self._stays(record.body):
            body = self._opened(record.body, self._checkpoint_places("body", record))
            record = replace(record, body=body or self._cipher.broken)
        if self._stays(record.metadata):
            return record
        described = self._opened(record.metadata, self._checkpoint_places("checkpoint", record))
        if described is None:
            return replace(record, metadata=self._cipher.broken)
        node, step, metadata = _described.decode(described)
        return replace(record, node_name=None if node is None else bytes_text(node), step=step, metadata=metadata)

    def attachment(self, record: AttachmentRecord) -> AttachmentRecord:
        if self._stays(record.data):
            return record
        places = self._checkpoint_places("attachment", record, record.key)
        return replace(record, data=self._opened(record.data, places) or self._cipher.broken)

    def message(self, record: MessageRecord) -> MessageRecord:
        if self._stays(record.data):
            return record
        content = self._opened(record.data, (about("message", each, record.message_id) for each in self._threads()))
        if content is None:
            return replace(record, data=self._cipher.broken)
        text, data = _said.decode(content)
        return replace(record, text=bytes_text(text), data=data)

    def entry(self, entry: JournalEntry) -> JournalEntry:
        if self._stays(entry.data):
            return entry
        place = about("journal", self._thread_id, entry.commit_id)
        return replace(entry, data=self._opened(entry.data, iter([place])) or self._cipher.broken)

    def thread(self, record: ThreadRecord) -> ThreadRecord:
        """The thread, whose lineage is known then."""
        if not self._stays(record.data):
            content = self._opened(record.data, iter([about("thread", self._thread_id)]))
            text, data, self.lineage = b"", self._cipher.broken, ()
            if content is not None:
                text, data, self.lineage = _named.decode(content)
            record = replace(record, text=bytes_text(text), data=data)
        return replace(record, head=self.checkpoint(record.head)) if record.head is not None else record

    def _stays(self, stored: bytes) -> bool:
        """Whether it is as it was given: because it is empty, or was never sealed."""
        return not stored or self._cipher.is_plain(stored)

    def _threads(self) -> Iterator[str]:
        return threads_of(self._thread_id, self.lineage)

    def _checkpoint_places(
        self, kind: str, record: CheckpointRecord | AttachmentRecord, *names: str
    ) -> Iterator[bytes]:
        for thread_id, checkpoint_id in places_of(self._thread_id, record.checkpoint_id, self.lineage):
            yield about(kind, thread_id, record.namespace, checkpoint_id, *names)

    def _opened(self, stored: bytes, places: Iterator[bytes]) -> bytes | None:
        content = opened(self._cipher, stored, places)
        if content is None:
            self.failed = True
        return content

"""Verification: reads every record of a store and reports the damaged ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from clew.checkpointer.blocking import blocking
from clew.checkpointer.engine import Engine
from clew.checkpointer.records import BAD_RECORD, attached, checkpoint_metadata, description, message_of
from clew.checkpointer.runner import Runner
from clew.checkpointer.sweeper import Sweeper
from clew.checkpointer.users import Users
from clew.codec.packer import read_stored
from clew.codec.state import StateCodec
from clew.errors import CorruptRecordError
from clew.model.config import ANY_USER, Config
from clew.model.message import Message, folded
from clew.model.queries import AttachmentQuery, CheckpointPage, MessageQuery, ValueQuery
from clew.model.records import AttachmentRecord, MessageRecord, ThreadRecord
from clew.model.reports import Damage, Progress, VerifyReport
from clew.storage.branches import points_of


class VerifyMethods:
    """Methods that check a store."""

    _runner: Runner
    _engine: Engine
    _sweeper: Sweeper

    async def averify(self, config: Config | str | None = None, *, progress: Progress | None = None) -> VerifyReport:
        """Read all records of all threads, or of one, and report the damaged ones.

        Checks checkpoints, attachments, messages, branch points and descriptions. Damage never ends it early.
        """
        engine, sweeper = self._engine, self._sweeper
        found = _Verification(engine.codec, engine.users)
        async for record in sweeper.each_thread(config, progress):
            thread_id = record.thread_id
            found.thread(record)
            with found.checking(thread_id):
                position = ValueQuery(thread_id=thread_id, user=ANY_USER, ranges=())
                points_of(thread_id, await engine.values(position))
            with found.checking(thread_id):
                # In one read, so that concurrent saves and cleanups don't look like damage.
                found.checkpoints(thread_id, await sweeper.checkpoints(record, detail="state"))
            with found.checking(thread_id):
                query = AttachmentQuery(thread_id=thread_id, user=ANY_USER)
                found.attachments(thread_id, await engine.retry(partial(engine.storage.attachments, query)))
            with found.checking(thread_id):
                messages = MessageQuery(thread_id=thread_id, user=ANY_USER, limit=None)
                found.messages(thread_id, await engine.retry(partial(engine.storage.messages, messages)))
        return found.report()

    verify = blocking(averify)


class _Verification:
    """Counts the records that were read, and collects the damage."""

    def __init__(self, codec: StateCodec, users: Users) -> None:
        self._codec = codec
        self._users = users
        self._read: Counter[str] = Counter()
        self._damage: list[Damage] = []

    def report(self) -> VerifyReport:
        counts = {name: self._read[name] for name in ("threads", "checkpoints", "messages", "attachments")}
        return VerifyReport(**counts, damage=tuple(self._damage))

    @contextmanager
    def checking(
        self,
        thread_id: str,
        *,
        checkpoint_id: str | None = None,
        namespace: str = "",
        message_id: str | None = None,
        attachment: str | None = None,
    ) -> Iterator[None]:
        """Note errors as damage of the named record, or of the thread as a whole."""
        try:
            yield
        except BAD_RECORD as error:
            self._damage.append(
                Damage(
                    thread_id=thread_id,
                    problem=str(error),
                    checkpoint_id=checkpoint_id,
                    namespace=namespace,
                    message_id=message_id,
                    attachment=attachment,
                )
            )

    def thread(self, record: ThreadRecord) -> None:
        self._read["threads"] += 1
        with self.checking(record.thread_id):
            description(self._codec, record)

    def checkpoints(self, thread_id: str, page: CheckpointPage) -> None:
        rows = self._codec.open_rows(page.rows)
        for record in page.checkpoints:
            self._read["checkpoints"] += 1
            with self.checking(thread_id, checkpoint_id=record.checkpoint_id, namespace=record.namespace):
                checkpoint_metadata(self._codec, self._users, thread_id, None, record)
                # Only with the rows that it covers, because a load reads no others.
                self._codec.check(record.body, rows.within(record.covers))

    def attachments(self, thread_id: str, records: Iterable[AttachmentRecord]) -> None:
        for record in records:
            self._read["attachments"] += 1
            named = {"checkpoint_id": record.checkpoint_id, "namespace": record.namespace, "attachment": record.key}
            with self.checking(thread_id, **named):
                attached(self._codec, record)

    def messages(self, thread_id: str, records: Iterable[MessageRecord]) -> None:
        for record in records:
            self._read["messages"] += 1
            with self.checking(thread_id, message_id=record.message_id):
                message = message_of(self._codec, record)
                if record.text not in read_stored(partial(_search_texts, message)):
                    raise CorruptRecordError("its search text does not match its content")


def _search_texts(message: Message) -> tuple[str, str]:
    """The valid search texts. Messages stored before tool calls were searchable have the text alone."""
    return folded(message.search_text()), folded(message.text())

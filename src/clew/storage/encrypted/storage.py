"""The storage that seals what goes down and opens what comes up."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from clew.errors import ClewError
from clew.model.commit import Applied, Commit, ThreadFields
from clew.model.config import ANY_USER
from clew.model.message import folded
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    JournalPage,
    JournalQuery,
    MessageQuery,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, MessageRecord, ThreadRecord
from clew.storage.copying import read_content
from clew.storage.encrypted.cipher import Cipher
from clew.storage.encrypted.lineage import Lineage, Origin
from clew.storage.encrypted.sealing import Opener, Sealer
from clew.storage.encrypted.states import SealedStates
from clew.storage.protocol import RESERVED, Storage
from clew.storage.rules import owner_of_new
from clew.storage.wrapper import SharedStates, StorageWrapper

FIRST_PAGE, LARGEST_PAGE = 500, 8_000
"""How many records are read at a time to search them: more each time, because storages count up to where a page begins."""
_REMEMBERED: Final = 10_000
"""Of how many forks the lineage is remembered."""
_NONE: Final = ""
"""No checkpoint's id."""
_T = TypeVar("_T")
_R = TypeVar("_R", MessageRecord, ThreadRecord)


class EncryptedStorage(StorageWrapper):
    """`inner` with everything sealed that carries content: docs/encryption.md says what that is, and what stays readable.

    What the storage can't read it can't search: that is done here, page by page, with the same results. A fork's lineage is
    read once, when something in it is met that was written to another thread. What replication keeps for itself (which store
    serves) is no content, and is left as it is.
    """

    def __init__(self, inner: Storage, cipher: Cipher) -> None:
        super().__init__(inner)
        self.cipher = cipher
        self._lineages: OrderedDict[str, Lineage] = OrderedDict()

    def states(self) -> SharedStates | None:
        shared = super().states()
        return None if shared is None else SealedStates(shared, self.cipher)

    # Writing

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        outcomes: list[Applied | ClewError] = []
        sealed: list[Commit] = []
        for commit in commits:
            lineage: Lineage = ()
            if commit.fork is not None or commit.thread is not None:
                if _follows(commit, sealed):
                    outcomes += await self.inner.apply(sealed)
                    sealed = []
                commit, lineage = await self._with_lineage(commit)
            own = commit.thread_id == RESERVED
            sealed.append(commit if own else Sealer(self.cipher, commit.thread_id).commit(commit, lineage))
        return outcomes + await self.inner.apply(sealed) if sealed else outcomes

    async def _with_lineage(self, commit: Commit) -> tuple[Commit, Lineage]:
        """The lineage that the thread has after `commit`; a fork gets a description of its own to keep it in."""
        fork = commit.fork
        if fork is None:
            anew = commit.remove is not None and commit.remove.thread
            return commit, () if anew else await self._lineage(commit.thread_id)
        asked = CheckpointQuery(
            thread_id=fork.thread_id, user=commit.user, namespace=fork.namespace, checkpoint_id=fork.checkpoint_id
        )
        heads = (await self.inner.checkpoints(asked)).checkpoints
        found = await self.inner.threads(ThreadQuery(user=commit.user, thread_id=fork.thread_id))
        if not heads or not found:
            # The storage says what is wrong with it; also if there is one by then, whose lineage is not known here.
            return replace(commit, fork=replace(fork, checkpoint_id=fork.checkpoint_id or _NONE)), ()
        opener = Opener(self.cipher, fork.thread_id)
        source = opener.thread(found[0])
        checkpoint_id = heads[0].checkpoint_id
        lineage = (Origin(fork.thread_id, checkpoint_id, fork.as_checkpoint_id), *opener.lineage)
        described = commit.thread or ThreadFields(
            text=source.text,
            data=source.data,
            run_id=source.run_id,
            user_id=owner_of_new(commit, source.user_id),
        )
        # The head may be another one by the time the storage looks.
        return replace(commit, fork=replace(fork, checkpoint_id=checkpoint_id), thread=described), lineage

    # Reading

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        page = await self.inner.checkpoints(query)

        def read(opener: Opener) -> CheckpointPage:
            return replace(
                page,
                checkpoints=tuple([opener.checkpoint(each) for each in page.checkpoints]),
                rows=tuple([opener.row(each) for each in page.rows]),
            )

        return await self._opened(query.thread_id, read)

    async def values(self, query: ValueQuery) -> ValuePage:
        page = await self.inner.values(query)
        return await self._opened(
            query.thread_id, lambda opener: replace(page, rows=tuple([opener.row(each) for each in page.rows]))
        )

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        found = await self.inner.attachments(query)
        if query.thread_id == RESERVED:
            return found
        return await self._opened(query.thread_id, lambda opener: [opener.attachment(each) for each in found])

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        needle = query.search
        if needle:
            return await self._search(
                query,
                lambda offset, limit: self._messages(replace(query, search=None, offset=offset, limit=limit)),
                name=lambda each: each.message_id,
                matches=lambda each: needle in each.text,
            )
        return await self._messages(query)

    async def _messages(self, query: MessageQuery) -> list[MessageRecord]:
        found = await self.inner.messages(query)
        return await self._opened(query.thread_id, lambda opener: [opener.message(each) for each in found])

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        needle = query.search
        if needle:
            return await self._search(
                query,
                lambda offset, limit: self._threads(replace(query, search=None, offset=offset, limit=limit)),
                name=lambda each: each.thread_id,
                matches=lambda each: needle in each.text or needle in folded(each.thread_id),
            )
        return await self._threads(query)

    async def _threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        found = await self.inner.threads(query)
        return [Opener(self.cipher, each.thread_id).thread(each) for each in found]

    async def journal(self, query: JournalQuery) -> JournalPage:
        page = await self.inner.journal(query)
        return replace(page, entries=tuple([Opener(self.cipher, each.thread_id).entry(each) for each in page.entries]))

    async def _search(
        self,
        query: MessageQuery | ThreadQuery,
        page: Callable[[int, int], Awaitable[list[_R]]],
        *,
        name: Callable[[_R], str],
        matches: Callable[[_R], bool],
    ) -> list[_R]:
        """What matches, from the query's offset up to its limit; `page` reads what is there, matching or not."""
        found: list[_R] = []
        # Threads that are written to meanwhile move to the front, and are met again.
        seen: set[str] = set()
        skip, offset, size = query.offset, 0, FIRST_PAGE
        while query.limit is None or len(found) < query.limit:
            read = await page(offset, size)
            if not read:
                break
            for each in read:
                if matches(each) and name(each) not in seen:
                    seen.add(name(each))
                    if len(seen) > skip:
                        found.append(each)
            offset += len(read)
            size = min(2 * size, LARGEST_PAGE)
        return found[: query.limit]

    async def stale(self, thread_id: str) -> int:
        """How many records of the thread are not sealed with the current key, if at all."""
        content = await read_content(self.inner, thread_id)
        if content is None or thread_id == RESERVED:
            return 0
        stored = [content.thread.data, *(row.data for row in content.rows)]
        stored += [part for each in content.checkpoints for part in (each.body, each.metadata)]
        stored += [each.data for each in content.attachments] + [each.data for each in content.messages]
        return sum(1 for each in stored if each and not self.cipher.is_current(each))

    # Lineages

    async def _opened(self, thread_id: str, read: Callable[[Opener], _T]) -> _T:
        """What `read` gives; if something can't be opened, once more with the thread's lineage as it is now."""
        opener = Opener(self.cipher, thread_id, self._lineages.get(thread_id, ()))
        found = read(opener)
        if opener.failed:
            lineage = await self._lineage(thread_id)
            if lineage != opener.lineage:
                self._lineages[thread_id] = lineage
                if len(self._lineages) > _REMEMBERED:
                    self._lineages.popitem(last=False)
                return read(Opener(self.cipher, thread_id, lineage))
        return found

    async def _lineage(self, thread_id: str) -> Lineage:
        found = await self.inner.threads(ThreadQuery(user=ANY_USER, thread_id=thread_id))
        opener = Opener(self.cipher, thread_id)
        for each in found:
            opener.thread(replace(each, head=None))
        return opener.lineage


def encrypted_in(storage: Storage) -> list[EncryptedStorage]:
    """`storage` if it seals, or those inside of it that do."""
    if isinstance(storage, EncryptedStorage):
        return [storage]
    inside = storage.around if isinstance(storage, StorageWrapper) else ()
    return [found for each in inside for found in encrypted_in(each)]


def _follows(commit: Commit, earlier: Sequence[Commit]) -> bool:
    """Whether the lineage that `commit` needs is made by one of the `earlier` ones of its batch."""
    if commit.fork is not None:
        return any(each.thread_id == commit.fork.thread_id for each in earlier)
    return any(each.thread_id == commit.thread_id and each.fork is not None for each in earlier)

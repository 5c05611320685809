"""The encrypted storage: seals commits, opens records, and searches decrypted content."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from clew.bounded import BoundedMap
from clew.errors import ClewError, EncryptionError
from clew.model.commit import Applied, Commit, ThreadFields
from clew.model.config import ANY_USER, User
from clew.model.message import folded
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    Content,
    JournalPage,
    JournalQuery,
    MessageQuery,
    SearchQuery,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, FoundMessage, JournalEntry, MessageRecord, ThreadRecord
from clew.storage.content import stored_in
from clew.storage.encrypted.cipher import Cipher, about
from clew.storage.encrypted.keyed import KeyedStorage
from clew.storage.encrypted.sealer import Lineage, Opener, Origin, Sealer
from clew.storage.found import scanned
from clew.storage.protocol import Storage
from clew.storage.rules import owner_of_new
from clew.storage.wrapper import SharedStates, StateVersion, StorageWrapper

FIRST_PAGE, LARGEST_PAGE = 500, 8_000
"""Page sizes of a search. Pages grow, because storages count up to where a page begins."""
_REMEMBERED: Final = 10_000
"""Number of lineages that are cached."""
_NONE: Final = ""
"""An id that no checkpoint has."""
_T = TypeVar("_T")
_R = TypeVar("_R", MessageRecord, ThreadRecord)


class EncryptedStorage(StorageWrapper):
    """`inner` with all content sealed. docs/encryption.md lists what stays readable.

    Searches are done here, page by page, because the inner storage can't read the content. A fork's
    lineage is read once, at the first record that was sealed for another thread. Clew's own
    records (roles, for example) have no content and are not sealed.
    """

    def __init__(self, inner: Storage, cipher: Cipher) -> None:
        self.keyed = KeyedStorage(inner, cipher)
        super().__init__(self.keyed)
        self.cipher = cipher
        self._lineages: BoundedMap[str, Lineage] = BoundedMap(max_entries=_REMEMBERED)

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
            sealed.append(Sealer(self.cipher, commit.thread_id).commit(commit, lineage))
        return outcomes + await self.inner.apply(sealed) if sealed else outcomes

    async def _with_lineage(self, commit: Commit) -> tuple[Commit, Lineage]:
        """Return the thread's lineage after `commit`. A fork gets a description to keep it in."""
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
            # The storage reports what is missing. With an empty id it fails even if the source is created
            # meanwhile, because the source's lineage would be unknown.
            return replace(commit, fork=replace(fork, checkpoint_id=fork.checkpoint_id or _NONE)), ()
        opener = Opener(self.cipher, fork.thread_id)
        source = opener.thread(found[0])
        if opener.refused is not None:
            raise opener.refused
        checkpoint_id = heads[0].checkpoint_id
        lineage = (Origin(fork.thread_id, checkpoint_id, fork.as_checkpoint_id), *opener.lineage)
        described = commit.thread or ThreadFields(
            text=source.text,
            data=source.data,
            run_id=source.run_id,
            user_id=owner_of_new(commit, source.user_id),
            labels=source.labels,
        )
        # By id, because the head may change before the storage reads it.
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
        return await self._opened(query.thread_id, lambda opener: [opener.attachment(each) for each in found])

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        needle = query.search
        if not needle:
            return await self._messages(query)
        step = -1 if query.newest else 1

        async def page(offset: int, limit: int) -> list[MessageRecord]:
            return (await self._messages(replace(query, search=None, offset=offset, limit=limit)))[::step]

        found = await self._search(
            query, page, name=lambda each: each.message_id, matches=lambda each: needle in each.text
        )
        return found[::step]

    async def _messages(self, query: MessageQuery) -> list[MessageRecord]:
        found = await self.inner.messages(query)
        return await self._opened(query.thread_id, lambda opener: [opener.message(each) for each in found])

    async def search(self, query: SearchQuery) -> list[FoundMessage]:
        """Decrypt and search all messages of the user: the inner storage can't read their texts."""
        return await scanned(self, query)

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        needle, labels = query.search or "", set(query.labels)
        if not needle and not labels:
            return await self._threads(query)
        everything = replace(query, search=None, labels=())
        return await self._search(
            query,
            lambda offset, limit: self._threads(replace(everything, offset=offset, limit=limit)),
            name=lambda each: each.thread_id,
            matches=lambda each: (
                labels.issubset(each.labels) and (needle in each.text or needle in folded(each.thread_id))
            ),
        )

    async def _threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        found = await self.inner.threads(query)
        return [Opener(self.cipher, each.thread_id).thread(each) for each in found]

    async def content(self, thread_id: str) -> Content | None:
        found = await self.inner.content(thread_id)
        if found is None:
            return None
        # First: it has the lineage that the others are opened with.
        opener = Opener(self.cipher, thread_id)
        thread = opener.thread(replace(found.thread, head=None))
        return replace(
            found,
            thread=replace(thread, head=found.thread.head and opener.checkpoint(found.thread.head)),
            rows=tuple([opener.row(each) for each in found.rows]),
            checkpoints=tuple([opener.checkpoint(each) for each in found.checkpoints]),
            attachments=tuple([opener.attachment(each) for each in found.attachments]),
            messages=tuple([opener.message(each) for each in found.messages]),
        )

    async def journal(self, query: JournalQuery) -> JournalPage:
        page = await self.inner.journal(query)
        return replace(page, entries=tuple(map(self._entry, page.entries)))

    def _entry(self, entry: JournalEntry) -> JournalEntry:
        """Open an entry. Raises EncryptionError: without it, the other store would lose one."""
        opener = Opener(self.cipher, entry.thread_id)
        found = opener.entry(entry)
        if opener.refused is not None:
            raise EncryptionError(
                f"a journal entry of thread {entry.thread_id!r}: {opener.refused}", thread_id=entry.thread_id
            )
        return found

    async def _search(
        self,
        query: MessageQuery | ThreadQuery,
        page: Callable[[int, int], Awaitable[list[_R]]],
        *,
        name: Callable[[_R], str],
        matches: Callable[[_R], bool],
    ) -> list[_R]:
        """Return the matches between the query's offset and limit. `page` does not filter."""
        found: list[_R] = []
        # Threads that are written to meanwhile move to the front and are read again.
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
        """Return how many records of the thread are not sealed with the current key."""
        content = await self.inner.content(thread_id)
        stored = () if content is None else stored_in(content)
        return sum(1 for each in stored if each and not self.cipher.is_current(each))

    # Lineages

    async def _opened(self, thread_id: str, read: Callable[[Opener], _T]) -> _T:
        """Call `read`; if a record can't be opened, once more with the thread's current lineage."""
        opener = Opener(self.cipher, thread_id, self._lineages.get(thread_id) or ())
        found = read(opener)
        if opener.failed:
            lineage = await self._lineage(thread_id)
            if lineage != opener.lineage:
                self._lineages.put(thread_id, lineage)
                return read(Opener(self.cipher, thread_id, lineage))
        return found

    async def _lineage(self, thread_id: str) -> Lineage:
        found = await self.inner.threads(ThreadQuery(user=ANY_USER, thread_id=thread_id))
        opener = Opener(self.cipher, thread_id)
        for each in found:
            opener.thread(replace(each, head=None))
        if opener.refused is not None:
            # The description that can't be opened has the lineage: a new one would lose it.
            raise opener.refused
        return opener.lineage


def encrypted_in(storage: Storage) -> list[EncryptedStorage]:
    """Return the encrypted storages in `storage`: itself, or those that it wraps."""
    if isinstance(storage, EncryptedStorage):
        return [storage]
    inside = storage.around if isinstance(storage, StorageWrapper) else ()
    return [found for each in inside for found in encrypted_in(each)]


def _follows(commit: Commit, earlier: Sequence[Commit]) -> bool:
    """Return whether an `earlier` commit of the batch makes the lineage that `commit` needs."""
    if commit.fork is not None:
        return any(each.thread_id == commit.fork.thread_id for each in earlier)
    return any(each.thread_id == commit.thread_id and each.fork is not None for each in earlier)


class SealedStates:
    """Shared volatile states, sealed. A state that can't be opened counts as missing."""

    def __init__(self, inner: SharedStates, cipher: Cipher) -> None:
        self._inner = inner
        self._cipher = cipher

    async def put_state(
        self, thread_id: str, namespace: str, user: User, version: StateVersion, state: bytes, ttl: float
    ) -> bool:
        sealed = self._cipher.seal(state, _about(thread_id, namespace, user))
        return await self._inner.put_state(thread_id, namespace, user, version, sealed, ttl)

    async def get_state(self, thread_id: str, namespace: str, user: User, version: StateVersion) -> bytes | None:
        found = await self._inner.get_state(thread_id, namespace, user, version)
        try:
            return None if found is None else self._cipher.open(found, _about(thread_id, namespace, user))
        except EncryptionError:
            # It was sealed by a process with newer keys.
            return None


def _about(thread_id: str, namespace: str, user: User) -> bytes:
    if user is None:
        return about("state", thread_id, namespace)
    return about("state", thread_id, namespace, 0 if user is ANY_USER else user)

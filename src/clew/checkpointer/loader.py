"""The loader: reads checkpoints, decodes their states, and remembers them for the next save and load."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from clew.checkpointer.arguments import checked_limit
from clew.checkpointer.batch import version_of
from clew.checkpointer.engine import Engine, deleted
from clew.checkpointer.records import check_columns, checkpoint_info, checkpoint_metadata
from clew.codec.index import View
from clew.codec.rows import OpenRows
from clew.errors import UNREADABLE, ConfigError, ConflictError, CorruptRecordError, EncryptionError, shown
from clew.model.checkpoint import Checkpoint, CheckpointInfo, CheckpointMetadata
from clew.model.config import Address, checked_text
from clew.model.queries import CheckpointPage, CheckpointQuery, Detail, ValueQuery
from clew.model.records import Basis, CheckpointRecord, ValueRow
from clew.upkeep.compaction import small_rows_at_the_end

Namespaces = Literal["own", "all"]

PAGE = 100
"""How many checkpoints are read at a time while a filter decides how many are needed."""


class NotLoaded:
    """The type of `NOT_LOADED`."""

    def __repr__(self) -> str:
        return "clew.NOT_LOADED (get it with get_checkpoint)"

    def __bool__(self) -> bool:
        return False


NOT_LOADED: Final = NotLoaded()
"""The state of a checkpoint that was returned without loading it."""


class Loaded(Struct, frozen=True):
    """A checkpoint, its state, and the basis of the log that it was read from."""

    record: CheckpointRecord
    state: Any
    basis: Basis | None

    @property
    def version(self) -> str | None:
        return version_of(self.basis, self.record.body)


class CheckpointFilter(Struct, frozen=True, kw_only=True):
    """Selects checkpoints of a thread. The storage applies all of it but `where`."""

    limit: int | None = None
    before: str | None = None
    run_id: str | None = None
    where: Mapping[str, Any] | None = None
    namespaces: Namespaces = "own"

    def __post_init__(self) -> None:
        checked_limit(self.limit)
        for name, text in (("before", self.before), ("run_id", self.run_id)):
            if text is not None:
                checked_text(name, text)
        if self.where is not None and not isinstance(self.where, Mapping):
            raise ConfigError(f"where must be a mapping of metadata, not {type(self.where).__name__}")
        if self.namespaces not in ("own", "all"):
            raise ConfigError(f'namespaces must be "own" or "all", not {shown(self.namespaces)}')

    def matches(self, info: CheckpointInfo) -> bool:
        return all(info.metadata.get(name) == value for name, value in (self.where or {}).items())


class Matches(Struct, frozen=True):
    """Checkpoints that match, newest first, and the values of their states, if those were read."""

    found: list[tuple[CheckpointInfo, CheckpointRecord]]
    rows: OpenRows


class Loader:
    """Loads checkpoints."""

    def __init__(
        self,
        engine: Engine,
        load_as: Callable[[Any], Any] | None = None,
        fits: Callable[[Collection[Any]], None] | None = None,
    ) -> None:
        """`load_as` converts a decoded state to the class of the checkpointer's states. `fits` raises if a
        dict with these field names can't be loaded as this class."""
        self._engine = engine
        self._codec = engine.codec
        self._load_as = load_as
        self.fits = fits

    def typed(self, state: Any) -> Any:
        """Return a decoded state as the checkpointer's `state_type`. Raises ConfigError if it can't become one."""
        return state if self._load_as is None else self._load_as(state)

    def check(self, state: Any) -> None:
        """Raise ConfigError if a state that is about to be saved does not fit the checkpointer's `state_type`."""
        if self.typed(state) is state and type(state) is dict and self.fits is not None:
            self.fits(state)  # A dict that stays one, for a TypedDict: nothing else checks its keys.

    async def load(self, address: Address, known: Checkpoint | None = None) -> Loaded | None:
        """Load the checkpoint that `address` names.

        If it is `known` and unchanged, its state is `NOT_LOADED`.
        """
        if known is not None and known.version is not None:
            page = await self.page(
                address, checkpoint_id=address.checkpoint_id, detail="state", known=known.checkpoint_id
            )
            if not page.checkpoints:
                return None
            record = page.checkpoints[0]
            if record.checkpoint_id != known.checkpoint_id:
                return self.decode_page(address, page)
            if version_of(page.basis, record.body) == known.version:
                return Loaded(record, NOT_LOADED, page.basis)
        else:
            hot = await self._load_hot(address)
            if hot is not None:
                return hot
        page = await self.page(address, checkpoint_id=address.checkpoint_id, detail="state")
        return self.decode_page(address, page) if page.checkpoints else None

    async def stored(self, address: Address, checkpoint_id: str) -> Checkpoint[Any] | None:
        """Return a checkpoint without its state, or `None` if it does not exist.

        The basis is not noted: a late write to a thread that was deleted meanwhile must still be refused.
        """
        query = CheckpointQuery(
            thread_id=address.thread_id,
            user=address.user,
            namespace=address.namespace,
            checkpoint_id=checkpoint_id,
            detail="body",
        )
        page = await self._engine.retry(lambda: self._engine.storage.checkpoints(query), "load")
        if not page.checkpoints:
            return None
        record = page.checkpoints[0]
        version = version_of(page.basis, record.body)
        return Checkpoint(metadata=self.metadata(address, record), state=NOT_LOADED, version=version)

    async def _load_hot(self, address: Address) -> Loaded | None:
        """Load the checkpoint from memory if this process wrote or loaded it last; the storage confirms that.

        If the storage has another checkpoint, the same read returned its values.
        """
        known = self.known_view(address)
        if known is None or known[0].memo is None:
            return None
        page = await self.page(
            address, checkpoint_id=address.checkpoint_id, detail="state", known=known[0].checkpoint_id
        )
        if page.checkpoints and page.checkpoints[0].checkpoint_id != known[0].checkpoint_id:
            return self.decode_page(address, page)
        return self._held(*known, page)

    async def load_held(self, address: Address) -> Loaded | None:
        """Load the checkpoint if this process wrote or loaded it last and it is still there, without reading values."""
        known = self.known_view(address)
        if known is None:
            return None
        return self._held(*known, await self.page(address, checkpoint_id=address.checkpoint_id, detail="body"))

    def _held(self, view: View, basis: Basis, page: CheckpointPage) -> Loaded | None:
        """Decode the first checkpoint of `page` if it is the known one."""
        if not page.checkpoints or page.checkpoints[0].checkpoint_id != view.checkpoint_id:
            return None
        record = page.checkpoints[0]
        if record.body != view.body or page.basis is None or page.basis.incarnation != basis.incarnation:
            # A thread that was deleted and created again may use the same numbers for other values.
            return None
        try:
            state, _ = self._codec.decode_with_memo(record.body, OpenRows(()), view.memo)
            return Loaded(record, self.typed(state), page.basis)
        except CorruptRecordError:
            # The memo is incomplete: the values must be read.
            return None

    def decode_page(self, address: Address, page: CheckpointPage) -> Loaded:
        """Decode the first checkpoint of a page that has its values, and remember it."""
        record = page.checkpoints[0]
        with _named(address, record):
            state, memo = self._codec.decode_with_memo(record.body, self._codec.open_rows(page.rows))
            state = self.typed(state)
        if page.basis is not None:
            index = self._engine.index_for_reading(address.thread_id, page.basis)
            if not index.views:
                index.loose = small_rows_at_the_end(page.rows)
            index.learn(page.rows)
            index.views[address.namespace] = View(
                checkpoint_id=record.checkpoint_id, body=record.body, size=record.size, memo=memo
            )
            self._engine.indexes.put(address.thread_id, index)
        return Loaded(record, state, page.basis)

    async def page(
        self,
        address: Address,
        *,
        checkpoint_id: str | None = None,
        limit: int | None = 1,
        detail: Detail = "info",
        known: str | None = None,
    ) -> CheckpointPage:
        """Read checkpoints of the address's namespace, newest first, and note the basis."""
        query = CheckpointQuery(
            thread_id=address.thread_id,
            user=address.user,
            namespace=address.namespace,
            checkpoint_id=checkpoint_id,
            limit=limit,
            detail=detail,
            known=known,
        )
        return await self._read(address, query)

    async def _read(self, address: Address, query: CheckpointQuery) -> CheckpointPage:
        engine = self._engine
        page = await engine.retry(lambda: engine.storage.checkpoints(query), "load")
        engine.note_basis(address, page.basis)
        return page

    async def matching(self, address: Address, wanted: CheckpointFilter, *, detail: Detail) -> AsyncIterator[Matches]:
        """Yield the checkpoints that match, newest first, page by page.

        Raises ConfigError if `before` names no checkpoint.
        """
        left = wanted.limit
        # Pages continue by sequence: an id may name a checkpoint in more than one namespace.
        before: str | None = wanted.before
        before_sequence: int | None = None
        while left is None or left > 0:
            size = PAGE if wanted.where else left
            query = CheckpointQuery(
                thread_id=address.thread_id,
                user=address.user,
                namespace=None if wanted.namespaces == "all" else address.namespace,
                before=before,
                before_sequence=before_sequence,
                run_id=wanted.run_id,
                limit=size,
                detail=detail,
            )
            page = await self._read(address, query)
            if before is not None and not page.checkpoints:
                await self._check_cursor(address, query, before)
            infos = [
                checkpoint_info(self._codec, self._engine.users, address.thread_id, address.user, record)
                for record in page.checkpoints
            ]
            found = list(zip(infos, page.checkpoints, strict=True))
            if wanted.where:
                found = [pair for pair in found if wanted.matches(pair[0])][:left]
            yield Matches(found, self._codec.open_rows(page.rows))
            if size is None or len(infos) < size:
                return
            left = None if left is None else left - len(found)
            before, before_sequence = None, page.checkpoints[-1].sequence

    async def _check_cursor(self, address: Address, query: CheckpointQuery, before: str) -> None:
        """Raise ConfigError if the cursor names no checkpoint: an empty page would look like the end."""
        named = replace(query, before=None, run_id=None, checkpoint_id=before, limit=1, detail="info")
        if not (await self._read(address, named)).checkpoints:
            await self._engine.check_owner(address)
            raise ConfigError(
                f"before names checkpoint {before!r}, which thread {address.thread_id!r} does not have: it may have been "
                "removed"
            )

    def decode(self, address: Address, record: CheckpointRecord, rows: OpenRows) -> Any:
        """The state of a checkpoint. Errors name it."""
        with _named(address, record):
            return self.typed(self._codec.decode(record.body, rows))

    def metadata(self, address: Address, record: CheckpointRecord) -> CheckpointMetadata:
        """The metadata of a checkpoint. Errors name it."""
        with _named(address, record):
            return checkpoint_metadata(self._codec, self._engine.users, address.thread_id, address.user, record)

    def known_view(self, address: Address) -> tuple[View, Basis] | None:
        """The checkpoint that `address` names and its log, if this process wrote or loaded it last."""
        index = self._engine.indexes.get(address.thread_id)
        view = index.views.get(address.namespace) if index is not None else None
        if index is None or view is None or address.checkpoint_id not in (None, view.checkpoint_id):
            return None
        return view, index.basis

    async def read_view(self, address: Address) -> tuple[View, Basis] | None:
        """Read the body of the checkpoint to change, and its log; `None` if the thread has no checkpoint."""
        engine = self._engine
        known = await engine.known_basis(address.thread_id, address.user)
        page = await self.page(address, checkpoint_id=address.checkpoint_id, detail="body")
        if known is not None and (page.basis is None or page.basis.incarnation != known.incarnation):
            # The caller is a writer, so the basis that it saw before this read still counts.
            engine.known.put((address.thread_id, address.user), known)
            raise deleted(address.thread_id)
        if not page.checkpoints or page.basis is None:
            if address.checkpoint_id is not None:
                await engine.check_owner(address)
                raise missing_checkpoint(address)
            return None
        record = page.checkpoints[0]
        with _named(address, record):
            pass
        return View(checkpoint_id=record.checkpoint_id, body=record.body, size=record.size, memo=None), page.basis

    async def rows_to_edit(self, address: Address, body: bytes) -> tuple[ValueRow, ...]:
        """The value rows that an edit of `body` needs."""
        needed = self._codec.needed_to_edit(body)
        if not needed:
            return ()
        query = ValueQuery(thread_id=address.thread_id, user=address.user, ranges=needed, data=True)
        return (await self._engine.values(query)).rows


def missing_checkpoint(address: Address) -> ConflictError:
    return ConflictError(
        f"checkpoint {address.checkpoint_id!r} of thread {address.thread_id!r} does not exist (any more)",
        thread_id=address.thread_id,
        checkpoint_id=address.checkpoint_id,
    )


@contextmanager
def _named(address: Address, record: CheckpointRecord) -> Iterator[None]:
    """Add the names of the thread and the checkpoint to errors about stored data."""
    try:
        check_columns(record)
        yield
    except ConfigError as error:
        raise ConfigError(
            f"checkpoint {record.checkpoint_id!r} of thread {address.thread_id!r}: {error}",
            **{**error.facts, "thread_id": address.thread_id, "checkpoint_id": record.checkpoint_id},
        ) from error
    except UNREADABLE as error:
        raise unreadable(address, record.checkpoint_id, error) from error


def unreadable(
    address: Address, checkpoint_id: str | None, error: CorruptRecordError | EncryptionError
) -> CorruptRecordError | EncryptionError:
    """`error` with the names of the thread and the checkpoint."""
    if isinstance(error, EncryptionError):
        return EncryptionError(
            f"checkpoint {checkpoint_id!r} of thread {address.thread_id!r}: {error}",
            thread_id=address.thread_id,
            checkpoint_id=checkpoint_id,
        )
    return CorruptRecordError(
        f"checkpoint {checkpoint_id!r} of thread {address.thread_id!r} is damaged: {error}; other checkpoints "
        f"are not affected (list them with list_checkpoints), and repair makes a new one from the messages",
        thread_id=address.thread_id,
        checkpoint_id=checkpoint_id,
    )

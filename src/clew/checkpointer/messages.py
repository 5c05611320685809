"""The conversation record: the messages of a thread."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from msgspec.structs import replace

from clew.checkpointer.arguments import checked_ids, checked_mapping, checked_search, keyed_id
from clew.checkpointer.blocking import blocking
from clew.checkpointer.engine import Engine
from clew.checkpointer.records import listed_message, message_of, message_records
from clew.checkpointer.runner import Runner
from clew.checkpointer.saver import Saver
from clew.checkpointer.windows import CountTokens, Window, checked_window, fitting
from clew.dialects.conversation import Conversation
from clew.dialects.formats import Dialect, checked_dialect
from clew.dialects.messages import received, render
from clew.errors import ConfigError, CorruptRecordError, EncryptionError, shown
from clew.model.commit import HEAD, Removal
from clew.model.config import Address, Config, checked_text
from clew.model.message import Message, timed
from clew.model.queries import MessageQuery, ValueQuery
from clew.model.records import MessageRecord
from clew.storage.branches import points_of

Branches = Literal["head", "all"]
OnOtherBranches = Literal["move", "replace"]

_log = logging.getLogger("clew")


class MessageMethods:
    """Methods of the conversation record."""

    _runner: Runner
    _engine: Engine
    _saver: Saver

    async def aput_messages(
        self,
        config: Config | str,
        messages: Sequence[Message | Mapping[str, Any] | Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        on_other_branches: OnOtherBranches = "move",
        idempotency_key: str | None = None,
    ) -> None:
        """Append messages, all or none. A message with an id that exists replaces that message in its place.

        If only other branches have that message, `on_other_branches` decides: "move" removes it there and appends
        it to the conversation of the head, as in a save with a checkpoint. "replace" changes it where it is, for
        example to redact it.

        They come after the head, on its branch; a `checkpoint_id` in the config is ignored. (To add
        messages to another branch, go there first: `arewind`, or `aput_checkpoint` with messages.)
        Messages of OpenAI (chat messages and Responses items), Anthropic, Gemini, LangChain and Pydantic
        AI are taken as they are, as objects or dicts, and kept whole in `Message.raw`. `metadata` is added
        to that of each message.

        `idempotency_key` names this call. A repeated call with the same key changes nothing while the first
        one is among the thread's last 256 commits.
        """
        address = self._engine.address(config)
        more = checked_mapping(metadata, "metadata")
        if on_other_branches not in ("move", "replace"):
            raise ConfigError(f'on_other_branches must be "move" or "replace", not {shown(on_other_branches)}')
        records = message_records(self._engine.codec, messages, more, address.run_id, self._engine.clock)
        if not records:
            return
        size = sum(len(record.data) for record in records)
        commit = self._engine.new_commit(address, messages=records, move_messages=on_other_branches == "move")
        keyed = keyed_id(idempotency_key, "put_messages", address.thread_id)
        await self._saver.apply(address, commit if keyed is None else replace(commit, commit_id=keyed), size)

    async def aget_message(self, config: Config | str, message_id: str) -> Message | None:
        """Return one message, on any branch, or `None`."""
        address = self._engine.address(config)
        query = MessageQuery(
            thread_id=address.thread_id, user=address.user, message_id=checked_text("message_id", message_id)
        )
        records = await self._read_messages(address, query)
        return self._message(address, records[0]) if records else None

    @overload
    async def alist_messages(
        self,
        config: Config | str,
        search: str | None = None,
        offset: int = 0,
        limit: int | None = None,
        *,
        branches: Branches = "head",
        last: int | None = None,
        before: Message | str | None = None,
        after: Message | str | None = None,
        max_tokens: int | None = None,
        count_tokens: CountTokens | None = None,
    ) -> list[Message]: ...
    @overload
    async def alist_messages(
        self,
        config: Config | str,
        search: str | None = None,
        offset: int = 0,
        limit: int | None = None,
        *,
        branches: Branches = "head",
        as_: Dialect,
        last: int | None = None,
        before: Message | str | None = None,
        after: Message | str | None = None,
        max_tokens: int | None = None,
        count_tokens: CountTokens | None = None,
    ) -> Conversation: ...
    async def alist_messages(
        self,
        config: Config | str,
        search: str | None = None,
        offset: int = 0,
        limit: int | None = None,
        *,
        branches: Branches = "head",
        as_: Dialect | None = None,
        last: int | None = None,
        before: Message | str | None = None,
        after: Message | str | None = None,
        max_tokens: int | None = None,
        count_tokens: CountTokens | None = None,
    ) -> list[Message] | Conversation:
        """List the messages of the conversation in order: those of the head's branch, or those up to
        the config's `checkpoint_id` on its branch (none, if there is no such checkpoint).

        `branches="all"` lists every message of the thread, on all branches. `search` finds
        a substring in any language, case-insensitively, also in names and arguments of tool calls and in
        tools' results; offset and limit count the messages that are found. A damaged message keeps its place with the
        role "damaged"; its metadata says what is wrong.

        `last` returns the newest messages, in order. `before` and `after` are messages, or their ids, and
        select the messages before the one and after the other: `last=50, before=messages[0]` is the page
        before. Other writes don't disturb these pages. `max_tokens` returns the newest messages that
        fit, by the caller's `count_tokens(message)`. The system messages at the beginning are kept, and
        counted first. A tool's result is never separated from its call: if the call does not fit, the
        result is left out.

        `as_` renders the conversation in a provider's format: "openai", "openai-responses",
        "anthropic", "gemini" or "langchain" (its own objects). Messages that have this format are
        returned as they came in. Tool calls keep their results. `left_out` of the returned list says
        what the format can't express, and `system` has the system messages if the format takes them
        as a parameter.
        """
        window = checked_window(
            search=search,
            offset=offset,
            limit=limit,
            last=last,
            before=before,
            after=after,
            max_tokens=max_tokens,
            count_tokens=count_tokens,
        )
        dialect = None if as_ is None else checked_dialect(as_)
        address = self._engine.address(config)
        if branches not in ("head", "all"):
            raise ConfigError(f'branches must be "head" or "all", not {shown(branches)}')
        query = MessageQuery(
            thread_id=address.thread_id,
            user=address.user,
            branch=None if branches == "all" else address.checkpoint_id or HEAD,
            namespace=address.namespace,
            search=checked_search(search),
        )

        async def read(query: MessageQuery) -> list[Message]:
            records = await self._read_messages(address, query)
            return [listed_message(self._engine.codec, record) for record in records]

        if window.max_tokens is None:
            found = await read(window.applied_to(query))
        else:
            found = await fitting(query, window, read)
        if not found:
            await self._check_cursors(address, window)
        if dialect is None:
            return found
        conversation = render(found, dialect)
        for line in conversation.left_out:
            _log.warning("conversation rendered with losses: thread %r, %s", address.thread_id, line)
        return conversation

    async def adelete_message(self, config: Config | str, message_id: str) -> bool:
        """Remove one message. Returns whether it existed."""
        address = self._engine.address(config)
        applied = await self._engine.remove(address, Removal(messages=(checked_text("message_id", message_id),)))
        return applied.removed > 0 or applied.repeated

    async def ashared_messages(self, config: Config | str, message_ids: Iterable[str]) -> list[str]:
        """Return those of `message_ids` that are on the head's branch and on other branches, too.

        Removing one of them (`adelete_message`, `remove_messages`) also changes the conversations of the
        other branches.
        """
        address = self._engine.address(config)
        wanted = frozenset(checked_ids(message_ids, "message_ids"))
        log = await self._engine.values(ValueQuery(thread_id=address.thread_id, user=address.user, ranges=()))
        points = points_of(address.thread_id, log)
        if not points or not wanted:
            return []
        begun = points[-1][1]
        query = MessageQuery(thread_id=address.thread_id, user=address.user, branch=HEAD, limit=None)
        records = await self._read_messages(address, query)
        return [each.message_id for each in records if each.message_id in wanted and each.sequence < begun]

    aget_messages = alist_messages
    get_messages = blocking(alist_messages, "get_messages")
    if TYPE_CHECKING:

        @overload
        def list_messages(
            self,
            config: Config | str,
            search: str | None = None,
            offset: int = 0,
            limit: int | None = None,
            *,
            branches: Branches = "head",
            last: int | None = None,
            before: Message | str | None = None,
            after: Message | str | None = None,
            max_tokens: int | None = None,
            count_tokens: CountTokens | None = None,
        ) -> list[Message]: ...
        @overload
        def list_messages(
            self,
            config: Config | str,
            search: str | None = None,
            offset: int = 0,
            limit: int | None = None,
            *,
            branches: Branches = "head",
            as_: Dialect,
            last: int | None = None,
            before: Message | str | None = None,
            after: Message | str | None = None,
            max_tokens: int | None = None,
            count_tokens: CountTokens | None = None,
        ) -> Conversation: ...
        def list_messages(
            self,
            config: Config | str,
            search: str | None = None,
            offset: int = 0,
            limit: int | None = None,
            **more: Any,
        ) -> list[Message] | Conversation:
            """List the messages of the conversation in order."""
    else:
        list_messages = blocking(alist_messages)

    put_messages = blocking(aput_messages)
    get_message = blocking(aget_message)
    delete_message = blocking(adelete_message)
    shared_messages = blocking(ashared_messages)

    def _received(self, message: Any, name: str) -> Message:
        """Return `message` as it would be stored now."""
        return timed(received(message, name), self._engine.clock)

    async def _read_messages(self, address: Address, query: MessageQuery) -> list[MessageRecord]:
        engine = self._engine
        await engine.ensure_basis(address)
        return await engine.retry(lambda: engine.storage.messages(query))

    async def _check_cursors(self, address: Address, window: Window) -> None:
        """Raise ConfigError if a cursor names no message: an empty page would look like the end."""
        for name, cursor in (("before", window.before), ("after", window.after)):
            query = MessageQuery(thread_id=address.thread_id, user=address.user, message_id=cursor)
            if cursor is not None and not await self._read_messages(address, query):
                await self._engine.check_owner(address)
                raise ConfigError(
                    f"{name} names message {cursor!r}, which thread {address.thread_id!r} does not have: it may have "
                    "been removed"
                )

    def _message(self, address: Address, record: MessageRecord) -> Message:
        try:
            return message_of(self._engine.codec, record)
        except CorruptRecordError as error:
            raise CorruptRecordError(
                f"message {record.message_id!r} of thread {address.thread_id!r} is damaged: {error}",
                thread_id=address.thread_id,
                message_id=record.message_id,
            ) from error
        except EncryptionError as error:
            raise EncryptionError(
                f"message {record.message_id!r} of thread {address.thread_id!r}: {error}",
                thread_id=address.thread_id,
                message_id=record.message_id,
            ) from error

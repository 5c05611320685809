"""Agentflow's checkpointer on any Clew store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from typing_extensions import TypeVar

from clew.adapters.agentflow import ledger
from clew.adapters.agentflow.addresses import address_of, key_of, user_of
from clew.adapters.agentflow.bases import Base, gone
from clew.adapters.agentflow.cache import TimedValues
from clew.adapters.agentflow.errors import MessageNotFoundError, translated
from clew.adapters.agentflow.framework import (
    RESUME_AFTER_NODE_KEY,
    STATE_FORMAT_VERSION,
    STATE_META_KEY,
    STOP_REQUEST_NAMESPACE,
    AgentState,
    BaseCheckpointer,
    Message,
    StopRequestStatus,
    ThreadInfo,
)
from clew.adapters.agentflow.isolation import keep_apart
from clew.adapters.agentflow.models import described, plain, recorded, restored
from clew.adapters.agentflow.saves import Saves
from clew.adapters.texts import save_cleaned
from clew.checkpointer import base
from clew.checkpointer.blocking import blocking
from clew.clock import SYSTEM_CLOCK, Clock
from clew.errors import ConfigError
from clew.factory import connect
from clew.model.commit import OnConflict, checked_conflict
from clew.model.config import ANY_USER
from clew.model.thread import ThreadInfo as Description

StateT = TypeVar("StateT", bound=AgentState, default=AgentState)

_CACHED_AT: Final = "__clew_head__"
"""Key, in a cached state, of the id that the head had at that time."""


class ClewCheckpointer(BaseCheckpointer[StateT]):
    """Stores Agentflow's states, messages and threads in `store`, as ordinary Clew threads.

    `store` is a checkpointer, which the caller has to release, or a URL to connect to. With
    `record_messages=False`, messages are stored in the state only, and not in the searchable
    record.

    `on_conflict` decides what happens when two runs start from the same state of a thread. With
    "reject", the later save raises Agentflow's StaleStateError and saves nothing. With "branch",
    the checkpoints of both are kept, and the last save is the thread's state.

    Only the user in `user_id` can use a thread. A config without `user_id` means "anonymous", as in Agentflow.
    Errors are both Clew's and Agentflow's (`clew.adapters.agentflow.errors`).
    """

    def __init__(
        self,
        store: base.BaseCheckpointer | str,
        *,
        record_messages: bool = True,
        on_conflict: OnConflict = "reject",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        on_conflict = checked_conflict(on_conflict)
        self.store = connect(store) if isinstance(store, str) else store
        if not isinstance(self.store, base.BaseCheckpointer):
            raise ConfigError(f"ClewCheckpointer takes a Clew checkpointer or a URL, not {type(store).__name__}")
        self._owns_store = isinstance(store, str)
        self._cache = TimedValues(self.store, clock)
        # The sync methods run like the store's own.
        self._runner = self.store
        self._saves = Saves(self.store, record_messages=record_messages, on_conflict=on_conflict)
        self._bases = self._saves.bases

    # -- Lifecycle

    keeps_apart = True
    """Whether its runs are isolated from plain graphs with other checkpointers (`isolation.py`)."""

    def bind_state_type(self, state_type: type[AgentState]) -> None:
        """Load states as `state_type`. Agentflow calls this when it compiles a graph."""
        super().bind_state_type(state_type)
        keep_apart(self)

    @translated
    async def asetup(self) -> None:
        """Prepare the store. Optional: the first use does it."""
        await self.store.asetup()

    @translated
    async def arelease(self) -> bool:
        """Close the store if this object opened it."""
        if self._owns_store:
            await self.store.arelease()
        return True

    # -- State

    def _encode_state(self, state: AgentState) -> dict[str, Any]:
        header = {"format": STATE_FORMAT_VERSION, "class": type(state).__name__}
        progress = state.execution_meta
        if isinstance(progress.thread_id, int):
            # Agentflow copies the config's id unchecked. Loading the model would refuse a number.
            named = progress.model_copy(update={"thread_id": str(progress.thread_id)})
            state = state.model_copy(update={"execution_meta": named})
        return {**plain(state), STATE_META_KEY: header}

    def _decode_state(self, data: Any) -> StateT:
        if not isinstance(data, Mapping) or STATE_META_KEY not in data:
            raise ConfigError("the thread's state was not saved by Agentflow; run the graph on another thread")
        state: StateT = super()._decode_state(dict(data))
        return state

    @translated
    async def aput_checkpoint(
        self,
        config: dict[str, Any],
        state: StateT,
        messages: list[Message] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> StateT:
        """Save `state` and `messages` atomically as the thread's new head. Returns `state`."""
        await self._saves.save(config, state, self._encode_state(state), "after", messages or (), metadata)
        return state

    @translated
    async def aput_state(self, config: dict[str, Any], state: StateT) -> StateT:
        """Save `state` as the thread's new head. Returns `state`."""
        return await self.aput_checkpoint(config, state)

    @translated
    async def aget_state(self, config: dict[str, Any]) -> StateT | None:
        """Return the thread's state, or `None`. It becomes the base of the config's next save."""
        key = key_of(config)
        head = await self.store.aget_checkpoint(address_of(config))
        if head is None:
            if self._bases.is_running(config, key) and self._bases.of(config, key) != Base(None):
                # The graph reads during a run, and would take `None` for a new thread.
                raise gone(config)
            self._bases.read(config, key, None)
            return None
        state = self._decode_state(head.state)
        self._saves.loaded(config, head)
        if "is_stream" in config and _tools_are_done(state, head.metadata.metadata):
            config[RESUME_AFTER_NODE_KEY] = state.execution_meta.current_node
        return state

    @translated
    async def aclear_state(self, config: dict[str, Any]) -> bool:
        """Remove the thread's checkpoints and tool results. Messages and description stay."""
        await self.store.aclear_state(address_of(config))
        self._saves.forget(config)
        return True

    @translated
    async def aput_state_cache(self, config: dict[str, Any], state: StateT) -> StateT:
        """Cache `state` for the running graph. If the run has progressed, also save a checkpoint.

        Only here does the graph name the node that runs next. The state in `aput_checkpoint` names
        the finished node, which would run again after a crash. A streaming graph saves its steps
        only here.
        """
        data = self._encode_state(state)
        known = self._saves.known_at(config)
        progress = data["execution_meta"]
        wanted = config.get("durable_checkpoint_every_step", True)
        # A stop request comes from outside of the run, and its copy of the state may be older than
        # the head.
        stopping = state.execution_meta.stop_current_execution == StopRequestStatus.STOP_REQUESTED
        if wanted and not stopping and (known is None or known.progress != progress):
            is_new = known is None or known.progress.get("current_node") != progress["current_node"]
            await self._saves.save(config, state, data, "before" if is_new else "after")
        base = self._bases.of(config, key_of(config))
        data[_CACHED_AT] = await self._saves.head_id(config) if base is None else base.checkpoint_id
        await save_cleaned(partial(self.store.aput_state_cache, address_of(config)), data)
        return state

    @translated
    async def aget_state_cache(self, config: dict[str, Any]) -> StateT | None:
        """Return the cached state; `None` if any process has saved the thread since."""
        data = await self.store.aget_state_cache(address_of(config))
        if data is None:
            return None
        key, cached_at = key_of(config), data.pop(_CACHED_AT, None)
        # A run may cache its state right after another run saved. Then the state belongs to an older head.
        if self._bases.is_running(config, key):
            if Base(cached_at) != self._bases.of(config, key):
                return None
        elif cached_at != await self._saves.head_id(config):
            return None
        self._bases.read(config, key, cached_at)
        return self._decode_state(data)

    # -- Shared cache and stop requests

    def _stop_request_key(self, config: dict[str, Any]) -> str:
        # Joining with a colon would confuse thread "a" of user "b:c" with thread "a:b" of user "c".
        return json.dumps(key_of(config))

    @translated
    async def aclear_stop_request(self, config: dict[str, Any]) -> Any:
        """Remove a stop request. A run calls this right before it reads its first state."""
        if "is_stream" in config:
            # Only the configs of runs have this key.
            self._bases.begin(config, key_of(config))
        return await self._clear_stop_request(config)

    async def _clear_stop_request(self, config: dict[str, Any]) -> Any:
        return await self._cache.clear(STOP_REQUEST_NAMESPACE, self._stop_request_key(config))

    @translated
    async def aput_cache_value(self, namespace: str, key: str, value: Any, ttl_seconds: int | None = None) -> Any:
        """Cache `value` for all processes, for `ttl_seconds` or without a limit. Returns it."""
        await self._cache.put(namespace, key, value, ttl_seconds)
        return value

    @translated
    async def aget_cache_value(self, namespace: str, key: str) -> Any:
        """Return the value that any process put last; `None` if it is missing or has expired."""
        return await self._cache.get(namespace, key)

    @translated
    async def aclear_cache_value(self, namespace: str, key: str) -> Any:
        """Remove a value. Returns it, or `None` if it is missing or has expired."""
        return await self._cache.clear(namespace, key)

    @translated
    async def alist_cache_keys(self, namespace: str, prefix: str | None = None) -> list[str]:
        """Return the keys of a namespace whose values have not expired."""
        return [key for key in await self._cache.keys(namespace) if key.startswith(prefix or "")]

    # -- Results of tools

    @translated
    async def aget_tool_result(self, config: dict[str, Any], tool_call_id: str) -> dict[str, Any] | None:
        """Return the recorded result of the tool call; `None` if the user's thread has none."""
        results = await self.store.aget_state(address_of(config) | ledger.namespace(tool_call_id))
        found = results.get(tool_call_id) if results is not None else None
        return None if found is None else ledger.unpacked(found, self.state_type)

    @translated
    async def aput_tool_result(self, config: dict[str, Any], tool_call_id: str, result: dict[str, Any]) -> bool:
        """Record a tool result, so that the call is not repeated. The first result wins."""
        entry = {tool_call_id: ledger.packed(result)}
        place = address_of(config) | ledger.namespace(tool_call_id)
        await save_cleaned(partial(ledger.add, self.store, place), entry)
        return True

    # -- Messages

    @translated
    async def aput_messages(
        self, config: dict[str, Any], messages: list[Message], metadata: dict[str, Any] | None = None
    ) -> bool:
        """Append messages, all or none. A known id replaces its message in place."""
        records = [recorded(message) for message in messages]
        await save_cleaned(lambda value: self.store.aput_messages(address_of(config), value, metadata), records)
        return True

    @translated
    async def aget_message(self, config: dict[str, Any], message_id: str | int) -> Message:
        """Return one message. Raises MessageNotFoundError (an IndexError and a ValueError)."""
        record = await self.store.aget_message(address_of(config), str(message_id))
        if record is None:
            raise MessageNotFoundError(f"thread {config.get('thread_id')!r} has no message {message_id!r}")
        return restored(record)

    @translated
    async def alist_messages(
        self,
        config: dict[str, Any],
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> list[Message]:
        """Return messages in order. `search` finds a part of the text, ignoring case."""
        records = await self.store.alist_messages(address_of(config), search, offset or 0, limit)
        return [restored(record) for record in records]

    @translated
    async def adelete_message(self, config: dict[str, Any], message_id: str | int) -> bool:
        """Remove one message. Raises MessageNotFoundError (an IndexError and a ValueError)."""
        if not await self.store.adelete_message(address_of(config), str(message_id)):
            raise MessageNotFoundError(f"thread {config.get('thread_id')!r} has no message {message_id!r}")
        return True

    # -- Threads

    @translated
    async def aput_thread(self, config: dict[str, Any], thread_info: ThreadInfo) -> bool:
        """Describe the thread. Its owner is the config's user, not the one in `thread_info`.

        Raises ConfigError if `thread_info` and the config name different threads.
        """
        address = address_of({"thread_id": thread_info.thread_id, **config})
        if str(thread_info.thread_id) != address["thread_id"]:
            raise ConfigError(
                f"the ThreadInfo names thread {thread_info.thread_id!r}, and the config {address['thread_id']!r}"
            )
        known = await self.store.aget_thread(address)
        info = Description(
            thread_id=address["thread_id"],
            thread_name=thread_info.thread_name,
            tags=known.tags if known is not None else (),
            metadata=thread_info.metadata or {},
            run_id=thread_info.run_id,
        )
        await self.store.aput_thread(address, info)
        return True

    @translated
    async def aget_thread(self, config: dict[str, Any]) -> ThreadInfo | None:
        """Return the thread's description, or `None`."""
        thread = await self.store.aget_thread(address_of(config))
        return None if thread is None else described(thread)

    @translated
    async def alist_threads(
        self,
        config: dict[str, Any],
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> list[ThreadInfo]:
        """Return the user's threads, last active first. `search` matches ids, names and tags."""
        user = {"user_id": user_of(config)}
        return [described(each) for each in await self.store.alist_threads(user, search, offset or 0, limit)]

    @translated
    async def aclean_thread(self, config: dict[str, Any]) -> bool:
        """Remove the thread with its states, messages, tool results and stop request.

        Returns whether it existed. Raises PermissionDeniedError if it belongs to another user.
        """
        was_there = await self.store.aget_thread(address_of(config)) is not None
        await self.store.adelete_thread(address_of(config))
        self._saves.forget(config)
        await self._clear_stop_request(config)
        return was_there

    @translated
    async def aget_thread_owner(self, thread_id: str | int) -> str | None:
        """Return the thread's owner for any caller; `None` if there is no thread or no owner."""
        thread = await self.store.aget_thread({"thread_id": str(thread_id), "user_id": ANY_USER})
        return None if thread is None or thread.user_id is None else str(thread.user_id)

    # -- Sync twins. Agentflow's own start an event loop for each call, and deadlock inside a running one.

    setup = blocking(asetup)
    release = blocking(arelease)
    put_checkpoint = blocking(aput_checkpoint)
    put_state = blocking(aput_state)
    get_state = blocking(aget_state)
    clear_state = blocking(aclear_state)
    put_state_cache = blocking(aput_state_cache)
    get_state_cache = blocking(aget_state_cache)
    put_cache_value = blocking(aput_cache_value)
    get_cache_value = blocking(aget_cache_value)
    clear_cache_value = blocking(aclear_cache_value)
    list_cache_keys = blocking(alist_cache_keys)
    request_stop: Any = blocking(BaseCheckpointer.arequest_stop)
    is_stop_requested: Any = blocking(BaseCheckpointer.ais_stop_requested)
    clear_stop_request = blocking(aclear_stop_request)
    get_tool_result = blocking(aget_tool_result)
    put_tool_result = blocking(aput_tool_result)
    put_messages = blocking(aput_messages)
    get_message = blocking(aget_message)
    list_messages = blocking(alist_messages)
    delete_message = blocking(adelete_message)
    put_thread = blocking(aput_thread)
    get_thread = blocking(aget_thread)
    list_threads = blocking(alist_threads)
    clean_thread = blocking(aclean_thread)
    get_thread_owner = blocking(aget_thread_owner)


def _tools_are_done(state: AgentState, metadata: Mapping[str, Any]) -> bool:
    """Return whether the run crashed after a node that ran tools, before the next node was named.

    Running that node again would find no tool calls and fail every time. Any other node may choose
    the next one itself, so it runs again.
    """
    last = state.context[-1] if state.context else None
    return state.is_running() and metadata.get("saved") == "after" and last is not None and last.role == "tool"

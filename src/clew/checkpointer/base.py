"""The checkpointer: all groups of methods, options and lifecycle."""

from __future__ import annotations

import asyncio
import logging
import typing
from collections.abc import Coroutine
from typing import Any, Literal, Self, TypeVar

from clew.checkpointer.arguments import checked_policy
from clew.checkpointer.attachments import AttachmentMethods
from clew.checkpointer.autocleanup import AutoCleanup
from clew.checkpointer.background import Background, SettledStorage
from clew.checkpointer.blocking import blocking, show_public_names
from clew.checkpointer.cache import SharedStateCache, StateCache, VolatileCache
from clew.checkpointer.cleanup import CleanupMethods
from clew.checkpointer.copies import CopyMethods
from clew.checkpointer.engine import Engine
from clew.checkpointer.expiry import ClockWatch
from clew.checkpointer.leases import LeaseMethods
from clew.checkpointer.loader import Loader
from clew.checkpointer.messages import MessageMethods
from clew.checkpointer.operations import OperationMethods
from clew.checkpointer.released import ReleasedStorage
from clew.checkpointer.reseal import ResealMethods
from clew.checkpointer.rewinds import RewindMethods
from clew.checkpointer.runner import InlineRunner, LoopRunner, Runner
from clew.checkpointer.saver import Saver
from clew.checkpointer.search import SearchMethods
from clew.checkpointer.state import StateMethods
from clew.checkpointer.sweeper import Sweeper
from clew.checkpointer.threads import ThreadMethods
from clew.checkpointer.turns import TurnMethods
from clew.checkpointer.users import Users
from clew.checkpointer.verification import VerifyMethods
from clew.checkpointer.watch import Watchers
from clew.checkpointer.watching import WatchMethods
from clew.clock import SYSTEM_CLOCK, Clock
from clew.codec.registry import DEFAULT_REGISTRY, Registry
from clew.codec.state import StateCodec
from clew.codec.state_type import fields_check_of, loader_of
from clew.codec.tags import PLAIN_TYPES
from clew.errors import ClewError, ConfigError, MissingExtraError, shown
from clew.model.config import ANY_USER, Address
from clew.model.generic import StateT
from clew.model.retention import RetentionPolicy
from clew.model.status import Status
from clew.model.telemetry import Telemetry, checked_telemetry
from clew.storage.encrypted import ungated
from clew.storage.execution import may_block
from clew.storage.protocol import Storage
from clew.storage.wrapper import StorageWrapper, shared_states
from clew.validation import checked_clock, checked_flag, checked_number

R = TypeVar("R")
_log = logging.getLogger("clew")
Durability = Literal["sync", "background"]

MAX_CACHED_THREADS, CACHE_TTL = 1000, 86400
"""Defaults of a cache: how many threads it keeps, and for how many seconds."""
STATUS_TIMEOUT = 2.0
"""How many seconds `astatus` waits for a store before it counts as down."""


class Checkpointer(
    StateMethods[StateT],
    AttachmentMethods,
    CopyMethods,
    RewindMethods[StateT],
    MessageMethods,
    SearchMethods,
    ThreadMethods[StateT],
    LeaseMethods,
    TurnMethods[StateT],
    OperationMethods[StateT],
    VerifyMethods,
    CleanupMethods,
    ResealMethods,
    WatchMethods,
):
    """Durable session memory over any storage.

    One object serves async code, sync code, several threads and several event loops. Every async
    method `aX` has a sync twin `X` with the same parameters. `clew.connect` makes one. The options are:

    - `state_type`: the class that states are loaded as. A `Checkpointer[Trip]` loads `Trip`s.
    - `max_state_bytes`: the largest state that can be saved.
    - `max_index_bytes`: how much memory the writer's index may use.
    - `max_cached_threads`, `cache_ttl`: bounds of the cache of `put_state_cache`.
    - `retry_for`: how many seconds a call is retried after transient errors.
    - `require_user`: every call must name a user.
    - `retention`, `cleanup_interval`: automatic cleanup.
    - `durability`: "sync" or "background", with the bounds `max_background` and `max_background_bytes`.
    - `telemetry`: true, or a `Telemetry`, for spans and metrics by OpenTelemetry.
    - `clock`: another source of time, for tests.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        state_type: type[StateT] | None = None,
        max_state_bytes: int = 256 << 20,
        max_index_bytes: int = 64 << 20,
        max_cached_threads: int = MAX_CACHED_THREADS,
        cache_ttl: float = CACHE_TTL,
        retry_for: float = 15.0,
        require_user: bool = False,
        retention: RetentionPolicy | None = None,
        cleanup_interval: float | None = None,
        durability: Durability = "sync",
        max_background: int = 1000,
        max_background_bytes: int = 64 << 20,
        telemetry: Telemetry | bool | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        checked_clock(clock)
        checked_flag("require_user", require_user)
        registry = Registry(parent=DEFAULT_REGISTRY)
        if state_type is not None:
            if not callable(state_type):
                raise ConfigError(
                    f"state_type must be the class of your states, not {shown(state_type)}; leave it out for dicts"
                )
            if (typing.get_origin(state_type) or state_type) not in PLAIN_TYPES:
                registry.register(state_type)
        for name, bound in (
            ("max_state_bytes", max_state_bytes),
            ("max_index_bytes", max_index_bytes),
            ("max_cached_threads", max_cached_threads),
            ("cache_ttl", cache_ttl),
            ("retry_for", retry_for),
            ("max_background", max_background),
            ("max_background_bytes", max_background_bytes),
        ):
            checked_number(name, bound, at_least=0)
        if durability not in ("sync", "background"):
            raise ConfigError(f'durability must be "sync" or "background", not {shown(durability)}')
        observed = checked_telemetry(telemetry)
        self._retention = checked_policy(retention, "retention")
        self._auto_cleanup: AutoCleanup | None = None
        self._clock_watch = ClockWatch(clock)
        own = StateCache(max_threads=max_cached_threads, ttl=cache_ttl, clock=clock)
        shared = shared_states(storage)
        cache: VolatileCache = own if shared is None else SharedStateCache(shared, own, ttl=cache_ttl)
        self._storage = storage
        self._runner: Runner = LoopRunner() if storage.capabilities.suspends else InlineRunner()
        # Closed by every release: an interrupted one may have replaced the other and left this one running.
        self._own_runner = self._runner
        engine = self._engine = Engine(
            storage,
            StateCodec(registry, max_state_bytes=max_state_bytes),
            runner=self._runner,
            cache=cache,
            users=Users(required=require_user),
            max_index_bytes=max_index_bytes,
            retry_for=retry_for,
            clock=clock,
        )
        if durability == "background":
            engine.background = self._new_background(
                max_saves=max_background, max_bytes=max_background_bytes, tasks=engine.tasks
            )
            engine.storage = SettledStorage(storage, engine.background)
        if observed is not None:
            _observe(self, engine, observed)
        self._watchers = Watchers(engine)
        self._loader = Loader(engine)
        if state_type is not None:
            self._loader = Loader(engine, loader_of(state_type), fields_check_of(state_type))
        self._saver = Saver(engine, self._loader)
        self._sweeper = Sweeper(engine)
        if cleanup_interval is not None:
            AutoCleanup(self, interval=cleanup_interval).start()

    def _new_background(self, **options: Any) -> Background:
        return Background(self._runner if isinstance(self._runner, LoopRunner) else LoopRunner(), **options)

    def _limit_history(self, limit: int) -> None:
        """Make every save remove all checkpoints of the thread except the newest `limit`."""
        policy = RetentionPolicy(max_history=checked_number("state_history_limit", limit, "whole number", at_least=1))
        if self._engine.background is not None:
            raise ConfigError(
                'state_history_limit removes checkpoints with each save, so it excludes durability="background": '
                "use retention=clew.RetentionPolicy(max_history=…) and cleanup_interval"
            )

        async def trim(address: Address) -> None:
            try:
                await self.acleanup(policy, config={"thread_id": address.thread_id, "user_id": ANY_USER})
            except ClewError as error:
                # The state is saved, and the next save removes the excess.
                _log.warning(
                    "history not limited: thread %r keeps more checkpoints for now: %s", address.thread_id, error
                )

        self._saver.after_save = trim

    @property
    def storage(self) -> Storage:
        """The storage that keeps everything."""
        return ungated(self._storage)

    @property
    def registry(self) -> Registry:
        """The classes that states may contain: `checkpointer.registry.register(MyState)`."""
        return self._engine.codec.registry

    def run(self, coroutine: Coroutine[Any, Any, R], name: str) -> R:
        """Return the result of `coroutine` to a sync caller, run like the sync twins of this checkpointer.

        `name` is the sync method for messages. Raises BlockingCallError on the checkpointer's own event
        loop, where the functions run that you pass to its methods.
        """
        return self._runner.run(coroutine, name)

    def _as_state(self, state: Any) -> StateT:
        """Return plain data as the checkpointer's `state_type`, as loading does. Raises ConfigError if it does not fit."""
        typed: StateT = self._loader.typed(state)
        return typed

    async def asetup(self) -> None:
        """Prepare the store. Idempotent, safe in concurrent processes, and done automatically on first use."""
        await self._engine.retry(self._engine.storage.setup, "setup")

    async def arelease(self) -> None:
        """Finish pending work and close the storage: no thread, loop or connection is left. Idempotent.

        A released checkpointer is not opened again: every later call raises StorageError.
        """
        if self._auto_cleanup is not None:
            await self._auto_cleanup.astop()
        if not may_block():
            # A sync caller can't wait for these tasks. They only merge rows, and fail once the storage is closed.
            loop = asyncio.get_running_loop()
            mine = [task for task in list(self._engine.tasks) if task.get_loop() is loop]
            await asyncio.gather(*mine, return_exceptions=True)
        await self._watchers.close()
        runner = self._own_runner
        try:
            await self._engine.storage.close()
        except Exception:
            await runner.aclose()
            raise
        # Not after an interrupt: background saves are still under way, and the next release waits for them.
        await runner.aclose()
        self._end()

    async def aping(self) -> None:
        """Check that the storage answers. Raises StorageError if it does not."""
        await self._engine.storage.ping()

    async def astatus(self) -> Status:
        """Return the health of the stores and of background work.

        A store that is down is reported within seconds.
        """
        wrong = await self._problem()
        auto = self._auto_cleanup
        found = Status(primary_healthy=wrong is None, last_error=wrong, cleanup=auto.status if auto else None)
        storage = self._engine.storage
        return await storage.status(found) if isinstance(storage, StorageWrapper) else found

    async def _problem(self) -> str | None:
        """Why the storage does not answer, or `None` if it does."""
        storage = self._engine.storage
        try:
            if may_block():
                # The storage never suspends, so there is no loop for a timeout, and no network.
                await storage.ping()
            else:
                await asyncio.wait_for(storage.ping(), STATUS_TIMEOUT)
        except TimeoutError:
            return f"no answer within {STATUS_TIMEOUT:g} seconds"
        except ClewError as error:
            return str(error) or type(error).__name__
        return None

    def release(self) -> None:
        """Finish what was accepted, and close the storage, its connections and its threads. Idempotent.

        Sync twin of `arelease`. It also ends the thread that ran the other twins.
        """
        try:
            self._runner.run(self.arelease(), "release")
        except Exception:
            self._own_runner.close()
            raise
        self._own_runner.close()

    def _end(self) -> None:
        """Make all later calls raise an error that says that the checkpointer was released."""
        engine = self._engine
        if not isinstance(engine.storage, ReleasedStorage):
            engine.storage = ReleasedStorage(engine.storage)
        # A released storage never suspends: no call starts another thread.
        self._runner = engine.runner = InlineRunner()

    setup = blocking(asetup)
    ping = blocking(aping)
    status = blocking(astatus)

    async def __aenter__(self) -> Self:
        try:
            await self.asetup()
        except BaseException:
            await self.arelease()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.arelease()

    def __enter__(self) -> Self:
        try:
            self.setup()
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


show_public_names(Checkpointer)
BaseCheckpointer = Checkpointer
"""The name that Agentflow's and llmfy's users know."""


def _observe(checkpointer: object, engine: Engine, settings: Telemetry) -> None:
    """Record the calls of `checkpointer` and the operations of its engine's storage."""
    try:
        # OpenTelemetry is imported here and not before.
        from clew.telemetry import ObservedStorage, Recorder, observe_calls
    except ModuleNotFoundError as error:
        raise MissingExtraError("telemetry needs opentelemetry-api: pip install 'clew[otel]'", extra="otel") from error
    settled, background = engine.storage, engine.background
    # Below the waits for background saves, which are not the storage's time.
    storage = settled.inner if isinstance(settled, SettledStorage) else settled
    recorder = Recorder(settings, storage)
    observed = ObservedStorage(storage, recorder)
    if isinstance(settled, SettledStorage):
        settled.inner = observed
    else:
        engine.storage = observed
    if background is not None:
        observed.pending = lambda: background.status.pending
    engine.observer = engine.retries.observer = recorder
    observe_calls(checkpointer, recorder)

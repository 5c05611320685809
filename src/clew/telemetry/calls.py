"""Public calls: each is a span, and a value of the histogram of durations."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any

from opentelemetry.context import attach, detach
from opentelemetry.trace import Span, set_span_in_context

from clew.telemetry import names
from clew.telemetry.recorder import Recorder, current_call, error_attributes, sampled_context


def observe_calls(checkpointer: Any, recorder: Recorder) -> None:
    """Replace the async methods of this object by observed ones. The sync twins call these."""
    for name in public_calls(type(checkpointer)):
        setattr(checkpointer, name, _observed(getattr(checkpointer, name), name[1:], recorder))


def public_calls(kind: type) -> list[str]:
    """The async methods of a checkpointer's class that have a sync twin."""
    return [
        name
        for name in dir(kind)
        if name.startswith("a") and hasattr(kind, name[1:]) and inspect.iscoroutinefunction(getattr(kind, name))
    ]


def _observed(method: Callable[..., Awaitable[Any]], name: str, recorder: Recorder) -> Callable[..., Awaitable[Any]]:
    measured = {**recorder.attributes, names.OPERATION: name}
    described = {**recorder.span_attributes, names.OPERATION: name}
    is_dropped, took, duration = recorder.is_dropped, recorder.instruments.took, recorder.instruments.duration

    @functools.wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        if not is_dropped():
            return await traced(*args, **kwargs)
        mine, begun = current_call.set(None), perf_counter()
        try:
            result = await method(*args, **kwargs)
        except GeneratorExit:
            # The coroutine was abandoned, perhaps in another context, where the variable can't be reset.
            raise
        except BaseException as error:
            took(perf_counter() - begun, {**measured, **error_attributes(error)})
            current_call.reset(mine)
            raise
        took(perf_counter() - begun, measured)
        current_call.reset(mine)
        return result

    async def traced(*args: Any, **kwargs: Any) -> Any:
        span = recorder.tracer.start_span(name, kind=recorder.kind, attributes=described)
        if recorder.thread_ids and span.is_recording():
            _name_thread(span, args, kwargs)
        token, mine = attach(set_span_in_context(span)), current_call.set(sampled_context(span))
        begun, told, abandoned = perf_counter(), measured, False
        try:
            return await method(*args, **kwargs)
        except GeneratorExit:
            abandoned = True
            raise
        except BaseException as error:
            told = {**measured, **recorder.fail(span, error)}
            raise
        finally:
            if not abandoned:
                # While the span is current, so that the SDK can keep it as an exemplar.
                duration.record(perf_counter() - begun, told)
                current_call.reset(mine)
                detach(token)
            span.end()

    return call


def _name_thread(span: Span, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    config = args[0] if args else kwargs.get("config")
    thread_id = config.get("thread_id") if isinstance(config, Mapping) else config
    if isinstance(thread_id, str):
        span.set_attribute(names.CONVERSATION, thread_id)

"""Parts that all routes share: the call's checkpointer and caller, its config, ids in paths, ETags."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote, unquote

from litestar import Request, Response
from litestar.exceptions import SerializationException
from litestar.params import HeaderParameter, PathParameter, QueryParameter
from msgspec.json import encode

import clew
from clew.server.access import Caller
from clew.server.interchange import to_json
from clew.server.problems import Problem, not_found
from clew.server.response_types import told

MOST: Final = 200
"""The largest page of any list."""

Name = Annotated[str, PathParameter(description="An id. Percent-encode slashes and other reserved characters.")]
UserId = Annotated[
    str | None,
    QueryParameter(name="user_id", description="Act for this user. A token for one user may name that user only."),
]
CheckpointId = Annotated[
    str | None, QueryParameter(name="checkpoint_id", description="The checkpoint; without it, the head.")
]
Namespace = Annotated[str | None, QueryParameter(name="namespace", description="The checkpoints' namespace.")]
PageLimit = Annotated[int, QueryParameter(name="limit", ge=1, le=MOST, description="The size of the page.")]
Offset = Annotated[
    int | None, QueryParameter(name="offset", ge=0, le=1 << 31, description="How many results to skip, by number.")
]
Position = Annotated[
    str | None, QueryParameter(name="before", max_length=2000, description="The `next` of the page before.")
]
Search = Annotated[
    str | None, QueryParameter(name="search", min_length=1, max_length=1000, description="Text to find, in any case.")
]
IfMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match", description="The ETag of the head that the change starts from. If it has moved: 412."
    ),
]
IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        max_length=255,
        description="A key of your choice. A repeated request with the same key changes nothing.",
    ),
]


C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Call:
    """One request: the store, and who asks for it."""

    memory: clew.BaseCheckpointer
    caller: Caller

    def config(
        self,
        thread_id: str,
        user_id: str | None,
        *,
        checkpoint_id: str | None = None,
        namespace: str | None = None,
        write: bool = False,
    ) -> dict[str, Any]:
        """Return the config for the thread. `thread_id` is still percent-encoded.

        Raises Problem if the caller may not act for the user, or may not write.
        """
        if write:
            self.caller.must_write()
        named: dict[str, Any] = {"thread_id": unquote(thread_id), "user_id": self.caller.acting_for(user_id)}
        if checkpoint_id is not None:
            named["checkpoint_id"] = checkpoint_id
        if namespace:
            named["checkpoint_ns"] = namespace
        return named


def call_of(request: Request[Any, Any, Any]) -> Call:
    """Return the call of `request`, which the authentication has put into its scope."""
    return Call(request.app.state.memory, request.scope["clew_caller"])  # type: ignore[typeddict-item]


def etag(checkpoint: clew.Checkpoint) -> str:
    """Return the ETag of a checkpoint: its id, and the version of its state if it is known."""
    # The version follows after the first dot.
    name = quote(checkpoint.checkpoint_id, safe="").replace(".", "%2E")
    return f'"{name}.{checkpoint.version}"' if checkpoint.version else f'"{name}"'


def matched_id(if_match: str | None) -> str | None:
    """Return the checkpoint id in an If-Match header, or `None` without one."""
    if if_match is None:
        return None
    tag = if_match.strip().removeprefix("W/")
    if len(tag) < 3 or tag[0] != '"' or tag[-1] != '"' or "," in tag:
        raise Problem(400, "InvalidRequest", 'If-Match takes one ETag in quotes, as in If-Match: "0f3a…"')
    return unquote(tag[1:-1].partition(".")[0])


def derived_id(call: Call, key: str | None, *parts: str) -> str | None:
    """Return the id that a repeated request with the same Idempotency-Key gets again, or `None` without a key."""
    if key is None:
        return None
    if not key:
        raise Problem(400, "InvalidRequest", "Idempotency-Key is empty")
    joined = "\0".join([call.caller.name, key, *parts])
    return hashlib.blake2b(joined.encode("utf-8", "replace"), digest_size=16).hexdigest()


class Asked(Request[Any, Any, Any]):
    """A request whose body may be missing or nested too deep. Litestar would fail on both."""

    __slots__ = ()

    async def body(self) -> bytes:
        # A missing body counts as an empty object: if no field is required, none has to be sent, and
        # otherwise the error names the missing field.
        return await super().body() or b"{}"

    async def json(self) -> Any:
        try:
            return await super().json()
        except SerializationException as error:
            raise Problem(400, "InvalidRequest", f"the body is not JSON: {error.detail}") from None
        except RecursionError:
            raise Problem(400, "InvalidRequest", "the body is nested too deep") from None


class Answer(Response[C]):
    """A JSON response that sends itself. Litestar's own copies its headers, cookies and encoders several times."""

    def __init__(self, content: C, status: int, headers: dict[str, str]) -> None:
        super().__init__(content, status_code=status, headers=headers, media_type="application/json")
        self._body = encode(content)

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        return self

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self._body))]
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self._body})


def answer(content: C) -> Response[C]:
    """Return a JSON response with `content`, in which types that JSON lacks are marked."""
    return plain(to_json(content))


def plain(content: C, *, status: int = 200, headers: dict[str, str] | None = None) -> Response[C]:
    """Return a JSON response with `content`, all of which has types that JSON has: `told` gives such a form."""
    return Answer(content, status, headers or {})


def saved(checkpoint: clew.Checkpoint) -> Response[clew.CheckpointMetadata]:
    """Return the response to a save: the checkpoint without its state, and its ETag."""
    return plain(told(checkpoint.metadata), status=201, headers={"ETag": etag(checkpoint)})


def found(value: C | None, what: str) -> C:
    """Return `value`. Raises Problem 404 if it is `None`."""
    if value is None:
        raise not_found(what)
    return value


def with_ids(messages: list[dict[str, Any]], base: str | None) -> list[dict[str, Any]]:
    """Give each message an id derived from `base`, so that a repeated request replaces the same message."""
    if base is None:
        return messages
    return [{"message_id": f"{base}-{at}", **message} for at, message in enumerate(messages)]
